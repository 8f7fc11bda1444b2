#include "runtime/branches/constrain/grammar/regex.h"

#include <doctest/doctest.h>
#include <regex.h>

#include <string>
#include <vector>

#include "tests/support/failure.h"
#include "tests/support/grammar_room.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using Texts = std::vector<std::string>;

constexpr RegexOptions kSearch = {.searches = true};
constexpr RegexOptions kJson = {.in_json_string = true};

void check_texts(const char* pattern, const Texts& good, const Texts& bad, const RegexOptions& options = {}) {
  test::GrammarRoom room;
  Expression e = kNoExpression;
  INFO(pattern);
  const Status status = read_regex(pattern, options, &room.grammar, &e);
  REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
  for (const std::string& text : good) CHECK_MESSAGE(room.matches(e, text), text);
  for (const std::string& text : bad) CHECK_FALSE_MESSAGE(room.matches(e, text), text);
}

void check_refused(const std::string& pattern, Code code, const char* words) {
  test::GrammarRoom room;
  Expression e = 0;
  const Status status = read_regex(pattern, {}, &room.grammar, &e);
  CHECK_MESSAGE(status.code() == code, pattern.substr(0, 80));
  if (!status.ok())
    CHECK_MESSAGE(std::string(last_failure().sentence).find(words) != std::string::npos, last_failure().sentence);
}

TEST_CASE("literals, alternatives, groups and repetitions match whole texts") {
  check_texts("", {""}, {"a"});
  check_texts("abc", {"abc"}, {"", "ab", "abcd", "xabc"});
  check_texts("a|bc|", {"a", "bc", ""}, {"b", "abc"});
  check_texts("a(b|(?:c))d", {"abd", "acd"}, {"ad", "abcd"});
  check_texts("(?<year>\\d{4})-(?P<m_2>\\d\\d)", {"2024-12"}, {"024-12", "2024-1"});
  check_texts("ab*", {"a", "ab", "abbb"}, {"", "abab"});
  check_texts("ab+?", {"ab", "abb"}, {"a"});
  check_texts("ab?\?c", {"ac", "abc"}, {"abbc"});
  check_texts("(ab){2}", {"abab"}, {"ab", "ababab", "abb"});
  check_texts("a{2,}", {"aa", "aaaaa"}, {"a"});
  check_texts("a{1,3}?b", {"ab", "aaab"}, {"b", "aaaab"});
  check_texts("(a*)*b", {"b", "aab"}, {"a"});
  check_texts("\xc3\xa9{2}x", {"\xc3\xa9\xc3\xa9x"}, {"\xc3\xa9x", "\xc3\xa9\xa9x"});
  check_texts("(a{0}|b{0,0})c", {"c"}, {"ac"});
  check_texts("{a}]", {"{a}]"}, {"a"});
  const std::string many(1000, 'x');
  check_texts((many + "(y|z)" + many).c_str(), {many + "y" + many}, {many + many});
}

TEST_CASE("escapes are the characters that they name") {
  check_texts("\\t\\n\\r\\f\\v", {"\t\n\r\f\v"}, {"tnrfv"});
  check_texts("\\x41\\u0042\\u{43}\\u{1F600}\\ud83d\\uDE00", {"ABC\xF0\x9F\x98\x80\xF0\x9F\x98\x80"}, {"ABC"});
  check_texts("\\.\\*\\/\\-\\^\\$\\{\\\\", {".*/-^${\\"}, {"x*/-^${\\"});
  check_texts("a\\0", {std::string("a\0", 2)}, {"a", "a0"});
  check_texts("\\d+", {"0", "19"}, {"", "a", "\xd9\xa3"});
  check_texts("\\w\\W\\s\\S\\D", {"_- xx", "Z\xe2\x82\xac\tx-"}, {"--  x", "aa xx", "a-\vxx", "a-  x", "a- x9"});
}

