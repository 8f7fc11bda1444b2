// Conditions that hold together for one string.
#include "tests/support/schema_checks.h"

namespace ocellus::test {
namespace {

TEST_CASE("a pattern and lengths hold together") {
  check(R"({"type": "string", "pattern": "^[A-Z0-9-]+$", "maxLength": 8})", {"\"A\"", "\"AB-12345\""},
        {"\"\"", "\"AB-123456\"", "\"ab\""});
  check(R"({"pattern": "b", "minLength": 2, "maxLength": 3})",
        {"\"ab\"", "\"bcd\"",
         "\"\xc3\xa9"
         "b\"",
         "\"\\\"b\""},
        {"\"b\"", "\"abcd\"", "\"aa\"",
         "\"\xc3\xa9\xc3\xa9"
         "bb\""});
  check(R"({"pattern": "^(ab)+$", "minLength": 3, "maxLength": 7})", {"\"abab\"", "\"ababab\""},
        {"\"ab\"", "\"abababab\"", "\"aba\""});
  check(R"({"pattern": "^[ab]{2,5}$", "minLength": 4})", {"\"abab\"", "\"aaaaa\""}, {"\"aba\"", "\"ababab\""});
  check(R"({"pattern": "^.+@.+$", "maxLength": 5000})", {"\"a@b\""}, {"\"a@\"", "\"ab\""});
  check(R"({"pattern": "^a{3}$", "minLength": 3, "maxLength": 3})", {"\"aaa\""}, {"\"aa\""});
  check(R"({"pattern": "^\\S+$", "maxLength": 100000, "minLength": 1})", {"\"a\xc3\xa9\""}, {"\"a b\"", "\"\""});
  check_rejected(R"({"pattern": "^(ab){3}$", "maxLength": 2})",
                 "no value satisfies #/pattern: the conditions on the string exclude each other");
  check_rejected(R"({"properties": {"a": {"pattern": "^[ab]{2,5}$", "minLength": 6}}, "required": ["a"]})",
                 "no value satisfies #/properties/a/pattern: its lengths and those beside it exclude each other");
}

TEST_CASE("several patterns hold together") {
  check(R"({"allOf": [{"pattern": "^ab"}, {"pattern": "cd$"}, {"pattern": "x"}], "maxLength": 6})",
        {"\"abxcd\"", "\"abxxcd\""}, {"\"abcd\"", "\"abxxxcd\"", "\"xabcd\""});
  check(R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})", {"\"ab\"", "\"b a\""}, {"\"a\"", "\"b\""});
  check(R"({"allOf": [{"pattern": "a"}, {"pattern": "a"}]})", {"\"a\""}, {"\"b\""});
  check_rejected(R"({"allOf": [{"pattern": "^a"}, {"pattern": "^b"}]})",
                 "no value satisfies #/allOf/0/pattern: the conditions on the string exclude each other");
  std::string many = R"({"type": "string", "allOf": [)";
  for (int i = 0; i < 17; ++i)
    many += (i > 0 ? R"(, {"pattern": "a)" : R"({"pattern": "a)") + std::to_string(i) + "\"}";
  check_refused(many + "]}", "#/allOf/16/pattern: more than 16 patterns and formats hold for one string: write fewer");
}

