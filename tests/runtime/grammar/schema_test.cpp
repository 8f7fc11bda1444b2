#include "runtime/grammar/schema.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/grammar_reference.h"

namespace ocellus {
namespace {

class Schema {
 public:
  explicit Schema(const std::string& text, bool free_space = false, size_t bytes = size_t{4} << 20)
      : workspace_(bytes / 8), memory_(bytes / 8), grammar_(view(memory_)) {
    const Status status = read_schema(text, {.free_space = free_space}, view(workspace_), &grammar_, &all_);
    code_ = status.code();
    if (!status.ok()) sentence_ = last_failure().sentence;
  }

  bool matches(std::string_view text) {
    REQUIRE_MESSAGE(code_ == Code::kOk, sentence_);
    return test::GrammarReference(grammar_, text).matches(all_);
  }
  Code code() const { return code_; }
  const std::string& sentence() const { return sentence_; }

 private:
  static HostView<std::byte> view(std::vector<uint64_t>& room) {
    return {reinterpret_cast<std::byte*>(room.data()), 1, static_cast<int64_t>(room.size()) * 8};
  }
  std::vector<uint64_t> workspace_, memory_;
  Grammar grammar_;
  Expression all_ = kNoExpression;
  Code code_ = Code::kOk;
  std::string sentence_;
};

using Texts = std::vector<const char*>;

void check(const char* schema, const Texts& yes, const Texts& no) {
  Schema all(schema);
  for (const char* text : yes) CHECK_MESSAGE(all.matches(text), schema, " | ", text);
  for (const char* text : no) CHECK_MESSAGE(!all.matches(text), schema, " | ", text);
}

void check_failure(const std::string& schema, Code code, const char* sentence) {
  const Schema failed(schema);
  CHECK_MESSAGE(failed.code() == code, schema);
  CHECK(failed.sentence() == sentence);
}
void check_refused(const std::string& schema, const char* sentence) {
  check_failure(schema, Code::kUnsupported, sentence);
}
void check_rejected(const std::string& schema, const char* sentence) {
  check_failure(schema, Code::kBadArgument, sentence);
}

TEST_CASE("a schema that is true or empty has all values") {
  const Texts yes = {"null",         "true",
                     "false",        "0",
                     "-1.5e-07",     "\"\"",
                     "[]",           "{}",
                     "[1, [\"a\"]]", "{\"a\": {\"b\": [1, null]}, \"\": 0}",
                     "1.0",          "\"\\u00e9\\n\""};
  const Texts no = {"",      "nul",     "01",     "-",     "1.",      "[1,2]",       "{\"a\":1}", " 1",
                    "1 ",    "[1, ]",   "{1: 2}", "1e",    "\"",      "\"\\ud800\"", "\"\n\"",    "\"\\x\"",
                    "[1 2]", "{\"a\"}", "+1",     "1e100", "\"a\"\"", "[",           "NaN"};
  for (const char* schema : {"true", "{}", "{\"title\": \"anything\", \"default\": 1}"}) check(schema, yes, no);
}

TEST_CASE("types are what they are called") {
  check(R"({"type": "null"})", {"null"}, {"true", "0", ""});
  check(R"({"type": "boolean"})", {"true", "false"}, {"null", "truefalse"});
  check(R"({"type": "integer"})", {"0", "-1", "10", "999999999999999999", "-999999999999999999"},
        {"-0", "01", "1.0", "1e1", "1000000000000000000", "-", "--1"});
  check(R"({"type": "number"})", {"0", "-0.5", "1.25", "1e5", "12E-07", "9999999999999999.9999999999999999e99"},
        {"00", ".5", "1.", "1e", "1e123", "10000000000000000"});
  check(R"({"type": "string"})", {"\"\"", "\"a b\"", "\"\\\"\"", "\"\\u0041\"", "\"\\uD7FF\"", "\"\xc3\xa9\""},
        {"\"", "\"a", "a", "\"\\uD800\"", "\"\\uDFFF\"", "\"\\u004\"", "\"\x01\"", "\"\xc3\""});
  check(R"({"type": "array"})", {"[]", "[1, \"a\", [null]]"}, {"[1,2]", "{}", "[,]"});
  check(R"({"type": "object"})", {"{}", "{\"a\": 1, \"b\": {}}"}, {"[]", "{\"a\": 1,}"});
  check(R"({"type": ["string", "null"]})", {"\"a\"", "null"}, {"1", "true"});
  check(R"({"type": ["integer", "number"]})", {"1", "1.5"}, {"\"\""});
}

TEST_CASE("a schema without a type is of the types that its keywords are about") {
  check(R"({"minLength": 2})", {"\"ab\""}, {"\"a\"", "1"});
  check(R"({"properties": {"a": {"type": "null"}}})", {"{}", "{\"a\": null}"}, {"1"});
  check(R"({"minimum": 1, "maxItems": 0})", {"1", "[]"}, {"0", "[1]", "null"});
}

TEST_CASE("strings are counted by characters, escaped ones too") {
  check(R"({"type": "string", "minLength": 2, "maxLength": 3})",
        {"\"ab\"", "\"abc\"", "\"\xf0\x9f\x98\x80\xc3\xa9\"", "\"\\n\\u00e9\\\\\""}, {"\"a\"", "\"abcd\"", "\"\\n\""});
  check(R"({"type": "string", "maxLength": 0})", {"\"\""}, {"\"a\""});
  check(R"({"type": "integer", "minLength": 5})", {"1"}, {});
  check(R"({"type": "string", "maxLength": 2.0})", {"\"ab\""}, {"\"abc\""});
}

TEST_CASE("a pattern is found anywhere in the string, whose quotes are escaped") {
  check(R"({"type": "string", "pattern": "^[a-c]+\"$"})", {"\"abc\\\"\""}, {"\"\"", "\"abc\"", "\"d\\\"\""});
  check(R"({"type": "string", "pattern": "b\\d"})", {"\"b1\"", "\"ab2c\""}, {"\"b\"", "\"\""});
  check_refused(R"({"properties": {"a/b": {"type": "string", "pattern": "a", "minLength": 1}}})",
                "#/properties/a~1b/pattern: this cannot be combined with minLength and maxLength");
  check_refused(R"({"pattern": "a", "format": "date"})", "#/pattern: this cannot be combined with a format");
  check_refused(R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})",
                "#/allOf/1/pattern: several of these cannot be combined");
  const Schema bad(R"({"pattern": "("})");
  CHECK(bad.code() == Code::kBadArgument);
  CHECK(bad.sentence().rfind("#/pattern: ", 0) == 0);
}

