#include "runtime/branches/constrain/grammar/gbnf.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/grammar_room.h"

namespace ocellus {
namespace {

using Texts = std::vector<std::string>;

void check_texts(const std::string& text, const Texts& good, const Texts& bad) {
  test::GrammarRoom room;
  Expression e = kNoExpression;
  INFO(text);
  const Status status = read_gbnf(text, &room.grammar, &e);
  REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
  for (const std::string& one : good) CHECK_MESSAGE(room.matches(e, one), one);
  for (const std::string& one : bad) CHECK_FALSE_MESSAGE(room.matches(e, one), one);
}

void check_refused(const std::string& text, const char* words, Code code = Code::kBadArgument) {
  test::GrammarRoom room;
  Expression e = 0;
  const Status status = read_gbnf(text, &room.grammar, &e);
  CHECK_MESSAGE(status.code() == code, text.substr(0, 80));
  if (!status.ok())
    CHECK_MESSAGE(std::string(last_failure().sentence).find(words) != std::string::npos, last_failure().sentence);
}

TEST_CASE("rules, literals, alternatives and groups match whole texts") {
  check_texts("root ::= \"abc\"", {"abc"}, {"", "ab", "abcd"});
  check_texts("root ::= a-1 b_2 | C\na-1 ::= \"x\"\nb_2 ::= \"y\" | \"\"\nC::=\"z\"\n", {"xy", "x", "z"}, {"y", "xz"});
  check_texts("root ::= \"a\" (\"b\" | (\"c\" \"d\")) \"e\"", {"abe", "acde"}, {"ae", "abcde"});
  check_texts("root ::= | \"a\"", {"", "a"}, {"aa"});
  check_texts("root ::=", {""}, {"a"});
  check_texts("root ::= \"(\" root? \")\"", {"()", "((()))"}, {"", "(()"});
  check_texts("root ::= a(b)c\na ::= \"1\"\nb ::= \"2\"\nc ::= \"3\"", {"123"}, {"12"});
  check_texts("x ::= \"1\"\nroot ::= x x\nx ::= \"2\"", {"22"}, {"11", "12"});
}

TEST_CASE("a quantifier repeats the item before it, and a second one both") {
  check_texts("root ::= \"ab\"* \"c\"", {"c", "ababc"}, {"abbc", "ac"});
  check_texts("root ::= \"a\"+ [bc]? \".\"", {"a.", "aab."}, {".", "abc."});
  check_texts("root ::= [a]{2}", {"aa"}, {"a", "aaa"});
  check_texts("root ::= (\"a\" | \"b\"){2,}", {"ab", "bbbb"}, {"a"});
  check_texts("root ::= x{1,3}\nx ::= \"a\"", {"a", "aaa"}, {"", "aaaa"});
  check_texts("root ::= \"a\" {\t1 , 2 } \"b\"", {"ab", "aab"}, {"b"});
  check_texts("root ::= \"a\"{2}* \"b\" * ?", {"", "aaaa", "aab"}, {"a", "aaa"});
  check_texts("root ::= \"a\"{0} \"b\"{0,0}", {""}, {"a", "b"});
}

TEST_CASE("line ends are spaces in groups, after ::= and after |, and end a rule elsewhere") {
  check_texts("\n# c\n  root ::= # text \"x\" |\n  \"a\" |\r\n\n  \"b\" \t# end\n\nx ::= \"c\"", {"a", "b"},
              {"ab", "x"});
  check_texts("root ::= (\n  # first\n  \"a\"\n  x +\n  |\n  \"b\"{\n2\n,\n3\n}\n)\nx ::=\n\n\"x\"\r\n",
              {"ax", "axx", "bb", "bbb"}, {"a", "b"});
  check_texts("root ::= \"a\"\r\r\n# only a comment", {"a"}, {});
  check_refused("root ::= \"a\"\n\"b\"", "line 2, column 1: a rule begins with its name");
  check_refused("root ::= \"a\"\n+", "line 2, column 1: a rule begins with its name");
  check_refused("root\n::= \"a\"", "line 1, column 5: ::= must stand after");
}

TEST_CASE("escapes and classes are characters, not bytes") {
  check_texts(R"(root ::= "\n\r\t\\\"\[\]\-\x41\xe9\u20AC\U0001f600")",
              {"\n\r\t\\\"[]-A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"}, {""});
  check_texts(R"(root ::= [a-c\x80-\xff\]"^-])", {"a", "c", "]", "\"", "^", "-", "\xc2\x80", "\xc3\xbf"},
              {"d", "\\", "x", "\xff", "\xc4\x80"});
  check_texts(R"(root ::= [^a\n-\r])", {"b", "\xe2\x82\xac", "\t"}, {"a", "\n", "\r", "\v", "", std::string(1, '\0')});
  check_texts("root ::= [-a] [a\\-c] [--/] [*--]", {"-c.+", "a-/-"}, {"bb..", "-b..", "-a.0"});
  check_texts("root ::= [\xe3\x81\x81-\xe3\x82\x9f]+ \"\xc3\xa9\"?", {"\xe3\x81\x82\xe3\x81\x84\xc3\xa9"},
              {"a", "\xc3\xa9"});
  check_texts("root ::= .", {"a", "\n", "\xf0\x9f\x98\x80"}, {"", "ab", "\xff", std::string(1, '\0')});
  check_texts("root ::= \"a\nb # c\"", {"a\nb # c"}, {"ab"});
  check_texts(R"(root ::= [\x20-\U0010FFFF] "\x00")", {std::string("a\0", 2)}, {"a"});
}

