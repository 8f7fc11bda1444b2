#include "runtime/branches/constrain/grammar/json_reader.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace ocellus {
namespace {

struct Room {
  explicit Room(size_t bytes = 1 << 20) : memory(bytes / 8) {}
  Status read(std::string_view text) {
    return document.read(text, {reinterpret_cast<std::byte*>(memory.data()), 1, int64_t(memory.size()) * 8});
  }
  std::string write(int32_t index = 0) {
    std::string out(1000, '\0');
    const int64_t bytes = write_json(document, index, out.data(), int64_t(out.size()));
    REQUIRE(bytes >= 0);
    return out.substr(0, static_cast<size_t>(bytes));
  }
  std::vector<uint64_t> memory;
  JsonDocument document;
};

/// The text as it is written back, or the failure's sentence.
std::string rewrite(std::string_view text) {
  Room room;
  return room.read(text).ok() ? room.write() : std::string("! ") + last_failure().sentence;
}

TEST_CASE("values are written back as json.dumps spells them, numbers as they were") {
  CHECK(rewrite(" {\"a\":1 ,\t\"b\" :[true,null,false,\"x\"],\n\"c\":{}, \"d\":[]}\r\n") ==
        "{\"a\": 1, \"b\": [true, null, false, \"x\"], \"c\": {}, \"d\": []}");
  for (const char* number : {"0", "-0", "1", "-12", "1.50", "1e5", "1E+05", "0.1e-7", "123456789012345678901234567890"})
    CHECK(rewrite(number) == number);
  CHECK(rewrite("\"\\u00e9\\u20ac\\ud83d\\ude00\\/\"") == "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80/\"");
  CHECK(rewrite("\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001F\\u007f\"") == "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"");
  CHECK(rewrite("\"\\u0000\"") == "\"\\u0000\"");
}

TEST_CASE("text that is no JSON is refused with its line and column") {
  const struct {
    const char *text, *sentence;
  } cases[] = {
      {"", "! line 1, column 1: the text ends where a value is missing"},
      {"{\"a\": 1,\n \"b\" 2}", "! line 2, column 6: a colon is missing"},
      {"[1,]", "! line 1, column 4: this is no JSON value"},
      {"[1 2]", "! line 1, column 4: a comma or the array's end is missing"},
      {"{\"a\": 1 \"b\"}", "! line 1, column 9: a comma or the object's end is missing"},
      {"{\"a\": 1,}", "! line 1, column 9: a member's name is missing"},
      {"{a: 1}", "! line 1, column 2: a member's name is missing"},
      {"1 1", "! line 1, column 3: something follows the value"},
      {"nul", "! line 1, column 1: this is no JSON value"},
      {"NaN", "! line 1, column 1: this is no JSON value"},
      {"01", "! line 1, column 2: a number has a zero before its digits"},
      {"1.", "! line 1, column 3: a digit is missing"},
      {".5", "! line 1, column 1: this is no JSON value"},
      {"+1", "! line 1, column 1: this is no JSON value"},
      {"-", "! line 1, column 2: a digit is missing"},
      {"1e+", "! line 1, column 4: a digit is missing"},
      {"\"a", "! line 1, column 3: a string without an end"},
      {"\"\xc3\xa9\t\"", "! line 1, column 3: a control character in a string must be escaped"},
      {"\"\\x\"", "! line 1, column 2: this is no escape of JSON, or half of a surrogate pair"},
      {"\"\\u12g4\"", "! line 1, column 2: this is no escape of JSON, or half of a surrogate pair"},
      {"\"\\ud800\"", "! line 1, column 2: this is no escape of JSON, or half of a surrogate pair"},
      {"\"\\udc00\"", "! line 1, column 2: this is no escape of JSON, or half of a surrogate pair"},
      {"\"\\ud800\\u0041\"", "! line 1, column 2: this is no escape of JSON, or half of a surrogate pair"},
      {"\"\xff\"", "! line 1, column 2: this is not UTF-8"},
      {"\"\xed\xa0\x80\"", "! line 1, column 2: this is not UTF-8"},
      {"\"\xc0\x80\"", "! line 1, column 2: this is not UTF-8"},
      {"\xef\xbb\xbf{}", "! line 1, column 1: this is no JSON value"},
      {"{\"a\": 1, \"\\u0061\": 2}", "! line 1, column 10: this name stands twice in its object"},
      {"/**/1", "! line 1, column 1: this is no JSON value"},
  };
  for (const auto& c : cases) CHECK(rewrite(c.text) == c.sentence);
}

TEST_CASE("the deepest text that is read has 128 levels") {
  CHECK(rewrite(std::string(128, '[') + std::string(128, ']')) == std::string(128, '[') + std::string(128, ']'));
  CHECK(rewrite(std::string(129, '[') + std::string(129, ']')) ==
        "! line 1, column 129: arrays and objects nest too deep, 128 levels are the most");
}

TEST_CASE("an object has at most 4096 members") {
  const auto object_of = [](int count) {
    std::string text = "{";
    for (int i = 0; i < count; ++i) text += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":0";
    return text + "}";
  };
  Room room;
  CHECK(room.read(object_of(4096)).ok());
  CHECK(room.document.node(0).count == 4096);
  CHECK(room.read(object_of(4097)).code() == Code::kBadArgument);
}

TEST_CASE("memory that is too small is full, whatever its size") {
  const std::string text = "{\"a\": [1, \"\\n\\n\\n\\n\\n\\n\\n\\n\\n\"], \"\\u0062\": null}";
  bool has_fitted = false;
  for (size_t bytes = 0; bytes < 1000; bytes += 8) {
    Room room(bytes);
    const Status status = room.read(text);
    CHECK((status.ok() || status.code() == Code::kFull));
    CHECK((status.ok() || !has_fitted));
    has_fitted = has_fitted || status.ok();
  }
  CHECK(has_fitted);
}

TEST_CASE("a value that does not fit is not written") {
  Room room;
  REQUIRE(room.read("[1, \"a\\n\"]").ok());
  char out[10];
  CHECK(write_json(room.document, 0, out, 9) == -1);
  CHECK(write_json(room.document, 0, out, 10) == 10);
}

TEST_CASE("pointers lead to values, and paths are pointers") {
  Room room;
  REQUIRE(room.read("{\"a/b\": [1, {\"\": 2, \"~\": 3}], \"0\": {\"1\": 4}}").ok());
  char token[100];
  for (const char* pointer : {"", "/a~1b", "/a~1b/0", "/a~1b/1/", "/a~1b/1/~0", "/0/1"}) {
    const int32_t index = room.document.follow(pointer, token);
    REQUIRE(index != kNoJson);
    CHECK(std::string(room.document.path(index).text) == "#" + std::string(pointer));
  }
  CHECK(room.write(room.document.follow("/0/1", token)) == "4");
  for (const char* pointer :
       {"a", "/a~1b/2", "/a~1b/00", "/a~1b/-1", "/a~1b/x", "/a~1b/99999999999", "/~2", "/~", "/0/2"})
    CHECK(room.document.follow(pointer, token) == kNoJson);
}

TEST_CASE("a long path is cut") {
  Room room;
  const std::string text = "{\"" + std::string(500, 'x') + "\": 1}";
  REQUIRE(room.read(text).ok());
  CHECK(std::string(room.document.path(1).text) == "#/" + std::string(197, 'x'));
}

}  // namespace
}  // namespace ocellus
