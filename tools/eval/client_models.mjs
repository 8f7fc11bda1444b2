// Models as client_models.py has them, written with zod 4, and their schemas, one JSON object a line.
//
//   node client_models.mjs ZOD > FILE
//
// ZOD: the package's main module (zod 4.4).
const z = await import(process.argv[2]);

const colour = z.enum(["red", "green", "blue"]);
const point = z.object({ x: z.int(), y: z.int() });
const share = z.number().min(0).max(1);
const box = z.object({ left: share, top: share, right: share, bottom: share });
const detection = z.object({ label: z.string().min(1).max(40).describe("What it is."), score: share, box });
const move = z.object({ kind: z.literal("move"), to: point, speed: z.number().gt(0).max(2).default(0.5) });
const grasp = z.object({ kind: z.literal("grasp"), target: z.string(), force: z.number().multipleOf(0.5).min(0).max(20) });
const wait = z.object({ kind: z.literal("wait"), seconds: z.int().min(1).max(600) });
const step = z.discriminatedUnion("kind", [move, grasp, wait]);
const address = z.object({ street: z.string(), city: z.string(), postcode: z.string().regex(/^\d{5}$/), country: z.string().length(2).regex(/^[A-Z]{2}$/) });
const item = z.object({ description: z.string(), quantity: z.int().positive(), unit_price: z.number().nonnegative() });
const tree = z.object({ name: z.string(), get children() { return z.array(tree); } });
const list = z.object({ value: z.number(), get next() { return list.nullable(); } });
const cat = z.object({ animal: z.literal("cat"), indoor: z.boolean() });
const dog = z.object({ animal: z.literal("dog"), breed: z.string() });

const models = {
  detections: z.object({ objects: z.array(detection).max(20) }),
  count: z.object({ what: z.enum(["person", "car", "bicycle"]), count: z.int().nonnegative() }),
  invoice: z.object({ number: z.string().regex(/^INV-\d{4,8}$/).max(12), issued: z.iso.date(), due: z.iso.date().optional(), seller: address, items: z.array(item).nonempty(), total: z.number(), currency: z.enum(["EUR", "USD"]).default("EUR") }),
  receipt: z.object({ shop: z.string(), bought: z.iso.datetime(), total: z.number().gt(0).meta({ unit: "EUR" }), paid_by: z.enum(["cash", "card"]).nullish() }),
  plate: z.object({ plate: z.string().regex(/^[A-Z0-9-]+$/).max(8), country: z.string().regex(/^[A-Z]{1,3}$/).nullable() }),
  robot_command: z.strictObject({ command: step, why: z.string().max(200) }),
  robot_plan: z.object({ steps: z.array(step).min(1).max(8) }),
  colour_counts: z.object({ counts: z.record(colour, z.int()) }),
  some_colours: z.object({ counts: z.partialRecord(colour, z.int()) }),
  word_counts: z.object({ words: z.record(z.string().regex(/^[a-z]+$/), z.int().positive()) }),
  any_record: z.object({ values: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])) }),
  loose_record: z.looseRecord(z.string().regex(/^x_/), z.number()),
  by_number: z.object({ lyrics: z.record(z.number(), z.string()) }),
  tree, list,
  contact: z.object({ email: z.email().max(254), phone: z.e164().optional(), website: z.url().nullable() }),
  event: z.object({ id: z.uuid(), at: z.iso.datetime({ offset: true }), lasts: z.iso.duration(), opens: z.iso.time() }),
  ids: z.object({ v4: z.uuidv4(), v7: z.uuidv7(), nano: z.nanoid(), cuid: z.cuid2(), ulid: z.ulid(), guid: z.guid() }),
  addresses: z.object({ v4: z.ipv4(), v6: z.ipv6(), block: z.cidrv4(), block6: z.cidrv6(), mac: z.mac() }),
  hostname: z.object({ host: z.hostname() }),
  texts: z.object({ b64: z.base64(), url64: z.base64url(), jwt: z.jwt(), hex: z.hex() }),
  words: z.object({ code: z.string().startsWith("ab").endsWith("cd").includes("x").max(10), low: z.string().lowercase(), up: z.string().uppercase().max(20), trimmed: z.string().trim().min(1).max(80) }),
  password: z.object({ password: z.string().regex(/^(?=.*[A-Z])(?=.*\d)[A-Za-z\d]{8,32}$/) }),
  version: z.object({ version: z.templateLiteral(["v", z.int(), ".", z.int()]), not_x: z.string().regex(/^(?!x)[a-z]+$/) }),
  numbers: z.object({ a: z.int32(), b: z.float32(), c: z.uint32(), d: z.number().int().multipleOf(5), e: z.number().positive(), f: z.number().negative() }),
  price: z.object({ amount: z.number().multipleOf(0.01) }),
  pet: z.object({ pet: z.discriminatedUnion("animal", [cat, dog]) }),
  either: z.xor([z.string(), z.number()]),
  segment: z.object({ ends: z.tuple([point, point]), widths: z.tuple([z.number()], z.number()), pair: z.tuple([z.string(), z.int()]) }),
  both: z.intersection(z.looseObject({ a: z.string() }), z.looseObject({ b: z.number() })),
  loose: z.looseObject({ name: z.string() }),
  catchall: z.object({ name: z.string() }).catchall(z.int()),
  never: z.object({ name: z.string(), old: z.never().optional() }),
  anything: z.object({ kind: z.string(), data: z.any(), more: z.unknown() }),
  literals: z.object({ depth: z.literal([8, 10, 12]), flag: z.literal(true), none: z.null() }),
  read_only: z.object({ name: z.string() }).readonly(),
  shared: z.object({ from: point.meta({ id: "Point", title: "Place" }), to: z.object({ x: z.int() }).meta({ id: "Line" }) }),
};

for (const [name, model] of Object.entries(models)) console.log(JSON.stringify({ name, schema: z.toJSONSchema(model) }));
