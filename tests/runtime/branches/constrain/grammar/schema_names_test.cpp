// Names of members: propertyNames and patternProperties.
#include "tests/support/schema_checks.h"

namespace ocellus::test {
namespace {

TEST_CASE("names of an enum are properties that come in its order, each once") {
  check(R"({"type": "object", "propertyNames": {"enum": ["a", "b", 1]}, "additionalProperties": {"const": 1}})",
        {"{}", "{\"a\": 1}", "{\"b\": 1}", "{\"a\": 1, \"b\": 1}"},
        {"{\"c\": 1}", "{\"b\": 1, \"a\": 1}", "{\"a\": 1, \"a\": 1}", "{\"a\": 2}"});
  check(R"({"propertyNames": {"$ref": "#/$defs/c"}, "additionalProperties": {"const": 1}, "required": ["b"],
            "$defs": {"c": {"type": "string", "enum": ["a", "b"]}}})",
        {"{\"b\": 1}", "{\"b\": 1, \"a\": 1}"}, {"{}", "{\"a\": 1}", "{\"c\": 1}"});
  check(R"({"propertyNames": {"const": "a\"b"}})", {"{}", "{\"a\\\"b\": null}"}, {"{\"a\": 1}"});
  check(R"({"propertyNames": {"enum": ["a", "bc", "d"], "minLength": 2}, "minProperties": 1,
            "additionalProperties": {"const": 1}})",
        {"{\"bc\": 1}"}, {"{}", "{\"a\": 1}"});
  check(R"({"properties": {"a": {"const": 1}, "x": {"const": 2}}, "propertyNames": {"enum": ["a", "b"]}})",
        {"{}", "{\"a\": 1}"}, {"{\"x\": 2}", "{\"b\": 1}"});
  check(R"({"properties": {"a": {"const": 1}}, "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": true})",
        {"{\"a\": 1, \"b\": null}"}, {"{\"c\": 1}"});
  check_rejected(R"({"required": ["c"], "propertyNames": {"enum": ["a"]}})",
                 "no value satisfies #/propertyNames: a required property is not allowed");
}

TEST_CASE("names match the pattern, format and lengths of propertyNames") {
  check(R"({"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "additionalProperties": {"const": 1}})",
        {"{}", "{\"ab\": 1}", "{\"ab\": 1, \"c\": 1}"}, {"{\"A\": 1}", "{\"\": 1}", "{\"ab\": 2}"});
  check(R"({"propertyNames": {"minLength": 1, "maxLength": 2}, "additionalProperties": {"const": 1}})",
        {"{\"\xc3\xa9z\": 1}", "{\"\\\"\": 1}"}, {"{\"\": 1}", "{\"abc\": 1}"});
  check(R"({"propertyNames": {"format": "date"}, "additionalProperties": {"const": 1}})", {"{\"2024-02-29\": 1}"},
        {"{\"2023-02-29\": 1}"});
  check(R"({"propertyNames": {"pattern": "^x"}, "properties": {"xa": {"const": 1}, "b": {"const": 2}},
            "additionalProperties": {"const": 3}})",
        {"{\"xa\": 1}", "{\"xa\": 1, \"xb\": 3}", "{\"x\": 3}"}, {"{\"b\": 2}", "{\"xa\": 3}", "{\"b\": 3}"});
  check(R"({"allOf": [{"propertyNames": {"pattern": "^a"}}, {"propertyNames": {"maxLength": 2}}]})", {"{\"ab\": null}"},
        {"{\"abc\": null}", "{\"b\": null}"});
  check(R"({"propertyNames": {"type": "number"}, "additionalProperties": true})", {"{}"}, {"{\"1\": 1}"});
  check(R"({"propertyNames": false})", {"{}"}, {"{\"a\": 1}"});
  check_refused(R"({"propertyNames": {"anyOf": [{"const": "a"}, {"pattern": "b"}]}})",
                "#/propertyNames/anyOf: write enum, const, pattern, format, minLength and maxLength for names");
  check_rejected(R"({"propertyNames": false, "required": ["a"]})",
                 "no value satisfies #/propertyNames: a required property is not allowed");
}

TEST_CASE("patternProperties tell the values of names that match") {
  check(R"({"type": "object", "patternProperties": {"^[a-z]+$": {"const": 1}}})", {"{}", "{\"ab\": 1, \"c\": 1}"},
        {"{\"A\": 1}", "{\"a\": 2}"});
  check(R"({"patternProperties": {"^[a-z]+$": {"const": 1}}, "propertyNames": {"maxLength": 2}})", {"{\"ab\": 1}"},
        {"{\"abc\": 1}"});
  check(R"({"patternProperties": {"^x": {"const": 1}, "^y": {"const": 2}}, "additionalProperties": {"const": 3}})",
        {"{\"xa\": 1, \"yb\": 2, \"z\": 3}", "{\"z\": 3, \"x\": 1}"}, {"{\"xa\": 2}", "{\"yb\": 3}", "{\"z\": 1}"});
  check(R"({"patternProperties": {"a": {"minimum": 1}, "b": {"maximum": 2}}, "properties": {"ab": {"type": "integer"}},
            "additionalProperties": false})",
        {"{\"ab\": 1}", "{\"ab\": 2}", "{\"ab\": 1, \"a\": 5, \"xb\": 0}"},
        {"{\"ab\": 0}", "{\"ab\": 3}", "{\"z\": 1}"});
  check(R"({"patternProperties": {"^x": false}, "additionalProperties": {"const": 1}, "properties": {"xy": true}})",
        {"{\"a\": 1}"}, {"{\"x\": 1}", "{\"xy\": 1}"});
  check(R"x({"patternProperties": {"^(?!_)": {"const": 1}}})x", {"{\"a\": 1}"}, {"{\"_a\": 1}"});
  check_rejected(R"({"patternProperties": 1})", "#/patternProperties: this is no object of schemas");
  check_refused(R"({"allOf": [{"patternProperties": {"a": {}}}, {"patternProperties": {"b": {}}}]})",
                "#/allOf/1/patternProperties: write all patternProperties of one place in one schema");
  const Schema bad(R"({"patternProperties": {"(": {}}})");
  CHECK(bad.code() == Code::kBadArgument);
  CHECK(bad.sentence().rfind("#/patternProperties/(: the regular expression", 0) == 0);
}

}  // namespace
}  // namespace ocellus::test
