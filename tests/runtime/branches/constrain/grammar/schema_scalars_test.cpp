#include "tests/support/schema_checks.h"

namespace ocellus::test {
namespace {

TEST_CASE("types are what they are called") {
  check(R"({"type": "null"})", {"null"}, {"true", "0", ""});
  check(R"({"type": "boolean"})", {"true", "false"}, {"null", "truefalse"});
  check(R"({"type": "integer"})", {"0", "-1", "10", "999999999999999999", "-999999999999999999"},
        {"-0", "01", "1.0", "1e1", "1000000000000000000", "-", "--1"});
  check(R"({"type": "number"})",
        {"0", "-0.5", "1.25", "12.50", "7.25e+94", "1e-07", "-1e+16", "9999999999999999.9999999999999999"},
        {"00", ".5", "1.", "1e", "1e+123", "10000000000000000", "7.25E+94", "1e5", "1e+5", "1e16", "12e-07", "0e+16",
         "0.5e-07"});
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
  check(R"({"type": "string", "format": "duration"})",
        {"\"P1D\"", "\"P1DT2H\"", "\"PT1M30S\"", "\"P2W\"", "\"P1Y2M3DT4H5M6S\""},
        {"\"P\"", "\"PT\"", "\"P1DT\"", "\"P1H\"", "\"1D\"", "\"P1Y3D\"", "\"P1W1D\""});
  check(R"({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083})", {"\"ftp://a\""}, {"\"\""});
  check(R"({"type": "string", "format": "date", "minLength": 10, "maxLength": 10})", {"\"1999-12-31\""}, {"\"\""});
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
  check_refused(R"({"const": {"a": 1}, "properties": {"a": true}})",
                "#/properties: leave this out beside enum and const");
}

}  // namespace
}  // namespace ocellus::test
