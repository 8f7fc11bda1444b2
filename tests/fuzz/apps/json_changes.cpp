#include "tests/fuzz/apps/json_changes.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/fuzz/byte_changes.h"

namespace ocellus::fuzz {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kStrings[] = {"",
                                    "user",
                                    "assistant",
                                    "system",
                                    "tool",
                                    "text",
                                    "image_url",
                                    "auto",
                                    "none",
                                    "\x1b[2J",
                                    "<image>",
                                    "<retrieve: a, 3>",
                                    "%n%s",
                                    "a\nb",
                                    "../../etc",
                                    "data:image/png;base64,AAAA",
                                    "data:,",
                                    "1e999",
                                    "\xc3\xa9\xe2\x82\xac",
                                    "data:image/png;base64,====",
                                    "http://a/b.png"};
constexpr const char* kRaw[] = {"1e999",
                                "-1e999",
                                "-0",
                                "0.1e-400",
                                "1E+2",
                                "18446744073709551616",
                                "\"\\ud800\"",
                                "\"\\u0000\"",
                                "\"\xff\"",
                                "NaN",
                                "01",
                                "+1",
                                "'a'",
                                "/**/1",
                                "[,]",
                                "{\"a\"}",
                                "\"\x01\"",
                                "nul",
                                "{\"a\":1,\"a\":2}",
                                "9223372036854775808"};

Json odd_value(Random& random) {
  switch (random.integer(0, 9)) {
    case 0: return nullptr;
    case 1: return once_in(2, random);
    case 2: return static_cast<int64_t>(odd_number(random));
    case 3: return odd_number(random);
    case 4: return std::ldexp(random.uniform(), static_cast<int>(random.integer(-1000, 1000)));
    case 5: return Json::array();
    case 6: return Json::object();
    case 7: return std::string(static_cast<size_t>(random.integer(0, 2000)), 'x');
    default: return pick(kStrings, random);
  }
}

// All values of a tree.
void list_values(Json& value, std::vector<Json*>* all) {
  all->push_back(&value);
  if (value.is_structured())
    for (Json& one : value) list_values(one, all);
}

std::string pick_key(const std::vector<Json*>& all, Random& random) {
  std::vector<std::string> keys;
  for (const Json* value : all)
    if (value->is_object())
      for (const auto& [key, ignored] : value->items()) keys.push_back(key);
  return keys.empty() ? "key" : pick(keys, random);
}

void change_array(Json& array, Random& random) {
  if (array.empty() || once_in(3, random)) return array.push_back(odd_value(random));
  std::vector<Json> items(array.begin(), array.end());
  change_order(items, random);
  array = items;
}

void change_object(Json& object, const std::string& key, Random& random) {
  if (object.empty() || once_in(3, random)) {
    object[key] = odd_value(random);
    return;
  }
  const auto at = std::next(object.begin(), static_cast<std::ptrdiff_t>(pick_index(object.size(), random)));
  const Json value = at.value();
  object.erase(at);
  if (once_in(2, random)) object[once_in(2, random) ? key : std::string("unknown")] = value;
}

void change_tree(Json& tree, Random& random) {
  std::vector<Json*> all;
  list_values(tree, &all);
  Json& value = *pick(all, random);
  switch (random.integer(0, 5)) {
    case 0: value = odd_value(random); return;
    case 1: value = Json(*pick(all, random)); return;
    case 2: value = Json::array({value}); return;
    case 3: value = {{pick_key(all, random), value}}; return;
    default:
      if (value.is_array()) return change_array(value, random);
      if (value.is_object()) return change_object(value, pick_key(all, random), random);
      value = odd_value(random);
  }
}

// Changes that a tree cannot express: keys twice, numbers out of range, depth, broken strings.
void change_text(std::string& text, Random& random) {
  const auto place = [&](const char* wanted) {
    const size_t from = pick_index(text.size() + 1, random);
    const size_t at = text.find_first_of(wanted, from);
    return at == std::string::npos ? text.find_first_of(wanted) : at;
  };
  switch (random.integer(0, 3)) {
    case 0: {  // another value after a colon or comma
      const size_t at = place(":,");
      if (at != std::string::npos) text.insert(at + 1, std::string(pick(kRaw, random)) + ",");
      break;
    }
    case 1: {
      const size_t at = place(":[");
      const auto depth = static_cast<size_t>(once_in(4, random) ? random.integer(33, 2000) : random.integer(1, 40));
      const bool is_array = once_in(2, random);
      std::string open, close;
      for (size_t i = 0; i < depth; ++i) {
        open += is_array ? "[" : "{\"a\":";
        close += is_array ? "]" : "}";
      }
      if (at != std::string::npos) text.insert(at + 1, open + "1" + (once_in(4, random) ? "" : close) + ",");
      break;
    }
    case 2: {  // a number for a number
      const size_t at = place("0123456789");
      if (at == std::string::npos) break;
      const size_t end = std::min(text.find_first_not_of("0123456789.eE+-", at), text.size());
      text.replace(at, end - at, pick(kRaw, random));
      break;
    }
    default: text.insert(pick_index(text.size() + 1, random), pick(kRaw, random));
  }
}

}  // namespace

void change_json(Bytes& input, Random& random) {
  std::string text(input.begin(), input.end());
  Json tree = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (tree.is_discarded() || once_in(4, random)) {
    once_in(4, random) ? change_bytes(input, random) : (change_text(text, random), input = bytes_of(text), void());
    return;
  }
  change_tree(tree, random);
  input = bytes_of(tree.dump(-1, ' ', once_in(4, random), Json::error_handler_t::replace));
}

void change_json_lines(Bytes& input, Random& random) {
  std::vector<Bytes> lines(1);
  for (const uint8_t byte : input) {
    if (byte != '\n') {
      lines.back().push_back(byte);
    } else {
      lines.emplace_back();
    }
  }
  once_in(4, random) ? change_order(lines, random) : change_json(pick(lines, random), random);
  input.clear();
  for (const Bytes& line : lines) {
    input.insert(input.end(), line.begin(), line.end());
    input.push_back('\n');
  }
}

}  // namespace ocellus::fuzz
