// Grammars in GBNF.
#include "runtime/branches/constrain/grammar/gbnf.h"
#include "tests/fuzz/grammar_inputs.h"
#include "tests/fuzz/text_changes.h"

namespace ocellus::fuzz {
namespace {

constexpr const char* kPieces[] = {
    "root ::= ",    "\nx ::= ",    "x",          "y ", "::=",         "|",     "(",    ")",        "\"",
    "\"a\"",        "[a-z]",       "[^",         "]",  "-",           ".",     "*",    "+",        "?",
    "{2}",          "{1,}",        "{0,100000}", "{",  "}",           "\n",    "\r\n", "# ",       "\\n",
    "\\\"",         "\\x41",       "\\u20ac",    "\\", "\\U0010ffff", "<[1]>", "!<a>", "\xc3\xa9", "\xff",
    "\xed\xa0\x80", "(\"a\" | x)*"};

bool run(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  return try_grammar([&](Grammar* grammar, Expression* out) { return read_gbnf(text, grammar, out); },
                     [](std::string_view) {});
}

std::vector<Bytes> make_seeds() {
  std::vector<Bytes> seeds;
  for (const std::string_view text :
       {"# a list\nroot ::= item (\",\" ws item){0,9} |\n  \"none\"\nitem ::= \"\\\"\" [^\"\\n]+ \"\\\"\" | [0-9]+\n"
        "ws ::= [ \\t]*\n",
        "root ::= value\nvalue ::= (\n  \"{\" (word \":\" value)? \"}\" # object\n  | \"[\" value* \"]\" | word\n)\n"
        "word ::= [a-z\\x80-\\U0010FFFF\\-\\]] .{2,3}?\r\n"})
    seeds.emplace_back(text.begin(), text.end());
  return seeds;
}

void change_grammar(Bytes& input, Random& random) { change_pieces(input, 0, kPieces, random); }

const Registration kRegistered({.name = "gbnf",
                                .make_seeds = make_seeds,
                                .mutate = change_grammar,
                                .run = run,
                                .most_bytes = 8192,
                                .most_heap_bytes = int64_t{4} << 20});

}  // namespace
}  // namespace ocellus::fuzz