TEST_CASE("a format holds together with a pattern, lengths and another format") {
  check(R"({"format": "date", "pattern": "^20"})", {"\"2024-02-29\""}, {"\"1999-12-31\"", "\"2023-02-29\""});
  check(R"({"format": "uri", "minLength": 6, "maxLength": 12})", {"\"ftp://ab\""}, {"\"a://b\"", "\"ftp://abcdefg\""});
  check(
      R"({"format": "email", "maxLength": 9, "pattern": "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"})",
      {"\"a@b.de\"", "\"a.b@c.org\""}, {"\"a@b\"", "\".a@b.de\"", "\"abcd@e.org\""});
  check(R"({"allOf": [{"format": "hostname"}, {"format": "ipv4"}]})", {"\"1.2.3.4\""}, {"\"a\"", "\"1.2.3\""});
  check(R"({"format": "uuid4"})", {"\"01234567-89ab-4def-8123-456789abcdef\""},
        {"\"01234567-89ab-1def-8123-456789abcdef\"", "\"01234567-89ab-4def-0123-456789abcdef\""});
  check(R"({"format": "base64"})", {"\"\"", "\"QQ==\"", "\"QUI=\"", "\"QUJD\""}, {"\"Q\"", "\"QR==\"", "\"QUJD=\""});
  check(R"({"format": "ipvanyaddress"})", {"\"1.2.3.4\"", "\"::1\""}, {"\"a\""});
  check(R"({"format": "json-pointer"})", {"\"\"", "\"/a/b~1c\""}, {"\"a\"", "\"/~2\""});
}

TEST_CASE("formats of other names annotate") {
  for (const char* name : {"path", "file-path", "binary", "password", "int32", "regex", "multi-host-uri", "phone"})
    check((R"({"type": "string", "format": ")" + std::string(name) + "\"}").c_str(), {"\"any\"", "\"\""}, {"1"});
  check(R"({"format": "path", "pattern": "^/"})", {"\"/a\""}, {"\"a\""});
  check(R"({"format": "path", "maxLength": 2})", {"\"/a\""}, {"\"/ab\""});
}

TEST_CASE("enum and const are of the strings that the rest allows") {
  check(R"({"enum": ["a", "bc", "\u00e9", 1], "pattern": "^[a-z]+$"})", {"\"a\"", "\"bc\"", "1"}, {"\"\xc3\xa9\""});
  check(R"({"enum": ["a\"b", "c"], "pattern": "\"", "minLength": 2})", {"\"a\\\"b\""}, {"\"c\""});
  check(R"({"enum": ["2024-02-29", "2023-02-29", "x"], "format": "date"})", {"\"2024-02-29\""}, {"\"2023-02-29\""});
  check(R"({"enum": [1, 2, 3, 4.0, 4.5], "multipleOf": 2})", {"2", "4.0"}, {"1", "3", "4.5"});
  check_rejected(R"({"const": "a", "pattern": "b"})",
                 "no value satisfies #/const: none of these values satisfies the rest");
}

TEST_CASE("lookahead holds where what follows it ends the pattern") {
  check(R"({"pattern": "^(?!x)[a-z]+$"})", {"\"a\"", "\"ax\""}, {"\"x\"", "\"xa\"", "\"\""});
  check(R"({"pattern": "^(?=.*[A-Z])(?=.*\\d).{4,6}$"})", {"\"aB1c\"", "\"1aaaaZ\""},
        {"\"aB1\"", "\"abc1\"", "\"ABCD\"", "\"aB1cdef\""});
  check(R"({"pattern": "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"})", {"\"1\"", "\"-0.5\"", "\".5\""},
        {"\"\"", "\"-\"", "\".\""});
  check(
      R"({"pattern": "^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?(\\d+([.,]\\d+)?S)?)?)$"})",
      {"\"P1W\"", "\"P1Y\"", "\"PT5M\"", "\"P1DT1,5S\""}, {"\"P\"", "\"PT\"", "\"P1YT\"", "\"P1WT1S\""});
  check(R"({"pattern": "^(?=.{1,5}\\.?$)[a-z]+(?:\\.[a-z]+)*\\.?$"})", {"\"ab.cd\"", "\"abcde.\""},
        {"\"abcdef\"", "\"ab.cde\""});
  check(R"x({"pattern": "a(?!b)"})x", {"\"a\"", "\"abac\"", "\"ca\""}, {"\"ab\"", "\"b\"", "\"abab\""});
  check(R"x({"pattern": "a(?=b)"})x", {"\"ab\"", "\"xabx\""}, {"\"a\"", "\"ba\""});
  check(R"x({"pattern": "^(?:a(?!b)|c)"})x", {"\"a\"", "\"ac\"", "\"cb\""}, {"\"ab\"", "\"b\""});
  check(R"({"pattern": "^x(?!(?:no|never)$).*$"})", {"\"xa\"", "\"xnot\"", "\"x\""},
        {"\"xno\"", "\"xnever\"", "\"no\""});
  check(R"({"pattern": "^(?!a$|b$).$"})", {"\"c\""}, {"\"a\"", "\"b\"", "\"\""});
  check(R"({"pattern": "^(?!.*\"\").+$"})", {"\"a\\\"b\""}, {"\"\\\"\\\"\""});
  check_rejected(R"({"pattern": "^(?!a)a$"})", "no value satisfies #/pattern: no string matches");
}