TEST_CASE("characters that dialects count differently are in no class and in no negated one") {
  check_texts("\\S|\\s|[^\\s]", {"a", " ", "\xc3\xa9"}, {"\x1c", "\v", "\xc2\xa0", "\xc2\x85", "\xef\xbb\xbf"});
  check_texts("\\D|[^\\d]", {"a", "\xc3\xa9"}, {"1", "\xd9\xa3"});
  check_texts("\\W|[^\\w]", {"-", "\xe2\x82\xac"}, {"a", "\xc3\xa9", "\xd9\xa3"});
  check_texts("[^\\S]", {" ", "\t"}, {"a", "\xc2\xa0"});
  check_texts("[\\w\\W]|[\\d\\D]", {"a", "\xc3\xa9"}, {"ab"});
}

TEST_CASE("general categories are those of Unicode") {
  check_texts("\\p{L}+", {"aZ", "\xc3\xa9\xe4\xb8\xad"}, {"1", "a1", "-"});
  check_texts("\\p{Lu}\\P{Lu}",
              {"Aa",
               "\xc3\x89"
               "1"},
              {"AA", "aa"});
  check_texts("\\p{Cn}", {"\xf1\x80\x80\x81", "\xf3\x9f\xbf\xbf"}, {"a", "\xf3\xa0\x80\x81", "\xf3\xb0\x80\x80"});
  check_texts("[^\\p{Nd}x]", {"a", "-"}, {"1", "\xd9\xa3", "x"});
}

TEST_CASE("classes hold their ranges, and negated ones all else") {
  check_texts("[a-cx]", {"a", "b", "c", "x"}, {"", "d", "-", "ab"});
  check_texts("[^a-c]", {"d", "\n", "\xe2\x82\xac"}, {"a", "b", "\xe2\x82"});
  check_texts("[-a]|[b-]|[+--]", {"-", "a", "b", "+", ","}, {"c", "."});
  check_texts("[a-b-d]", {"a", "-", "d"}, {"c"});
  check_texts("[\\d_\\-\\]\\^\\b]", {"5", "_", "-", "]", "^", "\b"}, {"\\", "a", "b"});
  check_texts("[\\s\\S]", {"a", "\n", "\xc2\xa0", "\v"}, {"", "ab"});
  check_texts("[\\u{1F600}-\\u{1F64F}\xc3\xa9]", {"\xF0\x9F\x98\x80", "\xc3\xa9"}, {"a", "\xF0\x9F\x99\x90"});
  check_texts("[.*+?(|)[{$]", {".", "*", "(", "|", "[", "$"}, {"a"});
  check_texts("[^\\u{0}-\\u{10FFFF}]", {}, {"", "a"});
  check_texts("[c-da-bb-c]", {"a", "b", "c", "d"}, {"e"});
}

TEST_CASE("a dot is any character but the ends of lines") {
  check_texts(".", {"a", "\t", "\xc3\xa9", "\xF0\x9F\x98\x80"},
              {"", "\n", "\r", "\xe2\x80\xa8", "\xe2\x80\xa9", "ab", "\xff"});
}

TEST_CASE("anchors at the edges change nothing where the whole text must match") {
  check_texts("^a$|\\Ab\\z|^^c$$", {"a", "b", "c"}, {"", "ab", "xa"});
  check_texts("^(a|(?:^b$))$", {"a", "b"}, {"ab"});
  check_texts("^$", {""}, {"a"});
}

TEST_CASE("a searched pattern may stand anywhere, unless an anchor holds it") {
  check_texts("b+", {"b", "abc", "b\nb"}, {"", "ac"}, kSearch);
  check_texts("^b", {"b", "bc\n"}, {"ab"}, kSearch);
  check_texts("b$", {"b", "ab"}, {"bc", "b\n"}, kSearch);
  check_texts("^b$|^c|d$", {"b", "cx", "xd"}, {"bx", "xb", "xc", "dx"}, kSearch);
  check_texts("(^a$)|(?<n>b$|^c)", {"a", "xb", "cx"}, {"ax", "bx", "xc"}, kSearch);
  check_texts("^(a|b$)", {"ax", "b"}, {"xa", "bx"}, kSearch);
  check_texts("(a|^b)$", {"xa", "b"}, {"ax", "xb"}, kSearch);
  check_texts("([(\\)$]|b)", {"x)", "$x", "b"}, {"x"}, kSearch);
  check_texts("", {"", "abc"}, {"\xff"}, kSearch);
  check_texts("^", {"", "abc"}, {}, kSearch);
}