TEST_CASE("formats are held") {
  check(R"({"type": "string", "format": "date"})",
        {"\"2024-02-29\"", "\"2000-02-29\"", "\"0004-02-29\"", "\"1999-12-31\"", "\"0001-01-01\"", "\"2023-04-30\""},
        {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-02-30\"", "\"0000-01-01\"", "\"0000-02-29\"", "\"2023-04-31\"",
         "\"2023-13-01\"", "\"2023-00-10\"", "\"2023-1-1\"", "\"2023-01-00\""});
  check(R"({"type": "string", "format": "time"})", {"\"00:00:00Z\"", "\"23:59:59.125+05:30\""},
        {"\"24:00:00Z\"", "\"12:00:60Z\"", "\"12:00:00\"", "\"12:00Z\""});
  check(R"({"type": "string", "format": "date-time"})", {"\"2024-02-29T12:00:00Z\"", "\"1999-12-31T23:59:59.9-08:00\""},
        {"\"2023-02-29T12:00:00Z\"", "\"2024-02-29 12:00:00Z\"", "\"2024-02-29\""});
  check(R"({"type": "string", "format": "uuid"})", {"\"01234567-89ab-cdef-0123-456789abcdef\""},
        {"\"0123456789abcdef0123456789abcdef\"", "\"\""});
  check(R"({"type": "string", "format": "ipv4"})", {"\"0.0.0.0\"", "\"255.249.199.99\""},
        {"\"256.0.0.0\"", "\"1.2.3\"", "\"01.2.3.4\"", "\"1.2.3.4.5\""});
  check(R"({"type": "string", "format": "ipv6"})",
        {"\"::\"", "\"::1\"", "\"1::\"", "\"1:2:3:4:5:6:7:8\"", "\"1:2:3:4:5:6:7::\"", "\"::2:3:4:5:6:7:8\"",
         "\"1::3:4:5:6:7:8\"", "\"fe80::1:ab\""},
        {"\":\"", "\"1:2\"", "\"1::2::3\"", "\"1:2:3:4:5:6:7:8:9\"", "\"12345::\"", "\":::\"", "\"1:2:3:4:5:6:7\""});
  check(R"({"type": "string", "format": "email"})", {"\"a.b+c@example.org\""},
        {"\"a\"", "\"@a\"", "\"a@\"", "\"a@-b\""});
  check(R"({"type": "string", "format": "hostname"})", {"\"a\"", "\"a-b.example\""},
        {"\"\"", "\"-a\"", "\"a-\"", "\"a..b\""});
  check(R"({"type": "string", "format": "uri"})", {"\"https://example.org:80/a/b?c=d#e\"", "\"ftp://a\""},
        {"\"example.org\"", "\"http:\"", "\"http://a b\""});
  check_refused(R"({"items": {"format": "regex"}})", "#/items/format: the format is not supported");
  check_rejected(R"({"format": 1})", "#/format: this must be a string");
  check(R"({"type": "integer", "format": "int32"})", {"1"}, {});
}