TEST_CASE("grammars in the manner of llama.cpp's examples match their texts") {
  check_texts(R"(
root   ::= object
value  ::= object | array | text | number | ("true" | "null") ws
object ::=
  "{" ws (
            text ":" ws value
    ("," ws text ":" ws value)*
  )? "}" ws
array  ::= "[" ws (value ("," ws value)*)? "]" ws
text   ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws
number ::= "-"? ([0-9] | [1-9] [0-9]{0,15}) ("." [0-9]+)? ws
ws     ::= | " " | "\n" [ \t]{0,20}
)",
              {"{}", R"({"a": [1, -2.5, {"b\u00e9\n": null}] })", "{ \"\xc3\xa9\":true}\n\t "},
              {"[]", "{\"a\"}", "{\"a\":01}", "{\"a\nb\":1}", "{}  "});
  check_texts(R"g(root ::= (expr "=" ws num "\n")+
expr ::= term ([-+*/] term)*
term ::= num | "(" ws expr ")" ws
num ::= [0-9]+ ws
ws ::= [ \t\n]*)g",
              {"1+2 = 3\n", "(1*2)-4=0\n5=5\n"}, {"1+2=3", "1+=3\n"});
}

TEST_CASE("literals and grammars may be large") {
  const std::string literal(100000, 'x');
  std::string rules, root = "root ::= ", deep = "root ::= ";
  for (int i = 0; i < 4000; ++i) {
    const std::string name = "r" + std::to_string(i);
    rules += "\n" + name + " ::= \"" + std::to_string(i * i) + "\"";
    root += name + " | ";
  }
  for (int i = 0; i < kMaxGbnfGroups; ++i) deep += "(\"a\" | ";
  deep += "\"b\"";
  for (int i = 0; i < kMaxGbnfGroups; ++i) deep += "+ \"c\")";
  check_texts("root ::= \"" + literal + "\"+", {literal, literal + literal}, {"x"});
  check_texts(root + "\"x\"" + rules, {"x", "0", "1522756", "15992001"}, {"r", "2"});
  check_texts(deep, {"a", "aaac", "b" + std::string(kMaxGbnfGroups, 'c')}, {"", "c"});
}