TEST_CASE("in a JSON string every character has the spelling of JSON") {
  check_texts("a\"\\\\\\n\\x01\\x1f/\\x7f", {"a\\\"\\\\\\n\\u0001\\u001f/\x7f"}, {"a\"\\\\\\n\\u0001\\u001f/\x7f"},
              kJson);
  check_texts("[\"a\\n]", {"\\\"", "a", "\\n"}, {"\"", "\n", "n", "\\", "\\a"}, kJson);
  check_texts("[^a]", {"\\\"", "\\\\", "\\u0000", "\\u001b", "\\t", "b", "\xc3\xa9"},
              {"a", "\"", "\\", "\\u0020", "\\u000a", "\\u0009", "\t", "\\u00e9", "\\/"}, kJson);
  check_texts("\\n{2}", {"\\n\\n"}, {"\\nn", "\\n"}, kJson);
  check_texts("x", {"x", "\\\\x\\n", "\\u0001x"}, {"\"x", "\\x", "x\\", "\nx", "\\"},
              {.in_json_string = true, .searches = true});
}

TEST_CASE("lookahead sees the whole text that follows") {
  std::vector<uint64_t> room(size_t{1} << 17);
  const HostView<std::byte> view = {reinterpret_cast<std::byte*>(room.data()), 1, int64_t{1} << 20};
  for (const RegexOptions& options :
       {RegexOptions{.workspace = view}, RegexOptions{.searches = true, .workspace = view}}) {
    check_texts("^(?!no$)\\w+$", {"yes", "not"}, {"no", ""}, options);
    check_texts("^(?=[a-c]+$)(?=.*b)\\w{2,}$", {"ab", "cba"}, {"b", "ac", "abd"}, options);
    check_texts("^(a(?!b)|b(?!a))$|^x$", {"a", "b", "x"}, {"ab", "ba"}, options);
    check_texts("^a(?:b(?=c)c)?$", {"a", "abc"}, {"ab", "ac"}, options);
  }
  check_texts("(?!ab)[ab]*", {"", "a", "ba", "aab"}, {"ab", "aba"}, {.workspace = view});
  check_texts("a(?!b|c$)", {"a", "ad", "xacd", "abad"}, {"ab", "ac", "xabac"}, {.searches = true, .workspace = view});
}

TEST_CASE("what cannot be written as a grammar is refused, with its place") {
  for (const char* pattern : {"(?:a(?=b))*", "(?:a(?!b))c", "(?:a(?=b)){2}$"})
    check_refused(pattern, Code::kUnsupported, "at byte 4: lookahead may only stand where what follows it ends");
  for (const char* pattern : {"a(?<=b)", "a(?<!b)"})
    check_refused(pattern, Code::kUnsupported, "at byte 1: lookbehind is not supported");
  std::string looks;
  for (int i = 0; i <= kMaxRegexLooks; ++i) looks += "(?=a)";
  check_refused(looks, Code::kUnsupported, "at byte 80: there are more than 16 lookaheads");
  for (const char* pattern : {"(a)\\1", "(a)\\k<a>", "(a)(?P=a)"})
    check_refused(pattern, Code::kUnsupported, "at byte 3: back-references are not supported");
  check_refused("ab\\b", Code::kUnsupported, "at byte 2: word boundaries");
  check_refused("\\B", Code::kUnsupported, "word boundaries");
  for (const char* pattern : {"a++", "a*+", "a?+", "a{2}+"})
    check_refused(pattern, Code::kUnsupported, "possessive quantifiers");
  check_refused("(?>a)", Code::kUnsupported, "atomic groups");
  for (const char* pattern : {"(?i)a", "(?i:a)", "(?#a)", "(?-s:a)"})
    check_refused(pattern, Code::kUnsupported, "at byte 0: flags and comments");
  for (const char* pattern : {"a^b", "(a^)b", "a(^b)", "a\\Ab", "a(?:b|^)"})
    check_refused(pattern, Code::kUnsupported, "^ may only stand where");
  for (const char* pattern : {"a$b", "(a$)b", "$a", "a\\zb", "$*"})
    check_refused(pattern, Code::kUnsupported, "$ may only stand where");
  check_refused("[[:alpha:]]", Code::kUnsupported, "at byte 1: POSIX classes");
  check_refused("a{100001}", Code::kUnsupported, "at byte 1: a repetition has more than 100000 times");
  check_refused("a{1,100001}", Code::kUnsupported, "100000");
  check_refused("\\01", Code::kUnsupported, "octal");
  check_refused("\\p{Letter}", Code::kUnsupported, "general categories");
  check_refused("\\pL", Code::kUnsupported, "general categories");
  for (const char* pattern : {"\\cA", "\\a", "\\Z", "\\Q", "[\\A]"})
    check_refused(pattern, Code::kUnsupported, "at byte");
}

