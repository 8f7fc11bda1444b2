// uniqueItems over values that can be listed.
#include "tests/support/schema_checks.h"

namespace ocellus::test {
namespace {

TEST_CASE("few different items come in any order") {
  check(R"({"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": true})",
        {"[]", "[\"b\"]", "[\"c\", \"a\"]", "[\"b\", \"c\", \"a\"]"},
        {"[\"a\", \"a\"]", "[\"a\", \"b\", \"a\"]", "[1]"});
  check(R"({"uniqueItems": true, "items": {"$ref": "#/$defs/c"}, "minItems": 1, "maxItems": 2,
            "$defs": {"c": {"enum": ["a", "b", "c"]}}})",
        {"[\"b\"]", "[\"c\", \"a\"]"}, {"[]", "[\"a\", \"b\", \"c\"]", "[\"a\", \"a\"]"});
  check(R"({"uniqueItems": true, "items": {"type": "boolean"}})", {"[]", "[true, false]", "[false, true]"},
        {"[true, true]"});
  check(R"({"uniqueItems": true, "items": {"type": "integer", "minimum": 8, "maximum": 12}})", {"[8, 12, 10]", "[9]"},
        {"[8, 8]", "[7]", "[13]", "[10, 10]"});
  check(R"({"uniqueItems": true, "items": {"anyOf": [{"const": "a"}, {"type": "null"}, {"enum": ["a", 2]}]}})",
        {"[\"a\", null, 2]"}, {"[\"a\", \"a\"]"});
  check(R"({"uniqueItems": true, "items": {"enum": [1, 1.0, 2]}})", {"[1, 2]"}, {"[1, 1.0]", "[1.0]"});
  check(R"({"uniqueItems": true, "maxItems": 1, "items": {"type": "string"}})", {"[]", "[\"a\"]"}, {"[\"a\", \"b\"]"});
  check(R"({"allOf": [{"uniqueItems": true}, {"items": {"enum": ["a", "b"]}}]})", {"[\"a\", \"b\"]"},
        {"[\"a\", \"a\"]"});
}

TEST_CASE("many different items come in the schema's order") {
  const char* any = R"({"uniqueItems": true, "items": {"type": "integer", "minimum": 0, "maximum": 99}})";
  check(any, {"[]", "[0, 7, 10, 99]", "[5]"}, {"[1, 1]", "[7, 0]", "[100]"});
  check(
      R"({"uniqueItems": true, "items": {"type": "integer", "minimum": 0, "maximum": 99}, "minItems": 2, "maxItems": 3})",
      {"[0, 7]", "[1, 2, 3]", "[98, 99]"}, {"[]", "[1]", "[1, 2, 3, 4]", "[1, 1]"});
  check(R"({"uniqueItems": true, "items": {"type": "integer", "minimum": 1, "maximum": 9}, "minItems": 9})",
        {"[1, 2, 3, 4, 5, 6, 7, 8, 9]"}, {"[1, 2, 3, 4, 5, 6, 7, 8]"});
}

TEST_CASE("items that cannot be listed are refused with what to write") {
  for (const char* items : {R"({"type": "string"})", R"({"type": "integer"})", R"({"enum": [[1], [2]]})",
                            R"({"type": "integer", "minimum": 0, "maximum": 256})", "{}"})
    check_refused(R"({"uniqueItems": true, "items": )" + std::string(items) + "}",
                  "#/uniqueItems: write items as an enum or const of up to 256 values that are no arrays or objects");
  check_refused(R"({"uniqueItems": true, "prefixItems": [{"const": 1}]})",
                "#/uniqueItems: write items alone, as an enum or const, or maxItems 1");
  check_rejected(R"({"uniqueItems": true, "minItems": 3, "items": {"type": "boolean"}})",
                 "no value satisfies #/uniqueItems: there are fewer different items");
}

}  // namespace
}  // namespace ocellus::test