TEST_CASE("bounds of integers are exact") {
  const std::vector<std::pair<int, int>> ranges = {{0, 0},    {0, 9},    {3, 7},      {5, 123},   {-5, 5},
                                                   {-20, -3}, {99, 101}, {100, 1000}, {17, 1999}, {-1000, 250}};
  for (const auto& [low, high] : ranges) {
    Schema schema("{\"type\": \"integer\", \"minimum\": " + std::to_string(low) +
                  ", \"maximum\": " + std::to_string(high) + "}");
    for (int i = -1100; i <= 2100; i += (i > low - 15 && i < low + 15) || (i > high - 15 && i < high + 15) ? 1 : 7)
      CHECK_MESSAGE(schema.matches(std::to_string(i)) == (low <= i && i <= high), low, " ", i, " ", high);
    CHECK(!schema.matches("-0"));
    CHECK(!schema.matches("00"));
  }
  check(R"({"type": "integer", "minimum": 1})", {"1", "999999999999999999"}, {"0", "-1", "1000000000000000000"});
  check(R"({"type": "integer", "exclusiveMaximum": -1})", {"-2", "-999999999999999999"}, {"-1", "0"});
  check(R"({"type": "integer", "minimum": 1.5, "exclusiveMaximum": 4.0})", {"2", "3"}, {"1", "4"});
  check(R"({"type": "integer", "exclusiveMinimum": -2.5, "maximum": 1e1})", {"-2", "10"}, {"-3", "11"});
  check(R"({"type": "integer", "minimum": -1e30, "maximum": 123456789012345678})", {"123456789012345678", "-7"},
        {"123456789012345679"});
  check(R"({"type": "integer", "multipleOf": 1, "minimum": 0, "exclusiveMinimum": 0})", {"1"}, {"0"});
  check_rejected(R"({"type": "integer", "minimum": 3, "maximum": 2})",
                 "no value satisfies #/maximum: the bounds leave no number");
  check_rejected(R"({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 4})",
                 "no value satisfies #/exclusiveMaximum: the bounds leave no number");
  check_rejected(R"({"type": "integer", "minimum": 1e18})", "no value satisfies #/minimum: the bounds leave no number");
  check_rejected(R"({"minimum": "1"})", "#/minimum: a bound is a number");
  check_rejected(R"({"minimum": 1, "exclusiveMinimum": true})", "#/exclusiveMinimum: a bound is a number");
  check_refused(R"({"type": "integer", "minimum": 1234567890123456.5})",
                "#/minimum: a bound that is no integer has at most 15 digits");
  check_refused(R"({"type": "integer", "minimum": 1e-19})",
                "#/minimum: a bound that is no integer has at most 15 digits");
}

TEST_CASE("bounds of numbers are exact") {
  check(R"({"type": "number", "minimum": 0, "maximum": 1})",
        {"0", "1", "0.5", "0.0", "1.0", "1.00000000000000", "0.99999999999999", "0.00000000000001"},
        {"-0", "-0.0", "-0.1", "1.01", "1.00000000000001", "2", "1e0", "0.", "00.5", "10"});
  check(R"({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})", {"0.5", "0.01", "0.99"},
        {"0", "1", "0.0", "0.000", "1.0"});
  check(R"({"type": "number", "minimum": -1.5, "maximum": 2.25})",
        {"-1.5", "-1.50", "-1.49", "-1", "-0.5", "0", "2.25", "2.2", "2", "2.249", "1.99", "-0.01"},
        {"-1.51", "-1.6", "-2", "2.26", "2.251", "3", "2.3", "-0.0", "-0"});
  check(R"({"type": "number", "exclusiveMinimum": 1.25, "exclusiveMaximum": 1.3})", {"1.26", "1.251", "1.2999"},
        {"1.25", "1.250", "1.3", "1.30", "1.2", "1.31", "1"});
  check(R"({"type": "number", "minimum": 0})", {"0", "0.5", "999999999.999999", "12"}, {"-1", "-0.5", "1234567890"});
  check(R"({"type": "number", "maximum": -100})", {"-100", "-100.5", "-101"}, {"-99.9", "0", "100", "-99"});
  check(R"({"type": "number", "exclusiveMinimum": 1000000000000})", {"1000000000001", "1000000000000.5"},
        {"1000000000000.0"});
  check_rejected(R"({"type": "number", "exclusiveMinimum": 1, "maximum": 1})",
                 "no value satisfies #/maximum: the bounds leave no number");
  check_refused(R"({"type": "number", "minimum": 1234567890123456})",
                "#/minimum: bounds of a number have at most 15 digits, zeros before the point counted");
  check_refused(R"({"type": "number", "maximum": 1e300})",
                "#/maximum: bounds of a number have at most 15 digits, zeros before the point counted");
}

TEST_CASE("members come in the schema's order, and optional ones may be left out") {
  check(R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}})",
        {"{}", "{\"a\": 1}", "{\"b\": 2}", "{\"c\": 3}", "{\"a\": 1, \"c\": 3}", "{\"a\": 1, \"b\": 2, \"c\": 3}",
         "{\"b\": 2, \"c\": 3}"},
        {"{\"b\": 2, \"a\": 1}", "{\"a\": 1, \"a\": 1}", "{\"d\": 4}", "{, \"a\": 1}", "{\"a\": 1, }", "{\"a\": 2}"});
  check(R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "required": ["b"]})",
        {"{\"b\": 2}", "{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"c\": 3}", "{\"a\": 1, \"b\": 2, \"c\": 3}"},
        {"{}", "{\"a\": 1}", "{\"a\": 1, \"c\": 3}", "{\"b\": 2, \"b\": 2}"});
  check(R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": ["a", "b"]})", {"{\"a\": 1, \"b\": 2}"},
        {"{}", "{\"a\": 1}", "{\"b\": 2}", "{\"b\": 2, \"a\": 1}"});
  check(R"({"properties": {"a\n\"\u00e9": true}, "required": ["a\n\"\u00e9"]})", {"{\"a\\n\\\"\xc3\xa9\": 0}"}, {"{}"});
  check(R"({"properties": {"a": false, "b": {"const": 1}}})", {"{}", "{\"b\": 1}"},
        {"{\"a\": 1}", "{\"a\": 1, \"b\": 1}"});
  check(R"({"type": "object", "properties": {}})", {"{}"}, {"{\"a\": 1}"});
}