TEST_CASE("what is no regular expression is refused, with its place") {
  for (const char* pattern : {"*a", "?", "(?:*)", "^*", "a|+", "{2}", "(?:{,2})"})
    check_refused(pattern, Code::kBadArgument, "there is nothing to repeat");
  check_refused("a|*", Code::kBadArgument, "at byte 2: there is nothing to repeat");
  for (const char* pattern : {"a**", "a?\?\?", "a{2}{3}", "a+?*"})
    check_refused(pattern, Code::kBadArgument, "a quantifier follows another");
  for (const char* pattern : {"a{,3}", "a{2", "a{2,", "a{2,x}", "a{2x}"})
    check_refused(pattern, Code::kBadArgument, "at byte 1: a repetition is {n}, {n,} or {n,m}");
  check_refused("a{3,2}", Code::kBadArgument, "at byte 1: the counts of a repetition are in the wrong order");
  check_refused("a(b", Code::kBadArgument, "at byte 1: the group is not closed");
  check_refused("(b", Code::kBadArgument, "at byte 0: the group is not closed");
  check_refused("a)b", Code::kBadArgument, "at byte 1: ) closes no group");
  check_refused("(a))", Code::kBadArgument, "at byte 3: ) closes no group");
  check_refused("a[b", Code::kBadArgument, "at byte 1: the class is not closed");
  check_refused("a[", Code::kBadArgument, "at byte 1: the class is not closed");
  check_refused("[b-", Code::kBadArgument, "the class is not closed");
  for (const char* pattern : {"[]a]", "[^]"}) check_refused(pattern, Code::kBadArgument, "a class is empty");
  check_refused("a[xz-b]", Code::kBadArgument, "at byte 3: the ends of a range are in the wrong order");
  for (const char* pattern : {"[\\d-z]", "[a-\\d]"})
    check_refused(pattern, Code::kBadArgument, "at byte 1: a range has a class for an end");
  check_refused("ab\\", Code::kBadArgument, "at byte 2: the pattern ends after a backslash");
  check_refused("\\ a", Code::kBadArgument, "it is no escape");
  check_refused("\\\xc3\xa9", Code::kBadArgument, "it is no escape");
  check_refused("\\x4", Code::kBadArgument, "\\x needs two");
  for (const char* pattern : {"\\u12", "\\u{}", "\\u{110000}", "\\u{D800}", "\\ud800", "\\ud800\\u0041", "\\udc00",
                              "\\u{123456789}", "\\u{12"})
    check_refused(pattern, Code::kBadArgument, "\\u needs four");
  for (const char* pattern : {"(?<>a)", "(?<1a>b)", "(?<a", "(?P<a b>c)"})
    check_refused(pattern, Code::kBadArgument, "a group's name is");
  check_refused("\\p{Lx}", Code::kBadArgument, "no general category");
  check_refused("\\p{L", Code::kBadArgument, "\\p{ is not closed");
  for (const char* pattern : {"a\xff", "a\xc3", "a\xed\xa0\x80", "a\xc0\x80"})
    check_refused(pattern, Code::kBadArgument, "at byte 1: it is not UTF-8");
}

