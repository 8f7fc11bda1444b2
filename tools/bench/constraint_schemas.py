"""Schemas such as programs ask of a camera or a document, each with answers: lines for constraint_bench.

    constraint_schemas.py > schemas.jsonl"""
import json
import random

ANSWERS = 4
COLOURS = ["red", "green", "blue", "yellow", "black", "white", "grey", "orange", "purple", "brown"]
THINGS = ["car", "person", "dog", "bicycle", "traffic light", "forklift", "cardboard box", "fire extinguisher", "cup"]
WORDS = ("the a is of on near left right behind in front two small large wooden parked standing person car door table "
         "window because there are no visible signs light street shelf empty bottle probably moving towards camera "
         "façade café naïve größer 箱子 “quoted” \"so\" 50% it's").split()
NAMES = ["Ada", "Grace Hopper", "José", "Søren Kierkegaard", "Li Wei", "O'Neill", "Anne-Marie", "Zoë"]
rng = random.Random(23)


def words(least, most):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))


def text(**limits):
    return {"type": "string", **limits}


def integer(**limits):
    return {"type": "integer", **limits}


def number(**limits):
    return {"type": "number", **limits}


def one_of(*values):
    return {"enum": list(values)}


def array(items, **limits):
    return {"type": "array", "items": items, **limits}


def members(optional=(), **properties):
    return {"type": "object", "properties": properties,
            "required": [name for name in properties if name not in optional], "additionalProperties": False}


def several(make, least, most):
    return [make() for _ in range(rng.randint(least, most))]


def hex_digits(count):
    return "".join(rng.choice("0123456789abcdef") for _ in range(count))


def date():
    return f"{rng.randint(1990, 2030)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def moment():
    return f"{date()}T{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}Z"


def uuid():
    return "-".join(hex_digits(count) for count in (8, 4, 4, 4, 12))


def flat(**makers):
    """An object's schema and a maker of values, of pairs of both by name."""
    return (members(**{name: schema for name, (schema, _) in makers.items()}),
            lambda: {name: make() for name, (_, make) in makers.items()})


def list_of(pair, least=0, most=6, **limits):
    return array(pair[0], **limits), lambda: several(pair[1], least, most)


def choice(values):
    return one_of(*values), lambda: rng.choice(values)


SENTENCE = text(), lambda: words(5, 25)
SHORT = text(maxLength=80), lambda: words(2, 10)[:80]
NAME = text(minLength=1, maxLength=40), lambda: rng.choice(NAMES)
COLOUR = choice(COLOURS)
THING = text(), lambda: rng.choice(THINGS)
FLAG = {"type": "boolean"}, lambda: rng.random() < .5
COUNT = integer(minimum=0, maximum=100), lambda: rng.randint(0, 100)
ANY_INTEGER = integer(), lambda: rng.randint(-10**6, 10**6)
SHARE = number(minimum=0, maximum=1), lambda: round(rng.random(), 3)
ANY_NUMBER = number(), lambda: round(rng.uniform(-1000, 1000), 2)
BOX = array(integer(minimum=0, maximum=1000), minItems=4, maxItems=4), lambda: several(lambda: rng.randint(0, 1000), 4, 4)
PLACE = choice(["left", "centre", "right", "top left", "top right", "bottom left", "bottom right"])
DATE = text(format="date"), date
MOMENT = text(format="date-time"), moment
UUID = text(format="uuid"), uuid
EMAIL = text(format="email"), lambda: f"{rng.choice(['ada', 'grace.h', 'li_wei'])}@example{rng.randint(1, 99)}.org"
ADDRESS = flat(street=SHORT, city=NAME, zip=(text(pattern="^[0-9]{5}$"), lambda: f"{rng.randint(0, 99999):05}"),
               country=choice(["DE", "FR", "JP", "US", "BR", "IN"]))
PERSON = flat(name=NAME, age=(integer(minimum=0, maximum=150), lambda: rng.randint(0, 99)), address=ADDRESS)
OBJECT = flat(label=THING, colour=COLOUR, place=PLACE, box=BOX)


def nullable(pair):
    return {"anyOf": [pair[0], {"type": "null"}]}, lambda: pair[1]() if rng.random() < .7 else None