TEST_CASE("names that are required but not listed follow those that are") {
  check(R"({"properties": {"a": {"const": 1}}, "required": ["b", "a"]})", {"{\"a\": 1, \"b\": null}"},
        {"{\"a\": 1}", "{\"b\": 1}", "{\"b\": 0, \"a\": 1}"});
  check(R"({"required": ["b"], "additionalProperties": {"const": 1}})", {"{\"b\": 1}", "{\"b\": 1, \"c\": 1}"},
        {"{\"b\": 2}", "{\"c\": 1}", "{\"b\": 1, \"b\": 1}"});
  check_rejected(R"({"properties": {"a": true}, "required": ["b"], "additionalProperties": false})",
                 "no value satisfies #/additionalProperties: a required property is not allowed");
  check_rejected(R"({"properties": {"a": false}, "required": ["a"]})",
                 "no value satisfies #/properties/a: a required property is not allowed");
}

TEST_CASE("additional members come last, and none has a listed name") {
  const Texts yes = {"{}",
                     "{\"ab\": 1}",
                     "{\"ab\": 1, \"a\": 0}",
                     "{\"\": 0}",
                     "{\"abc\": 0, \"abd\": 0}",
                     "{\"\xc3\xa9t\": 0, \"\xc3\xa8\": 0}",
                     "{\"b\": 0, \"b\": 0}",
                     "{\"x y\": 0}"};
  const Texts no = {"{\"ab\": 0}",
                    "{\"b\": 0, \"ab\": 1}",
                    "{\"ab\": 1, \"ab\": 0}",
                    "{\"\xc3\xa9\": 0}",
                    "{\"\\u0061b\": 0}",
                    "{\"q\\\"\": 0}",
                    "{\"a\": 1}",
                    "{\"\n\": 0}"};
  check(R"({"properties": {"ab": {"const": 1}, "é": {"const": 2}, "q\"": {"const": 3}},
            "additionalProperties": {"const": 0}})",
        yes, no);
  check(R"({"type": "object", "additionalProperties": {"const": 0}})", {"{}", "{\"\\u0061\": 0, \"b\": 0}"},
        {"{\"a\": 1}"});
  check(R"({"type": "object", "additionalProperties": false})", {"{}"}, {"{\"a\": 1}"});
  check(R"({"properties": {"a": {"const": 1}}, "additionalProperties": true})", {"{\"a\": 1, \"b\": [2]}"},
        {"{\"a\": 2}"});
  check_refused(R"({"properties": {")" + std::string(201, 'x') + R"(": true}, "additionalProperties": true})",
                "a name of more than 200 characters beside additional ones");
}

TEST_CASE("members are counted") {
  const char* at_least =
      R"({"properties": {"a": {"const": 1}, "b": {"const": 1}, "c": {"const": 1}}, "minProperties": 2})";
  check(at_least,
        {"{\"a\": 1, \"b\": 1}", "{\"a\": 1, \"c\": 1}", "{\"b\": 1, \"c\": 1}", "{\"a\": 1, \"b\": 1, \"c\": 1}"},
        {"{}", "{\"a\": 1}", "{\"c\": 1}"});
  const char* at_most =
      R"({"properties": {"a": {"const": 1}, "b": {"const": 1}, "c": {"const": 1}}, "maxProperties": 1})";
  check(at_most, {"{}", "{\"a\": 1}", "{\"b\": 1}", "{\"c\": 1}"}, {"{\"a\": 1, \"b\": 1}", "{\"a\": 1, \"c\": 1}"});
  check(R"({"properties": {"a": {"const": 1}, "b": {"const": 1}, "c": {"const": 1}}, "required": ["b"],
            "minProperties": 2, "maxProperties": 2})",
        {"{\"a\": 1, \"b\": 1}", "{\"b\": 1, \"c\": 1}"},
        {"{\"b\": 1}", "{\"a\": 1, \"c\": 1}", "{\"a\": 1, \"b\": 1, \"c\": 1}"});
  check(R"({"type": "object", "minProperties": 1, "maxProperties": 2})", {"{\"a\": 1}", "{\"a\": 1, \"b\": 1}"},
        {"{}", "{\"a\": 1, \"b\": 1, \"c\": 1}"});
  check(R"({"properties": {"a": {"const": 1}}, "additionalProperties": {"const": 0}, "minProperties": 2})",
        {"{\"a\": 1, \"b\": 0}", "{\"a\": 1, \"b\": 0, \"c\": 0}"}, {"{}", "{\"a\": 1}", "{\"b\": 0, \"b\": 0}"});
  check(R"({"properties": {"a": {"const": 1}}, "additionalProperties": {"const": 0}, "maxProperties": 1})",
        {"{}", "{\"a\": 1}", "{\"b\": 0}"}, {"{\"a\": 1, \"b\": 0}", "{\"b\": 0, \"c\": 0}"});
  check(R"({"type": "object", "maxProperties": 0})", {"{}"}, {"{\"a\": 1}"});
  check_refused(R"({"type": "object", "minProperties": 2})",
                "#/minProperties: additional names might repeat, so that only one of them counts");
  check_rejected(R"({"properties": {"a": true}, "minProperties": 2})",
                 "no value satisfies #/minProperties: there are fewer properties");
  check_rejected(R"({"properties": {"a": true, "b": true}, "required": ["a", "b"], "maxProperties": 1})",
                 "no value satisfies #/maxProperties: more properties are required");
  check_rejected(R"({"type": "object", "minProperties": 3, "maxProperties": 2})",
                 "no value satisfies #/minProperties: the least count is larger than the most");
}