TEST_CASE("patterns larger than the limits are refused") {
  check_refused(std::string(kMaxRegexBytes + 1, 'a'), Code::kUnsupported, "65537 bytes");
  check_refused(std::string(kMaxRegexGroups + 1, '(') + std::string(kMaxRegexGroups + 1, ')'), Code::kUnsupported,
                "groups nest deeper");
  check_refused(std::string(kMaxRegexBytes, '('), Code::kUnsupported, "groups nest deeper");
  std::string categories, wide = "[";
  for (int i = 0; i <= kMaxRegexCategories; ++i) categories += "\\p{Zl}";
  check_refused(categories, Code::kUnsupported, "more than 16");
  for (int i = 0; i <= 1024; ++i) wide += "\\u{" + std::to_string(10000 + 2 * i) + "}";
  check_refused(wide + "]", Code::kUnsupported, "more than 1024 ranges");
  test::GrammarRoom room(512);
  Expression e = kNoExpression;
  CHECK(read_regex("abc(d|e)*[^x]y", {}, &room.grammar, &e).code() == Code::kFull);
}

std::string make_pattern(test::Random& random, int depth) {
  const auto deeper = [&] { return make_pattern(random, depth - 1); };
  switch (depth <= 0 ? random.integer(0, 3) : random.integer(0, 9)) {
    case 0: return "a";
    case 1: return "b";
    case 2: return random.integer(0, 1) ? "[ab]" : "[^a]";
    case 3: return random.integer(0, 1) ? "" : "c";
    case 4: return "(" + deeper() + "|" + deeper() + ")";
    case 5: return "(" + deeper() + ")" + (random.integer(0, 1) ? "*" : "+");
    case 6: return "(?:" + deeper() + ")" + (random.integer(0, 1) ? "?" : "{1,2}");
    case 7: return "(" + deeper() + "){2}";
    default: return deeper() + deeper();
  }
}

/// A pattern of POSIX, which has no (?: ) but the same texts for it.
class PosixPattern {
 public:
  explicit PosixPattern(std::string pattern) {
    for (size_t at = 0; (at = pattern.find("(?:")) != std::string::npos;) pattern.erase(at + 1, 2);
    REQUIRE_MESSAGE(regcomp(&compiled_, pattern.c_str(), REG_EXTENDED | REG_NOSUB) == 0, pattern);
  }
  ~PosixPattern() { regfree(&compiled_); }
  PosixPattern(const PosixPattern&) = delete;
  PosixPattern& operator=(const PosixPattern&) = delete;
  bool finds(const std::string& text) const { return regexec(&compiled_, text.c_str(), 0, nullptr, 0) == 0; }

 private:
  regex_t compiled_;
};

TEST_CASE("random patterns match what those of POSIX do") {
  test::Random random(11);
  int64_t matched = 0;
  for (int i = 0; i < 400; ++i) {
    const bool searches = i % 2 == 0;
    const bool start = random.integer(0, 3) == 0, end = random.integer(0, 3) == 0;
    const std::string pattern = (start ? "^" : "") + make_pattern(random, 4) + (end ? "$" : "");
    const PosixPattern expected(searches ? pattern : "^" + pattern + "$");
    test::GrammarRoom room;
    Expression e = kNoExpression;
    REQUIRE_MESSAGE(read_regex(pattern, {.searches = searches}, &room.grammar, &e).ok(), pattern);
    for (int j = 0; j < 30; ++j) {
      std::string text;
      for (int64_t left = random.integer(0, 7); left > 0; --left) text += "abc"[random.integer(0, 2)];
      const bool matches = expected.finds(text);
      matched += matches;
      CHECK_MESSAGE(room.matches(e, text) == matches, pattern, " ", text);
    }
  }
  CHECK(matched > 1000);
  CHECK(matched < 11000);
}

}  // namespace
}  // namespace ocellus
