// Texts of any bytes as JSON and as schemas, in memory of any size.
#include <memory>
#include <string>

#include "runtime/branches/constrain/grammar/json_reader.h"
#include "runtime/branches/constrain/grammar/schema.h"
#include "tests/fuzz/byte_changes.h"

namespace ocellus::fuzz {
namespace {

constexpr const char* kSeeds[] = {
    R"({"type": "object", "properties": {"a": {"type": "integer", "minimum": -5, "exclusiveMaximum": 1e3}, "b": {"enum":
    [1, "x\n", {"c": [null, 2.5]}]}}, "required": ["b"], "additionalProperties": {"type": "string"}, "minProperties": 2})",
    R"({"$defs": {"n/~": {"anyOf": [{"type": "null"}, {"properties": {"next": {"$ref": "#/$defs/n~1~0"}}}]}}, "type":
    "array", "items": {"$ref": "#/$defs/n~1%7E0", "title": "t"}, "prefixItems": [{"const": 0}, true], "maxItems": 5})",
    R"({"allOf": [{"properties": {"x": {"type": "number", "minimum": 0.25, "maximum": 7}}}, {"properties": {"y":
    {"pattern": "^[a-c]+$"}, "z": {"format": "date-time"}}, "maxProperties": 1}], "oneOf": [{"required": ["x"]}, true]})",
    R"({"type": ["string", "null"], "minLength": 1, "maxLength": 20, "description": "\ud83d\ude00é\u0000"})"};
constexpr const char* kPieces[] = {"\"anyOf\": [",
                                   "\"allOf\": [{",
                                   "\"$ref\": \"#\"",
                                   "\"$ref\": \"#/$defs/n~1~0\"",
                                   "{\"not\": {}}",
                                   "\"items\": {",
                                   "\"properties\": {\"a\": {",
                                   "\"additionalProperties\": true",
                                   "\"prefixItems\": [",
                                   "\"minimum\": 1e-5",
                                   "\"minLength\": 2147483646",
                                   "\"minProperties\": 1",
                                   "\"maxItems\": 0",
                                   "\"const\": {\"a\": [1]}",
                                   "\"enum\": [",
                                   "\"pattern\": \"(a|b){2,}\"",
                                   "\"format\": \"ipv6\"",
                                   "true",
                                   "false",
                                   "null",
                                   "-0.5e-300",
                                   "999999999999999999",
                                   "\\ud800",
                                   "\\u0061",
                                   "]",
                                   "}",
                                   ", ",
                                   ": ",
                                   "\"",
                                   "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["};

// Memory on the heap, exactly as large as it says.
struct Room {
  explicit Room(size_t size) : bytes(new std::byte[size]), size_bytes(static_cast<int64_t>(size)) {}
  HostView<std::byte> view() const { return {bytes.get(), 1, size_bytes}; }
  std::unique_ptr<std::byte[]> bytes;
  int64_t size_bytes;
};

bool is_refusal(Status status) {
  return status.code() == Code::kBadArgument || status.code() == Code::kUnsupported || status.code() == Code::kFull;
}

// The value as it is written, or nothing if it does not fit.
std::string write(const JsonDocument& document) {
  const HostView<std::byte> room = document.free_memory();
  char* const text = reinterpret_cast<char*>(room.data);
  const int64_t bytes = write_json(document, 0, text, room.cols);
  return bytes < 0 ? std::string() : std::string(text, static_cast<size_t>(bytes));
}

void run_json(std::string_view text, size_t room_bytes) {
  const Room room(room_bytes), room_again(size_t{2} << 20);
  JsonDocument document, again;
  const Status status = document.read(text, room.view());
  require(status.ok() || is_refusal(status), "text that is no JSON is refused");
  if (!status.ok()) return;
  const std::string written = write(document);
  if (written.empty() || !again.read(written, room_again.view()).ok()) return;
  require(write(again) == written, "what was written is read as it is");
}

// The first byte chooses how much memory there is and how spaces are written.
bool run(const uint8_t* data, size_t size) {
  if (size == 0) return false;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t room_bytes = size_t{8} << (data[0] % 16 + 2);
  run_json(text, room_bytes);
  const Room workspace(room_bytes), memory(size_t{1} << 20);
  Grammar grammar(memory.view());
  Expression all = kNoExpression;
  const Status status = read_schema(text, {.free_space = (data[0] & 16) != 0}, workspace.view(), &grammar, &all);
  require(status.ok() || is_refusal(status), "a schema is read or refused");
  require(!status.ok() || (all != kNoExpression && grammar.node(all).kind != ExpressionKind::kNever),
          "a schema that is read has a value");
  return status.ok();
}

std::vector<Bytes> make_seeds() {
  std::vector<Bytes> seeds;
  for (const std::string_view text : kSeeds) {
    for (const uint8_t choice : {13, 15 + 16}) {
      seeds.push_back({choice});
      seeds.back().insert(seeds.back().end(), text.begin(), text.end());
    }
  }
  return seeds;
}

void change_schema(Bytes& input, Random& random) {
  if (input.empty()) input.push_back(15);
  const size_t at = 1 + pick_index(input.size(), random);
  const auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
  const std::string_view piece = pick(kPieces, random);
  switch (random.integer(0, 5)) {
    case 0: input[0] = static_cast<uint8_t>(random.bits()); break;
    case 1: {  // a part of the text once more, where another begins
      const size_t from = 1 + pick_index(input.size(), random);
      const Bytes part(input.begin() + static_cast<std::ptrdiff_t>(std::min(from, input.size())), input.end());
      input.insert(place, part.begin(), part.end());
      break;
    }
    case 2: change_bytes(input, random); break;
    default: input.insert(place, piece.begin(), piece.end());
  }
}

const Registration kRegistered({.name = "schema",
                                .make_seeds = make_seeds,
                                .mutate = change_schema,
                                .run = run,
                                .most_bytes = 8192,
                                .most_heap_bytes = int64_t{8} << 20});

}  // namespace
}  // namespace ocellus::fuzz