TEST_CASE("items are counted, and the first may have schemas of their own") {
  check(R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})", {"[1]", "[1, 2, 3]"},
        {"[]", "[1, 2, 3, 4]", "[1.5]", "[\"a\"]"});
  check(R"({"type": "array", "items": {"const": 1}, "minItems": 2})", {"[1, 1]", "[1, 1, 1, 1]"}, {"[1]", "[]"});
  check(R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"});
  check(R"({"items": false})", {"[]"}, {"[1]"});
  check(R"({"prefixItems": [{"const": 1}, {"const": 2}], "items": false})", {"[]", "[1]", "[1, 2]"},
        {"[1, 2, 3]", "[2]"});
  check(R"({"prefixItems": [{"const": 1}, {"const": 2}], "items": {"const": 0}, "minItems": 1, "maxItems": 4})",
        {"[1]", "[1, 2]", "[1, 2, 0, 0]"}, {"[]", "[1, 0]", "[1, 2, 0, 0, 0]"});
  check(R"({"prefixItems": [{"const": 1}], "minItems": 3})", {"[1, 2, null]", "[1, 2, 3, 4]"}, {"[1, 2]", "[2, 2, 2]"});
  check(R"({"prefixItems": [{"const": 1}, false], "items": {"const": 0}})", {"[]", "[1]"}, {"[1, 0]"});
  check(R"({"prefixItems": [{"const": 1}, {"const": 2}, {"const": 3}], "maxItems": 2})", {"[1, 2]"}, {"[1, 2, 3]"});
  check(R"({"allOf": [{"prefixItems": [{"enum": [1, 2]}]}, {"items": {"enum": [2, 3]}}]})", {"[2, 3, 2]", "[]"},
        {"[1]", "[3]"});
  check_rejected(R"({"items": false, "minItems": 1})",
                 "no value satisfies #/minItems: the array cannot have so many items");
  check_rejected(R"({"items": [true]})", "#/items: a list of schemas for the first items is called prefixItems");
  check_rejected(R"({"maxItems": 1, "minItems": 2})",
                 "no value satisfies #/minItems: the least count is larger than the most");
  check_rejected(R"({"minItems": -1})", "#/minItems: a count is a whole number, 0 at least");
  check_rejected(R"({"minItems": 1.5})", "#/minItems: a count is a whole number, 0 at least");
  check_refused(R"({"minItems": 1e10})", "#/minItems: the count is larger than 2147483646");
}

TEST_CASE("constants have their canonical spelling, and the rest of the schema chooses among them") {
  check(R"({"enum": ["a\n", 1, null, true, [1,{"b":2}], "é"]})",
        {"\"a\\n\"", "1", "null", "true", "[1, {\"b\": 2}]", "\"\xc3\xa9\""},
        {"\"b\"", "1.0", "[1,{\"b\":2}]", "\"\\u00e9\""});
  check(R"({"const": {"a": 1}})", {"{\"a\": 1}"}, {"{}"});
  check(R"({"type": "integer", "enum": [1, 2.0, 2.5, "3"]})", {"1", "2.0"}, {"2.5", "\"3\""});
  check(R"({"enum": [1, 5, 9.5, 20, "x"], "minimum": 2, "exclusiveMaximum": 20})", {"5", "9.5", "\"x\""}, {"1", "20"});
  check(R"({"enum": ["a", "bc", "def"], "minLength": 2, "maxLength": 2})", {"\"bc\""}, {"\"a\"", "\"def\""});
  check(R"({"allOf": [{"enum": [1, 2, {"a": 1, "b": [2]}]}, {"enum": [2.0, {"b": [2.0], "a": 1}, 3]}]})",
        {"2", "{\"a\": 1, \"b\": [2]}"}, {"1", "3"});
  check(R"({"const": 1, "enum": [1.0, 2]})", {"1"}, {"1.0", "2"});
  check_rejected(R"({"enum": []})", "no value satisfies #/enum: none of these values satisfies the rest");
  check_rejected(R"({"type": "string", "enum": [1, 2]})",
                 "no value satisfies #/enum: none of these values satisfies the rest");
  check_rejected(R"({"const": 1, "enum": [2]})", "no value satisfies #/const: none of these values satisfies the rest");
  check_rejected(R"({"enum": "a"})", "#/enum: an enum is a list of values");
  check_refused(R"({"enum": ["a"], "pattern": "a"})", "#/pattern: this cannot be combined with enum and const");
  check_refused(R"({"const": {"a": 1}, "properties": {"a": true}})",
                "#/properties: this cannot be combined with enum and const");
}