TEST_CASE("lookahead elsewhere is refused with what to write") {
  for (const char* pattern : {"^(?:(?!no)\\\\w)+$", "^((?=a)b|c)d$"})
    check_refused(R"({"properties": {"to": {"type": "string", "pattern": ")" + std::string(pattern) + "\"}}}",
                  pattern[3] == ':' ? "#/properties/to/pattern: the regular expression at byte 4: lookahead may only "
                                      "stand where what follows it ends the pattern; write alternatives"
                                    : "#/properties/to/pattern: the regular expression at byte 2: lookahead may only "
                                      "stand where what follows it ends the pattern; write alternatives");
  check_refused(R"({"pattern": "^a(?<!x)$"})",
                "#/pattern: the regular expression at byte 2: lookbehind is not supported; write alternatives");
  check_refused(R"({"pattern": "^(?=a)+b$"})",
                "#/pattern: the regular expression at byte 6: lookahead is repeated; remove the quantifier");
  check_refused(R"({"pattern": "^a(?=^b)b$"})",
                "#/pattern: the regular expression at byte 5: ^ may only stand where the pattern begins");
}

TEST_CASE("multiples of whole numbers, halves and quarters are held") {
  Schema fives(R"({"type": "integer", "multipleOf": 5, "minimum": -20, "maximum": 1234})");
  for (int i = -30; i <= 1300; ++i) CHECK(fives.matches(std::to_string(i)) == (i % 5 == 0 && i >= -20 && i <= 1234));
  check(R"({"type": "number", "multipleOf": 1})", {"0", "-7", "12"}, {"1.0", "1.5", "1e+10"});
  check(R"({"type": "number", "multipleOf": 0.5, "minimum": 0, "maximum": 10})", {"0", "0.5", "9.50", "10", "3.0"},
        {"0.25", "10.5", "0.55", "-0.5"});
  check(R"({"type": "number", "multipleOf": 0.25})", {"0.25", "-1.75", "2.50", "3"}, {"0.3", "1.26", "1e+10"});
  check(R"({"type": "integer", "multipleOf": 0.5})", {"1", "2"}, {"0.5"});
  check(R"({"allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "type": "integer", "minimum": 1, "maximum": 30})",
        {"12", "24"}, {"4", "6", "0"});
  check(R"({"type": "string", "multipleOf": 0.01})", {"\"a\""}, {"1"});
  check_rejected(R"({"type": "integer", "multipleOf": 7, "minimum": 1, "maximum": 6})",
                 "no value satisfies #/multipleOf: no number is such a multiple");
  check_rejected(R"({"multipleOf": 0})", "#/multipleOf: this is a number above 0");
  for (const char* of : {"0.01", "1000", "2.5"})
    check_refused(R"({"type": "number", "multipleOf": )" + std::string(of) + "}",
                  "#/multipleOf: write a whole number, up to 256 with all others together, 0.5 or 0.25");
}

TEST_CASE("bounds that no number comes near are none") {
  check(R"({"type": "number", "minimum": -3.4028234663852886e+38, "maximum": 3.4028234663852886e+38})",
        {"0", "-1.5", "12345678"}, {"\"a\"", "1e+99"});
  check(R"({"type": "number", "minimum": 1, "maximum": 1e300})", {"1", "2.5"}, {"0"});
}

}  // namespace
}  // namespace ocellus::test