def pattern(expression, make):
    return text(pattern=expression), make


def tree(depth=0):
    return {"name": rng.choice(THINGS),
            "children": several(lambda: tree(depth + 1), 0, 3) if depth < 3 else []}


def expression(depth=0):
    if depth > 3 or rng.random() < .3:
        return rng.randint(-99, 99)
    return {"op": rng.choice("+-*/"), "left": expression(depth + 1), "right": expression(depth + 1)}


TREE = ({"$ref": "#/$defs/node", "$defs": {"node": members(name=text(), children=array({"$ref": "#/$defs/node"}))}},
        tree)
EXPRESSION = ({"$ref": "#/$defs/e", "$defs": {"e": {"anyOf": [
    integer(), members(op=one_of("+", "-", "*", "/"), left={"$ref": "#/$defs/e"}, right={"$ref": "#/$defs/e"})]}}},
    expression)


def mapping(pair, **listed):
    schema = {"type": "object", "properties": {name: p[0] for name, p in listed.items()}, "required": list(listed),
              "additionalProperties": pair[0]}
    return schema, lambda: ({name: p[1]() for name, p in listed.items()}
                            | {rng.choice(THINGS).replace(" ", "_") + str(i): pair[1]() for i in range(rng.randint(1, 5))})


def optional_members():
    every = {"title": SHORT, "year": (integer(minimum=1900, maximum=2100), lambda: rng.randint(1900, 2100)),
             "genre": choice(["drama", "comedy", "documentary"]), "rating": SHARE, "notes": SENTENCE}
    schema = members(optional=("year", "genre", "notes"), **{name: pair[0] for name, pair in every.items()})
    return schema, lambda: {name: pair[1]() for name, pair in every.items()
                            if name in ("title", "rating") or rng.random() < .5}


def tool_call():
    calls = {"move": flat(x=ANY_NUMBER, y=ANY_NUMBER), "say": flat(text=SENTENCE), "stop": flat(reason=SHORT)}
    schema = {"anyOf": [members(tool={"const": name}, arguments=pair[0]) for name, pair in calls.items()]}

    def make():
        name = rng.choice(list(calls))
        return {"tool": name, "arguments": calls[name][1]()}
    return schema, make


def any_json(depth=0):
    kind = rng.randint(0, 6 if depth < 3 else 4)
    if kind == 5:
        return several(lambda: any_json(depth + 1), 0, 4)
    if kind == 6:
        return {rng.choice(THINGS): any_json(depth + 1) for _ in range(3)}
    return [words(1, 5), rng.randint(-999, 999), True, None, .25][kind]