TEST_CASE("one of several schemas holds, and what stands beside them too") {
  check(R"({"anyOf": [{"type": "integer"}, {"type": "string"}]})", {"1", "\"a\""}, {"null"});
  check(R"({"oneOf": [{"const": 1}, {"const": 2}]})", {"1", "2"}, {"3"});
  check(R"({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]})", {"5", "0", "-7"}, {"3", "\"a\"", "5.5"});
  check(
      R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
      {"{\"a\": 1}", "{\"b\": 2}", "{\"a\": 1, \"b\": 2}"}, {"{}"});
  check(R"({"type": "string", "anyOf": [{"type": "integer"}, {"maxLength": 1}]})", {"\"a\""}, {"1", "\"ab\""});
  check(R"({"anyOf": [{"minimum": 3}], "oneOf": [{"maximum": 4}], "type": "integer"})", {"3", "4"}, {"2", "5"});
  check(R"({"anyOf": [true, {"const": 1}]})", {"1", "[2]"}, {});
  check(R"({"anyOf": [false, {"const": 1}]})", {"1"}, {"2"});
  check(R"({"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "x": {"const": 1}, "y": {"const": 2}},
            "required": ["kind"],
            "anyOf": [{"properties": {"kind": {"const": "a"}}, "required": ["x"]},
                      {"properties": {"kind": {"const": "c"}}},
                      {"properties": {"kind": {"const": "b"}}, "required": ["y"]}]})",
        {"{\"kind\": \"a\", \"x\": 1}", "{\"kind\": \"b\", \"y\": 2}", "{\"kind\": \"a\", \"x\": 1, \"y\": 2}"},
        {"{\"kind\": \"a\"}", "{\"kind\": \"c\"}", "{\"kind\": \"b\", \"x\": 1}"});
  check_rejected(R"({"type": "string", "anyOf": [{"type": "integer"}, {"type": "null"}]})",
                 "no value satisfies #: no type is left");
  check_rejected(R"({"anyOf": []})", "#/anyOf: this is no list of schemas");
  check_rejected(R"({"anyOf": {}})", "#/anyOf: this is no list of schemas");
  check_rejected(R"({"oneOf": [1]})", "#/oneOf/0: a schema is an object, true or false");
  check_rejected("false", "no value satisfies #: the schema is false");
  check_rejected(R"({"anyOf": [false, {"type": "null", "const": 1}]})",
                 "no value satisfies #/anyOf/1/const: none of these values satisfies the rest");
}

TEST_CASE("all of several schemas hold") {
  check(R"({"allOf": [{"type": "string"}]})", {"\"a\""}, {"1"});
  check(R"({"allOf": [{"type": "integer", "minimum": 2}, {"maximum": 4}], "exclusiveMinimum": 2})", {"3", "4"},
        {"2", "5"});
  check(R"({"allOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"b": {"const": 2}}}]})",
        {"{\"a\": 1}", "{\"a\": 1, \"b\": 2}"}, {"{\"b\": 2}", "{\"a\": 1, \"c\": 1}"});
  check(
      R"({"allOf": [{"properties": {"a": {"minimum": 1}}}, {"properties": {"a": {"type": "integer", "maximum": 3}}}]})",
      {"{\"a\": 2}", "{}"}, {"{\"a\": 0}", "{\"a\": 4}"});
  check(
      R"({"allOf": [{"properties": {"a": true}, "additionalProperties": false}, {"properties": {"a": {"const": 1}, "b": true}}]})",
      {"{\"a\": 1}", "{}"}, {"{\"b\": 1}", "{\"a\": 2}"});
  check(
      R"({"allOf": [{"type": "object", "additionalProperties": {"type": "integer"}}, {"properties": {"a": {"maximum": 1}}}]})",
      {"{\"a\": 0, \"b\": 5}"}, {"{\"a\": 0.5}", "{\"a\": 2}", "{\"b\": null}"});
  check(
      R"({"allOf": [{"anyOf": [{"minimum": 5}, {"maximum": 2}]}, {"anyOf": [{"maximum": 6}, {"minimum": 9}]}], "type": "integer"})",
      {"5", "6", "9", "1"}, {"3", "7", "8"});
  check_rejected(R"({"allOf": [{"type": "string"}, {"type": "integer"}]})",
                 "no value satisfies #/allOf/0: no type is left");
  check_rejected(R"({"allOf": []})", "#/allOf: this is no list of schemas");
}

