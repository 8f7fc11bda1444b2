// Regular expressions, as they are and inside JSON strings.
#include "runtime/branches/constrain/grammar/regex.h"
#include "tests/fuzz/grammar_inputs.h"
#include "tests/fuzz/text_changes.h"

namespace ocellus::fuzz {
namespace {

constexpr const char* kPieces[] = {
    "(",     ")",        "(?:",          "(?<n>",      "(?=",       "(?<!",    "|",        "*",   "+",
    "?",     "{2}",      "{0,3}",        "{1,}",       "{100001}",  "{99999}", "{",        "}",   "[",
    "]",     "[^",       "[a-z]",        "-",          "^",         "$",       ".",        "\\",  "\\d",
    "\\W",   "\\s",      "\\S",          "\\p{L}",     "\\P{Nd}",   "\\A",     "\\z",      "\\b", "\\1",
    "\\x41", "\\u00e9",  "\\0",          "\\u{1F600}", "\\uD83D",   "\\uDE00", "\n",       "\"",  "\\\\",
    "a",     "\xc3\xa9", "\xed\xa0\x80", "\xff",       "[\\s\\S]*", "(a|b)*",  "[:alpha:]"};

/// A JSON string's inside: quotes and control characters have a backslash before them.
bool is_in_json(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (static_cast<uint8_t>(text[at]) < 0x20 || text[at] == '"') return false;
    if (text[at] != '\\') continue;
    ++at;
    if (at == text.size() || std::string_view("\"\\bfnrtu").find(text[at]) == std::string_view::npos) return false;
  }
  return true;
}

// The first byte chooses the options.
bool run(const uint8_t* data, size_t size) {
  if (size == 0) return false;
  const RegexOptions options = {.in_json_string = (data[0] & 1) != 0, .searches = (data[0] & 2) != 0};
  const std::string_view pattern(reinterpret_cast<const char*>(data + 1), size - 1);
  return try_grammar([&](Grammar* grammar, Expression* out) { return read_regex(pattern, options, grammar, out); },
                     [&](std::string_view text) {
                       require(!options.in_json_string || is_in_json(text), "a JSON string can hold the text");
                     });
}

std::vector<Bytes> make_seeds() {
  std::vector<Bytes> seeds;
  for (const std::string_view pattern :
       {"^[a-zA-Z_][\\w.-]{0,31}@(?:[a-z\\d]+\\.)+[a-z]{2,}$", "^(\\d{4})-(0[1-9]|1[0-2])$|^$",
        "\\d[^\\s\"\\\\]*?\\n|.+", "(^a|b$)", "[\\u{1F600}-\\u{1F64F}\\-\\]]+"}) {
    for (uint8_t options = 0; options < 4; ++options) {
      seeds.push_back({options});
      seeds.back().insert(seeds.back().end(), pattern.begin(), pattern.end());
    }
  }
  return seeds;
}

void change_pattern(Bytes& input, Random& random) { change_pieces(input, 1, kPieces, random); }

const Registration kRegistered({.name = "regex",
                                .make_seeds = make_seeds,
                                .mutate = change_pattern,
                                .run = run,
                                .most_bytes = 4096,
                                .most_heap_bytes = int64_t{4} << 20});

}  // namespace
}  // namespace ocellus::fuzz