TEST_CASE("what is no GBNF is refused, with its line and column") {
  check_refused("", "line 1, column 1: there is no rule named root");
  check_refused("a ::= \"x\"\n", "line 2, column 1: there is no rule named root");
  check_refused("root ::= \"a\"\n  b ::= d\nc ::= root (b | e)",
                "line 2, column 9: there is no definition of the rule d");
  check_refused("a ::= root", "column 7: there is no definition of the rule root");
  check_refused("root ::= \"\xc3\xa9\" %", "line 1, column 14: the rule cannot go on");
  check_refused("root ::= a ::= b", "column 12: the rule cannot go on");
  check_refused("root ::= \"a\")", "column 13: the rule cannot go on");
  check_refused("root := \"a\"", "column 6: ::= must stand after");
  check_refused("::= \"a\"", "column 1: a rule begins with its name");
  check_refused("root ::= \"a\" (\"b\"\n | \"c\"", "line 1, column 14: the group is not closed");
  check_refused("root ::= (\"a\" ; \"b\")", "column 10: the group is not closed");
  check_refused("root ::= \"a", "column 10: the literal is not closed");
  check_refused("root ::= [a", "column 10: the class is not closed");
  check_refused("root ::= [a-", "column 10: the class is not closed");
  for (const char* empty : {"root ::= []", "root ::= [^]"}) check_refused(empty, "column 10: a class is empty");
  check_refused("root ::= [xz-a]", "column 12: the ends of a range are in the wrong order");
  for (const char* none : {"root ::= *", "root ::= +", "root ::= ?", "root ::= {2}", "root ::= | *", "root ::= (+)"})
    check_refused(none, "there is nothing to repeat");
  for (const char* counts : {"root ::= .{}", "root ::= .{,2}", "root ::= .{a}", "root ::= .{2", "root ::= .{2,x}",
                             "root ::= .{2 3}", "root ::= .{\n2}"})
    check_refused(counts, "column 11: a repetition is");
  check_refused("root ::= .{3,2}", "column 11: the counts of a repetition are in the wrong order");
}

TEST_CASE("escapes that are none are refused") {
  for (const char* escape : {"\\a", "\\'", "\\/", "\\0", "\\\n"}) {
    check_refused("root ::= \"" + std::string(escape) + "\"", "column 11: the escapes are");
    check_refused("root ::= [" + std::string(escape) + "]", "column 11: the escapes are");
  }
  check_refused("root ::= \"\\", "column 11: the text ends after a backslash");
  for (const char* number : {"\\x4", "\\xg0", "\\u123", "\\U0010FFF"})
    check_refused("root ::= \"" + std::string(number) + "\"", "column 11: \\x, \\u and \\U need");
  for (const char* number : {"\\ud800", "\\uDFFF", "\\U00110000"})
    check_refused("root ::= [" + std::string(number) + "]", "column 11: it is no character of Unicode");
  for (const char* bytes : {"\xff", "\xed\xa0\x80", "\xc3"})
    check_refused("root ::= \"" + std::string(bytes) + "\"", "column 11: it is not UTF-8");
}

TEST_CASE("tokens without a vocabulary and what exceeds the limits are refused") {
  for (const char* token : {"root ::= <[1000]>", "root ::= <think>", "root ::= !<think>*"})
    check_refused(token, "column 10: tokens need a model's vocabulary", Code::kUnsupported);
  check_refused("root ::= .{100001}", "100000 times", Code::kUnsupported);
  check_refused("root ::= .{1,100001}", "100000 times", Code::kUnsupported);
  const std::string open(kMaxGbnfGroups + 1, '('), many(kMaxGbnfBytes - 9, '(');
  check_refused("root ::= " + open, "groups nest deeper than 200", Code::kUnsupported);
  check_refused("root ::= " + many, "groups nest deeper than 200", Code::kUnsupported);
  check_refused(std::string(kMaxGbnfBytes + 1, '\n'), "1048577 bytes", Code::kUnsupported);
  std::string rules, wide = "root ::= [";
  for (int i = 0; i <= kMaxGbnfRules; ++i) rules += "r" + std::to_string(i) + "::=.\n";
  check_refused(rules, "line 4097, column 1: the grammar has more than 4096 rules", Code::kUnsupported);
  for (int i = 0; i <= 1024; ++i) wide += "\\u" + std::to_string(1000 + 2 * i);
  check_refused(wide + "]", "column 10: a class has more than 1024 ranges", Code::kUnsupported);
  test::GrammarRoom room(256);
  Expression e = kNoExpression;
  CHECK(read_gbnf("root ::= [^a] \"b\" c\nc ::= \"d\" | \"e\" | [f]", &room.grammar, &e).code() == Code::kFull);
}

}  // namespace
}  // namespace ocellus