TEST_CASE("references lead anywhere in the schema, and into themselves") {
  check(R"({"$defs": {"a b/c~": {"type": "null"}}, "items": {"$ref": "#/$defs/a%20b~1c~0"}})", {"[null, null]", "[]"},
        {"[1]"});
  check(R"({"definitions": {"x": {"const": 1}}, "$ref": "#/definitions/x"})", {"1"}, {"2"});
  check(R"({"prefixItems": [{"const": 1}, {"$ref": "#/prefixItems/0"}], "items": false})", {"[1, 1]"}, {"[1, 2]"});
  check(
      R"({"type": "object", "properties": {"value": {"type": "integer"}, "next": {"$ref": "#"}}, "required": ["value"]})",
      {"{\"value\": 1}", "{\"value\": 1, \"next\": {\"value\": 2, \"next\": {\"value\": 3}}}"},
      {"{\"next\": {\"value\": 1}}", "{\"value\": 1, \"next\": {}}"});
  check(
      R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/tree"}}]}}})",
      {"null", "[[], [null, [null]]]"}, {"[1]", "1"});
  check(R"({"$defs": {"a": {"type": "integer"}}, "$ref": "#/$defs/a", "minimum": 3, "description": "x"})", {"3"},
        {"2", "3.5"});
  check(R"({"$defs": {"base": {"properties": {"id": {"type": "integer"}}, "required": ["id"]}},
            "allOf": [{"$ref": "#/$defs/base"}], "properties": {"name": {"type": "string"}}})",
        {"{\"id\": 1}", "{\"id\": 1, \"name\": \"x\"}"}, {"{\"name\": \"x\", \"id\": 1}", "{\"name\": \"x\"}"});
  check_rejected(R"({"$ref": "#"})", "#: the schema refers to itself at the same place of the value");
  check_rejected(
      R"({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}, "items": {"$ref": "#/$defs/a"}})",
      "#/$defs/a: the schema refers to itself at the same place of the value");
  check_rejected(R"({"anyOf": [{"type": "null"}, {"$ref": "#"}]})",
                 "#: the schema refers to itself at the same place of the value");
  check_rejected(R"({"$defs": {"x": {"anyOf": [{"properties": {"p": {"$ref": "#/$defs/y"}}}, {"$ref": "#/$defs/y"}]},
                               "y": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]}}, "$ref": "#/$defs/x"})",
                 "#/$defs/y: the schema refers to itself at the same place of the value");
  check_rejected(R"({"$ref": "#/$defs/x"})", "#/$ref: there is nothing in the schema where the $ref points to");
  check_rejected(R"({"$ref": "#/%4"})", "#/$ref: there is nothing in the schema where the $ref points to");
  check_rejected(R"({"$ref": 1})", "#/$ref: a $ref is a string");
  check_rejected(R"({"title": "x", "items": {"$ref": "#/title"}})", "#/title: a schema is an object, true or false");
  for (const char* reference : {"other.json", "#name", "https://example.org/x#/a", ""})
    check_refused(R"({"$ref": ")" + std::string(reference) + "\"}",
                  "#/$ref: a $ref can only be a JSON pointer into the schema, \"#/...\"");
}

TEST_CASE("keywords that are not read are refused with their place, unless the type leaves them without effect") {
  for (const char* keyword :
       {"not", "if", "then", "else", "$dynamicRef", "$dynamicAnchor", "contains", "patternProperties", "uniqueItems",
        "multipleOf", "propertyNames", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
        "unevaluatedItems", "contentEncoding", "minContains"}) {
    check_refused(R"({"items": {")" + std::string(keyword) + R"(": true}})",
                  ("#/items/" + std::string(keyword) + ": the keyword is not supported").c_str());
  }
  check_refused(R"({"type": "object", "properties": {"a": {"type": "number", "multipleOf": 1}}})",
                "#/properties/a/multipleOf: the keyword is not supported");
  check_refused(R"({"type": "integer", "multipleOf": 2})", "#/multipleOf: the keyword is not supported");
  check_refused(R"({"nullable": true, "type": "string"})", "#/nullable: the keyword is not known");
  check_refused(R"({"items": {"$id": "x"}})", "#/items/$id: only the whole schema can have an $id");
  check(R"({"type": "string", "uniqueItems": true, "contains": {}, "patternProperties": {}, "multipleOf": 3})",
        {"\"a\""}, {"1"});
  check(R"({"type": "array", "uniqueItems": false, "items": {"const": 1}})", {"[1, 1]"}, {});
  check(
      R"({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "x", "$anchor": "y", "$comment": "", "title": "",
            "description": "", "default": 0, "examples": [], "deprecated": true, "readOnly": true, "writeOnly": true,
            "const": 1})",
      {"1"}, {"2"});
}

