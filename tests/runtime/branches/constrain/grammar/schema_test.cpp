#include "runtime/branches/constrain/grammar/regex.h"
#include "tests/support/schema_checks.h"

namespace ocellus::test {
namespace {

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
                 "no value satisfies #/minItems: the array cannot have as many items");
  check(R"({"items": [{"const": 1}, {"const": 2}], "additionalItems": false})", {"[]", "[1, 2]"}, {"[2]", "[1, 2, 3]"});
  check(R"({"items": [{"const": 1}], "additionalItems": {"const": 0}})", {"[1, 0, 0]"}, {"[1, 1]", "[0]"});
  check(R"({"items": {"const": 1}, "additionalItems": false})", {"[1, 1]"}, {"[0]"});
  check_rejected(R"({"prefixItems": [true], "items": [true]})", "#/items: write one schema beside prefixItems");
  check_rejected(R"({"maxItems": 1, "minItems": 2})",
                 "no value satisfies #/minItems: the least count is larger than the most");
  check_rejected(R"({"minItems": -1})", "#/minItems: a count is a whole number, 0 at least");
  check_rejected(R"({"minItems": 1.5})", "#/minItems: a count is a whole number, 0 at least");
  check_refused(R"({"minItems": 1e10})", "#/minItems: the count is larger than 2147483646");
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

TEST_CASE("keywords that are not read are refused with their place and what to write") {
  const std::pair<const char*, const char*> refused[] = {
      {R"("contains": {"const": 1})", "contains: the keyword is not supported: write prefixItems and items"},
      {R"("contains": {}, "maxContains": 2)", "contains: the keyword is not supported: write prefixItems and items"},
      {R"("unevaluatedItems": false)", "unevaluatedItems: the keyword is not supported: write items"},
      {R"("dependentRequired": {"a": ["b"]})",
       "dependentRequired: the keyword is not supported: write the cases as anyOf"},
      {R"("dependentSchemas": {"a": {}})", "dependentSchemas: the keyword is not supported: write the cases as anyOf"},
      {R"("not": {"type": "null"})",
       "not: the keyword is not supported: write what may come, as enum, anyOf or pattern"},
      {R"("if": {}, "then": {})", "if: the keyword is not supported: write the cases as anyOf"},
      {R"("else": {}, "if": {})", "else: the keyword is not supported: write the cases as anyOf"},
      {R"("nullable": true, "type": "string")",
       "nullable: the keyword is not supported: add \"null\" to the list of types"},
      {R"("$dynamicRef": "#")", "$dynamicRef: the keyword is not supported: write $ref"},
      {R"("maxlenght": 3)", "maxlenght: the keyword is not known: did you mean maxLength?"},
      {R"("max_length": 3)", "max_length: the keyword is not known: did you mean maxLength?"},
      {R"("Type": "string")", "Type: the keyword is not known: did you mean type?"},
      {R"("additional_properties": false)",
       "additional_properties: the keyword is not known: did you mean additionalProperties?"},
      {R"("$id": "x")", "$id: only the whole schema can have an $id"},
      {R"("allOf": [{}], "properties": {}, "unevaluatedProperties": false)",
       "unevaluatedProperties: write additionalProperties beside all properties"}};
  for (const auto& [keywords, sentence] : refused)
    check_refused(R"({"items": {)" + std::string(keywords) + "}}", ("#/items/" + std::string(sentence)).c_str());
}

TEST_CASE("conditions that hold for all values, or annotate, are accepted") {
  for (const char* keywords : {R"("propertyNames": true)",
                               R"("propertyNames": {})",
                               R"("propertyNames": {"type": "string"})",
                               R"("propertyNames": {"minLength": 0})",
                               R"("not": false)",
                               R"("nullable": false)",
                               R"("patternProperties": {})",
                               R"("dependentRequired": {})",
                               R"("dependentSchemas": {})",
                               R"("if": {})",
                               R"("then": {"type": "null"})",
                               R"("else": false)",
                               R"("minContains": 2)",
                               R"("uniqueItems": false)",
                               R"("contains": {"const": 1}, "minContains": 0)",
                               R"("unevaluatedProperties": {})",
                               R"("additionalProperties": {}, "unevaluatedProperties": false)",
                               R"("contentMediaType": "text/plain")",
                               R"("contentEncoding": "base64")",
                               R"("contentSchema": {"type": "null"})",
                               R"("exclusiveMinimum": false)",
                               R"("$dynamicAnchor": "a")",
                               R"("$vocabulary": {})",
                               R"("unit": "mm")",
                               R"("note": "x")",
                               R"("cost": 1)",
                               R"("x-order": 1)",
                               R"("example": 1)",
                               R"("id": "Foo")",
                               R"("additionalItems": false)",
                               R"("unevaluatedItems": true)"})
    check((R"({"type": ["object", "array", "string", "number"], )" + std::string(keywords) + "}").c_str(),
          {"{\"a\": 1}", "[1, 1]", "\"a\"", "2.5"}, {"null"});
  check(R"({"nullable": false})", {"1", "null"}, {});
  check(R"({"items": {"type": "integer"}, "unevaluatedItems": false})", {"[1]"}, {"[\"a\"]"});
  check(R"({"properties": {"a": {"const": 1}}, "unevaluatedProperties": false})", {"{}", "{\"a\": 1}"},
        {"{\"b\": 1}", "{\"a\": 2}"});
  check(R"({"type": "object", "unevaluatedProperties": false})", {"{}"}, {"{\"b\": 1}"});
  check(R"({"properties": {"a": {"not": {}}, "b": {"const": 1}}})", {"{}", "{\"b\": 1}"}, {"{\"a\": 1}"});
  check(R"({"anyOf": [{"not": {}}, {"const": 1}]})", {"1"}, {"2"});
  check_rejected(R"({"not": {}})", "no value satisfies #: the schema is false");
  check(R"({"type": "string", "uniqueItems": true, "contains": {}, "patternProperties": {"a": {}}, "multipleOf": 3})",
        {"\"a\""}, {"1"});
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
  check_rejected(R"({"type": "text"})",
                 "#/type: this is no type: write string, number, integer, boolean, null, array or object");
  check_rejected(R"({"type": ["string", 1]})",
                 "#/type/1: this is no type: write string, number, integer, boolean, null, array or object");
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
  CHECK(Schema(chain + "\"3000\":{\"const\":1}}}").code() == Code::kOk);  // the tests' own matcher is too deep for it
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

TEST_CASE("schemas that take long to read are refused, whatever is left of them") {
  std::string patterns = "{\"properties\":{";
  for (int i = 0; i <= kMaxRegexCategories; ++i)
    patterns += (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":{"pattern":"\\p{Zl}{)" + std::to_string(i) + "}\"}";
  check_refused(
      patterns + "}}",
      "#/properties/16/pattern: the regular expression at byte 0: there are more than 16 of \\p, \\P, \\D and "
      "\\W");
  std::string lists[2], branches = "{\"type\":\"null\"}";
  for (int i = 0; i < 1000; ++i) {
    lists[0] += (i > 0 ? "," : "") + std::to_string(i);
    lists[1] += (i > 0 ? "," : "") + std::to_string(1000 + i);
  }
  for (int i = 0; i < 20; ++i)
    branches += R"(,{"$ref":"#/$defs/a","allOf":[{"$ref":"#/$defs/b"}],"maxLength":)" + std::to_string(i) + "}";
  check_refused(
      R"({"$defs":{"a":{"enum":[)" + lists[0] + R"(]},"b":{"enum":[)" + lists[1] + R"(]}},"anyOf":[)" + branches + "]}",
      "#/$defs/b/enum: too many values to compare");
}

}  // namespace
}  // namespace ocellus::test