def all_schemas():
    return {
        "objects": list_of(OBJECT), "objects in an object": flat(objects=list_of(OBJECT)),
        "objects, at most 8": flat(objects=list_of(OBJECT, maxItems=8)),
        "detections": list_of(flat(label=choice(THINGS), score=SHARE, box=BOX)),
        "yes or no": flat(answer=choice(["yes", "no"]), reason=SENTENCE),
        "boolean with reason": flat(answer=FLAG, reason=SHORT), "reason first": flat(reason=SENTENCE, answer=FLAG),
        "count": flat(count=COUNT), "counts": flat(cars=COUNT, people=COUNT, dogs=COUNT),
        "caption": flat(caption=SENTENCE), "caption, at most 200": flat(caption=(text(maxLength=200), lambda: words(3, 20))),
        "caption, 20 to 300": flat(caption=(text(minLength=20, maxLength=300), lambda: words(12, 30))),
        "text": SENTENCE, "short text": SHORT, "enumeration": COLOUR,
        "long enumeration": choice([f"{colour} {thing}" for colour in COLOURS for thing in THINGS]),
        "tags": list_of((text(maxLength=20), lambda: rng.choice(THINGS)), least=1, minItems=1, maxItems=10),
        "tags of a list": list_of(choice(THINGS)), "scene": flat(
            scene=choice(["indoor", "outdoor"]), weather=nullable(choice(["sunny", "rain", "snow", "fog"])),
            people=COUNT, description=SENTENCE, hazards=list_of(SHORT, most=3)),
        "address": ADDRESS, "person": PERSON, "people": list_of(PERSON, most=3),
        "order": flat(id=UUID, customer=PERSON, placed=MOMENT, lines=list_of(flat(
            article=pattern("^[A-Z]{2}-[0-9]{4}$", lambda: f"{rng.choice(['AB', 'ZX'])}-{rng.randint(1000, 9999)}"),
            quantity=(integer(minimum=1, maximum=999), lambda: rng.randint(1, 999)), price=ANY_NUMBER))),
        "receipt": flat(shop=NAME, date=DATE, total=ANY_NUMBER, currency=choice(["EUR", "USD", "JPY"]),
                        items=list_of(flat(name=SHORT, price=ANY_NUMBER))),
        "date": flat(date=DATE), "moments": list_of(MOMENT), "identifier": UUID, "mail": flat(mail=EMAIL, name=NAME),
        "number plate": flat(plate=pattern("^[A-Z]{1,3}-[A-Z]{1,2} [0-9]{1,4}$", lambda: f"B-AB {rng.randint(1, 9999)}")),
        "words by pattern": pattern("^[a-z]+( [a-z]+)*$", lambda: " ".join(rng.choice(["red", "car", "left"]) for _ in range(6))),
        "hexadecimal": pattern("^#[0-9a-f]{6}$", lambda: "#" + hex_digits(6)),
        "identifier by pattern": flat(name=pattern("^[A-Za-z_][A-Za-z0-9_]{0,30}$", lambda: rng.choice(["left_arm", "x1", "Robot"]))),
        "telephone": pattern("^\\+?[0-9 ()-]{5,20}$", lambda: f"+49 30 {rng.randint(10000, 999999)}"),
        "integers": list_of(ANY_INTEGER, most=12), "numbers": list_of(ANY_NUMBER, most=12),
        "bounded": flat(a=(integer(minimum=-50, maximum=1234), lambda: rng.randint(-50, 1234)), b=SHARE,
                        c=(number(exclusiveMinimum=0), lambda: round(rng.uniform(.01, 99), 2))),
        "matrix": list_of(list_of((number(), lambda: round(rng.random(), 2)), 3, 3, minItems=3, maxItems=3), 3, 3,
                          minItems=3, maxItems=3),
        "pair": ({"type": "array", "prefixItems": [text(), integer()], "items": False, "minItems": 2},
                 lambda: [rng.choice(THINGS), rng.randint(0, 99)]),
        "tree": TREE, "expression": EXPRESSION, "tool call": tool_call(), "optional members": optional_members(),
        "map of counts": mapping(COUNT), "map of texts": mapping(SENTENCE), "map of objects": mapping(flat(x=COUNT, y=COUNT)),
        "listed and other names": mapping(SHORT, name=NAME, colour=COLOUR), "listed names": mapping(COUNT, car=COUNT, cat=COUNT, cup=COUNT),
        "anything": ({}, any_json), "any object": ({"type": "object"}, lambda: {"scene": any_json(), "more": any_json()}),
        "nullable": flat(plate=nullable(SHORT), speed=nullable(ANY_NUMBER)),
        "text or number": list_of(({"anyOf": [text(), number()]}, lambda: rng.choice([words(1, 4), round(rng.random(), 2)]))),
        "steps": list_of(flat(step=ANY_INTEGER, thought=SENTENCE, action=choice(["go", "turn", "grip", "wait"])), most=4),
        "robot": flat(joints=(array(number(minimum=-3.15, maximum=3.15), minItems=6, maxItems=6),
                              lambda: several(lambda: round(rng.uniform(-3, 3), 3), 6, 6)), gripper=FLAG, note=SHORT),
        "questions": flat(questions=list_of(flat(question=SENTENCE, choices=(array(text(), minItems=4, maxItems=4),
                          lambda: several(lambda: words(1, 4), 4, 4)), correct=(integer(minimum=0, maximum=3), lambda: rng.randint(0, 3))), most=2)),
    }


def main():
    for name, (schema, make) in all_schemas().items():
        answers = [json.dumps(make(), ensure_ascii=False) for _ in range(ANSWERS)]
        print(json.dumps({"name": name, "schema": schema, "answers": answers}, ensure_ascii=False))


main()