TEST_CASE("schemas that are none are rejected") {
  check_rejected("1", "#: a schema is an object, true or false");
  check_rejected("[]", "#: a schema is an object, true or false");
  check_rejected("{\"type\": }", "line 1, column 10: this is no JSON value");
  check_rejected(R"({"type": "text"})", "#/type: this is no type");
  check_rejected(R"({"type": ["string", 1]})", "#/type/1: this is no type");
  check_rejected(R"({"type": []})", "no value satisfies #: no type is left");
  check_rejected(R"({"properties": []})", "#/properties: this is no object of schemas");
  check_rejected(R"({"properties": {"a": 1}})", "#/properties/a: a schema is an object, true or false");
  check_rejected(R"({"required": "a"})", "#/required: this is no list of names");
  check_rejected(R"({"required": [1]})", "#/required/0: a name is a string");
  check_rejected(R"({"prefixItems": {}})", "#/prefixItems: this is no list of schemas");
  check_refused("\"" + std::string(1 << 20, 'x') + "\"", "a schema of 1048578 bytes, 1048576 are the most");
}

TEST_CASE("free spaces are allowed between tokens, within limits") {
  const char* text = R"({"properties": {"a": {"type": "array", "items": {"const": 1}}, "b": true}, "required": ["a"]})";
  Schema free(text, true);
  for (const char* yes : {"{\"a\":[1,1],\"b\":2}", "{\"a\": [1, 1], \"b\": 2}",
                          "{\n\n\t\"a\": [\n    1,\n    1\n  ]\n}", "{ \"a\": [ ] }"})
    CHECK(free.matches(yes));
  for (const char* no : {"{  \"a\": []}", "{\n\n\n\"a\": []}", "{\"a\" : []}", "{\"a\": [] , \"b\": 1}", " {\"a\": []}",
                         "{\"a\": []} ", "{\n                     \"a\": []}"})
    CHECK(!free.matches(no));
  Schema any("{\"type\": \"object\"}", true);
  CHECK(any.matches("{\n}"));
  CHECK(any.matches("{\"a\":{\"b\":[1,2]}, \"c\": []}"));
}

TEST_CASE("memory that is too small is full, whatever its size") {
  const std::string text =
      R"({"$defs": {"a": {"type": "array", "items": {"$ref": "#"}}}, "properties": {"x\n": {"enum": [1, "a"]},
          "y": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "string", "pattern": "a+"}]}}, "additionalProperties": {"minimum": 3}})";
  bool has_fitted = false;
  for (size_t bytes = 0; bytes < (size_t{1} << 17); bytes += bytes / 16 / 8 * 8 + 8) {
    const Schema schema(text, false, bytes);
    CHECK_MESSAGE((schema.code() == Code::kOk || schema.code() == Code::kFull), schema.sentence());
    CHECK((schema.code() == Code::kOk || !has_fitted));
    has_fitted = has_fitted || schema.code() == Code::kOk;
  }
  CHECK(has_fitted);
}

TEST_CASE("deep schemas and long chains of references take a bounded stack") {
  std::string deep = "true";
  for (int i = 0; i < 125; ++i)
    deep = (i % 2 == 0 ? "{\"items\":" : "{\"anyOf\":[{\"type\":\"null\"}],\"items\":") + deep + "}";
  CHECK(Schema(deep).code() == Code::kOk);
  std::string chain = "{\"$ref\":\"#/$defs/0\",\"$defs\":{";
  for (int i = 0; i < 3000; ++i)
    chain +=
        "\"" + std::to_string(i) + "\":{\"properties\":{\"a\":{\"$ref\":\"#/$defs/" + std::to_string(i + 1) + "\"}}},";
  CHECK(Schema(chain + "\"3000\":{\"const\":1}}}").matches("{\"a\": {\"a\": {}}}"));
  chain = "{\"$ref\":\"#/$defs/0\",\"$defs\":{";
  for (int i = 0; i < 3000; ++i)
    chain += "\"" + std::to_string(i) + "\":{\"anyOf\":[{\"const\":" + std::to_string(i) + "},{\"$ref\":\"#/$defs/" +
             std::to_string(i + 1) + "\"}]},";
  CHECK(Schema(chain + "\"3000\":{\"const\":1}}}").matches("2999"));
}

TEST_CASE("schemas that grow without end are refused") {
  std::string doubling = "{\"$ref\":\"#/$defs/0\",\"$defs\":{";
  for (int i = 0; i < 60; ++i) {
    const std::string next = "{\"$ref\":\"#/$defs/" + std::to_string(i + 1) + "\"}";
    doubling += "\"" + std::to_string(i) + "\":{\"allOf\":[" + next + "," + next + "]},";
  }
  check_refused(doubling + "\"60\":{\"const\":1}}}", "#/$defs/31/allOf/0: too many $ref and allOf hold at one place");
  std::string product = "{\"type\":\"integer\",\"allOf\":[";
  for (int i = 0; i < 30; ++i)
    product += std::string(i > 0 ? "," : "") + "{\"anyOf\":[{\"maximum\":" + std::to_string(i) +
               "},{\"minimum\":" + std::to_string(-i) + "}]}";
  CHECK(Schema(product + "]}").code() == Code::kFull);
}

}  // namespace
}  // namespace ocellus
