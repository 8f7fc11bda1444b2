// The longest that compiling a constraint and making a mask take, over random hostile ones.
//
//   hostile_constraints_bench MODEL_OR_VOCABULARY.gguf [how many] [seed] [FOLDER for the slowest texts, and those whose
//   answers were ended]
//
// Each text is compiled as an engine would, and answered with random tokens of its masks. Prints one JSON object; times
// are of the thread, without other programs' share. The exit status is 1 if a compilation took over a second or a mask
// over 50 ms.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "quant/gguf.h"
#include "runtime/branches/constrain/answer_constraint.h"

namespace {

using namespace ocellus;
using Json = nlohmann::ordered_json;

constexpr int kTokens = 12;  // the length of an answer
constexpr double kMostCompileMs = 1000, kMostMaskMs = 50;

double now_ms() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

void require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", last_failure().sentence);
  std::exit(2);
}

class Rows : public RowSink {
 public:
  Status take(const RowSpec& row, std::byte** out) override {
    blocks_.push_back(std::make_unique<std::byte[]>(static_cast<size_t>(row.bytes)));
    *out = blocks_.back().get();
    return {};
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

std::string escaped(const std::string& text) {
  std::string all;
  for (const char c : text) all += c == '\\' || c == '"' ? std::string{'\\', c} : std::string{c};
  return all;
}

/// Texts as an attacker would write them: random ones that nest counts, choices and references, and shapes that are
/// known to be slow somewhere.
class HostileTexts {
 public:
  explicit HostileTexts(uint64_t seed) : random_(seed) {}

  std::string regex() {
    switch (pick(8)) {
      case 0: return nested_counts();
      case 1: return row_of_optionals();
      case 2: return late_choice();
      default: return part(static_cast<int>(2 + pick(5)));
    }
  }

  std::string gbnf() {
    switch (pick(6)) {
      case 0: return counted_rules();
      case 1: return ambiguous_rules();
      case 2: return long_chain();
      default: return random_rules();
    }
  }

  std::string schema() {
    switch (pick(9)) {
      case 0: return product_of_choices();
      case 1: return many_names();
      case 2: return R"({"type": "string", "pattern": ")" + escaped(regex()) + "\"}";
      case 3: return conditions();
      case 4: return rules_of_names();
      case 5: return different_items();
      default: return place(static_cast<int>(1 + pick(5)));
    }
  }

 private:
  uint64_t pick(uint64_t count) { return random_() % count; }
  bool maybe(uint64_t of) { return pick(of) == 0; }

  template <size_t kCount>
  std::string one_of(const char* const (&texts)[kCount]) {
    return texts[pick(kCount)];
  }

  int64_t count() {
    static constexpr int64_t kCounts[] = {0, 1, 2, 3, 7, 20, 64, 200, 1000, 1999, 30000, 100000};
    return kCounts[pick(std::size(kCounts))];
  }
  std::string counts() {
    const int64_t least = maybe(2) ? 0 : count(), more = count();
    if (maybe(5)) return "{" + std::to_string(least) + ",}";
    if (maybe(6)) return "{" + std::to_string(least) + "}";
    return "{" + std::to_string(least) + "," + std::to_string(std::min<int64_t>(least + more, 100000)) + "}";
  }
  std::string atom() {
    return one_of({".", "[^x]", "[a-z]", "[a-y]", "\\w", "\\d", "\\s", "a", "ab", "é", "(?:a|ab|abc)", "(?:a|b)", " ",
                   "[^é]", "\\p{L}", "[^\\n]", "the", "(?: the| a|,)", "[\\x20-\\x7e]"});
  }
  std::string part(int depth) {
    if (depth == 0) return atom();
    std::string all;
    for (uint64_t items = 1 + pick(3); items > 0; --items) {
      std::string item = maybe(3) ? atom() : "(?:" + part(depth - 1) + ")";
      if (!maybe(3)) item = "(?:" + item + ")" + (maybe(4) ? one_of({"*", "+", "?"}) : counts());
      all += item;
      if (items > 1 && maybe(3)) all += "|";
    }
    return all;
  }
  std::string nested_counts() {
    std::string all = maybe(3) ? part(1) : atom();
    for (uint64_t depth = 2 + pick(8); depth > 0; --depth) {
      all = "(?:" + all + (maybe(3) ? "|" + atom() : "") + (maybe(4) ? atom() + "?" : "") + ")" + counts();
    }
    return all;
  }
  std::string row_of_optionals() {
    std::string all;
    const std::string first = atom(), second = atom();
    for (uint64_t i = 2 + pick(200); i > 0; --i) {
      all += "(?:" + (maybe(2) ? first : second) + ")" + (maybe(2) ? "?" : "{0," + std::to_string(count()) + "}");
    }
    return all;
  }
  // Automata of these have a state for every set of places of the letter.
  std::string late_choice() {
    const std::string any = one_of({".", "[ab]", "[a-z ]", "\\w"});
    const std::string n = std::to_string(1 + pick(40));
    return any + "*a" + any + "{" + n + "}" + (maybe(2) ? "b" + any + "{" + n + "}" : "");
  }

  std::string gbnf_item(uint64_t rules) {
    if (!maybe(3)) return std::string("r").append(std::to_string(pick(rules)));
    return one_of({"\"a\"", "\"ab\"", ".", "[^x]", "[a-z]", "[^\\n]", "\" \"", "[0-9]", "\"é\"", "\"\"", "<[100]>",
                   "!<[100]>", "!<[7]>", "[ -~]"});
  }
  std::string gbnf_quantifier() { return maybe(2) ? "" : maybe(3) ? one_of({"*", "+", "?"}) : counts(); }
  std::string random_rules() {
    const uint64_t rules = 1 + pick(maybe(4) ? 300 : 8);
    std::string all = "root ::= r0\n";
    for (uint64_t r = 0; r < rules; ++r) {
      all += "r" + std::to_string(r) + " ::=";
      for (uint64_t choices = 1 + pick(4); choices > 0; --choices) {
        if (maybe(2)) all += one_of({" \"a\"", " \"(\"", " [a-f]", " .", " \" \""});
        for (uint64_t items = pick(4); items > 0; --items) {
          const std::string item = gbnf_item(rules) + gbnf_quantifier();
          all += maybe(3) ? " (" + item + " | " + gbnf_item(rules) + ")" + gbnf_quantifier() : " " + item;
        }
        if (choices > 1) all += " |";
      }
      all += "\n";
    }
    return all;
  }
  std::string counted_rules() {
    const uint64_t rules = 1 + pick(400);
    std::string all = "root ::= ", rest;
    for (uint64_t i = 0; i < rules; ++i) {
      const std::string n = std::to_string(i);
      all += (i > 0 ? " | a" : "a") + n;
      rest += "a" + n + " ::= ( b" + n + " | c" + n + " )" + counts() + "\nb" + n +
              " ::= " + one_of({".", "[a-z]", "[^y]"}) + counts() + "\nc" + n + " ::= [^x" + (maybe(2) ? "" : n) + "]" +
              counts() + "\n";
    }
    return all + "\n" + rest;
  }
  std::string ambiguous_rules() {
    return one_of({"root ::= s\ns ::= \"a\" s s | \"a\" s | \"a\" | . s |",
                   "root ::= s*\ns ::= [a-z] s? | [a-y] s s | \" \"",
                   "root ::= (s s? s?)*\ns ::= . | . . | . . . | [^x]{0,9}",
                   "root ::= s\ns ::= \"(\" s \")\" s | [^()] s | \"(\" s |",
                   "root ::= (x y){0,90}\nx ::= y{0,80} y\ny ::= [^z]{1,70}"});
  }
  std::string long_chain() {
    const uint64_t rules = 2 + pick(2000);
    std::string all = "root ::= c0\n";
    const std::string before = one_of({"", "\"a\"? ", ".? ", "[a-z]* "});
    for (uint64_t i = 0; i < rules; ++i) {
      all += "c" + std::to_string(i) + " ::= " + before;
      all += i + 1 < rules ? "c" + std::to_string(i + 1) + " \"" + static_cast<char>('a' + i % 26) + "\"\n"
                           : "\"z\" | .\n";
    }
    return all;
  }

  std::string bounds(const char* least, const char* most) {
    std::string all;
    const int64_t low = maybe(2) ? 0 : count();
    if (low > 0) all += std::string(", \"") + least + "\": " + std::to_string(low);
    if (!maybe(3)) all += std::string(", \"") + most + "\": " + std::to_string(low + count());
    return all;
  }
  std::string name() {
    const std::string plain = std::string(1 + pick(3), static_cast<char>('a' + pick(4))) + std::to_string(pick(30));
    return std::string("\"").append(plain).append("\"");
  }
  std::string list(int depth, uint64_t most) {
    std::string all = "[" + place(depth);
    for (uint64_t i = pick(most); i > 0; --i) all += ", " + place(depth);
    return all + "]";
  }
  std::string place(int depth) {
    if (depth == 0)
      return one_of({R"({"type": "string"})", R"({"type": "number"})", R"({"type": "integer"})", "{}",
                     R"({"$ref": "#"})", R"({"enum": ["a", "ab", 1, null]})",
                     R"({"type": "string", "format": "email"})", R"({"type": "string", "format": "uri"})",
                     R"({"type": "string", "maxLength": 1999})"});
    switch (pick(7)) {
      case 0: return R"({"type": "array", "items": )" + place(depth - 1) + bounds("minItems", "maxItems") + "}";
      case 1: return R"({"anyOf": )" + list(depth - 1, 6) + "}";
      case 2: return R"({"allOf": )" + list(depth - 1, 3) + "}";
      case 3: return R"({"type": "string")" + bounds("minLength", "maxLength") + "}";
      case 4: return R"({"type": "string", "pattern": ")" + escaped(part(2)) + "\"}";
      case 5: return R"({"prefixItems": )" + list(depth - 1, 5) + R"(, "items": )" + place(depth - 1) + "}";
      default: return object(depth);
    }
  }
  std::string object(int depth) {
    std::string all = R"({"type": "object", "properties": {)";
    const uint64_t names = 1 + pick(maybe(5) ? 60 : 6);
    for (uint64_t i = 0; i < names; ++i)
      all += (i > 0 ? ", \"p" : "\"p") + std::to_string(i) + "\": " + place(maybe(2) ? 0 : depth - 1);
    all += "}";
    if (maybe(2)) all += R"(, "additionalProperties": )" + place(0);
    if (maybe(3)) all += bounds("minProperties", "maxProperties");
    return all + "}";
  }
  std::string product_of_choices() {
    std::string all = R"({"allOf": [)";
    const uint64_t factors = 2 + pick(12);
    for (uint64_t f = 0; f < factors; ++f) {
      all += (f > 0 ? R"(, {"anyOf": [)" : R"({"anyOf": [)");
      for (uint64_t i = 0, most = 2 + pick(8); i < most; ++i)
        all += (i > 0 ? R"(, {"properties": {)" : R"({"properties": {)") + name() + ": " + place(0) + "}}";
      all += "]}";
    }
    return all + "]}";
  }
  // Conditions on one string are a product of automata.
  std::string conditions() {
    std::string all = R"({"type": "string")" + (maybe(2) ? bounds("minLength", "maxLength") : "");
    if (maybe(2))
      all += R"(, "format": ")" + one_of({"email", "uri", "ipv6", "date-time", "hostname", "duration"}) + "\"";
    if (maybe(4)) return all + R"(, "enum": ["a", "ab", "b"], "pattern": ")" + escaped(looking(regex())) + "\"}";
    all += R"(, "allOf": [)";
    for (uint64_t i = 0, most = 1 + pick(16); i < most; ++i)
      all +=
          (i > 0 ? R"(, {"pattern": ")" : R"({"pattern": ")") + escaped(looking(maybe(2) ? part(1) : regex())) + "\"}";
    return all + "]}";
  }
  std::string looking(const std::string& rest) {
    std::string all = "^";
    for (uint64_t i = pick(maybe(4) ? 17 : 3); i > 0; --i)
      all += (maybe(2) ? "(?=" : "(?!") + part(1) + (maybe(2) ? "$)" : ")");
    return all + "(?:" + rest + ")" + (maybe(2) ? "$" : "");
  }
  std::string rules_of_names() {
    std::string all = R"({"type": "object", "propertyNames": {"pattern": ")" + escaped(looking(part(2))) + "\"" +
                      bounds("minLength", "maxLength") + R"(}, "patternProperties": {)";
    for (uint64_t i = 0, most = 1 + pick(8); i < most; ++i)
      all += (i > 0 ? ", \"" : "\"") + escaped(part(1)) + std::to_string(i) + "\": " + place(0);
    return all + R"(}, "additionalProperties": )" + place(0) + "}";
  }
  std::string different_items() {
    const std::string items = R"({"type": "integer", "minimum": )" + std::to_string(pick(1000)) + R"(, "maximum": )" +
                              std::to_string(1000 + pick(300)) + R"(, "multipleOf": )" + std::to_string(1 + pick(256)) +
                              "}";
    return R"({"type": "array", "uniqueItems": )" + one_of({"true", "false"}) + bounds("minItems", "maxItems") +
           R"(, "items": )" + (maybe(2) ? items : R"({"enum": [1, 2, 3, "a", "b", "c", null, true]})") + "}";
  }
  std::string many_names() {
    std::string all = R"({"properties": {)";
    const uint64_t names = 2 + pick(3000);
    for (uint64_t i = 0; i < names; ++i)
      all += (i > 0 ? ", \"" : "\"") + std::string(pick(12), 'n') + std::to_string(i) + "\": " + place(0);
    return all + R"(}, "additionalProperties": {"type": "string"}, "$ref": "#/$defs/x", "$defs": {"x": {}}})";
  }

  std::mt19937_64 random_;
};

/// The longest time, and the text that took it.
struct Worst {
  double ms = 0;
  std::string text;

  void note(double taken_ms, const std::string& by) {
    if (taken_ms <= ms) return;
    ms = taken_ms;
    text = by;
  }
};
struct Kind {
  Worst compile, mask;
  std::map<std::string, int> ends;
  int64_t masks = 0;
  std::string ended;  // texts whose answers could not go on
};

bool is_out_of_steps() { return std::string_view(last_failure().sentence).find("steps") != std::string_view::npos; }

const char* name_of_end(Status status) {
  if (status.ok()) return "compiled";
  if (is_out_of_steps()) return "refused: steps";
  return status.code() == Code::kFull ? "refused: memory" : "refused: other";
}

TokenId random_token(const std::vector<uint32_t>& mask, std::mt19937_64* random) {
  std::vector<TokenId> allowed;
  for (size_t word = 0; word < mask.size(); ++word)
    for (uint32_t bits = mask[word]; bits != 0; bits &= bits - 1)
      allowed.push_back(static_cast<TokenId>(32 * word) + std::countr_zero(bits));
  return allowed[(*random)() % allowed.size()];
}

class Trial {
 public:
  Trial(const Tokenizer& tokenizer, ConstraintMemory* memory) : tokenizer_(tokenizer), memory_(*memory) {
    mask_.resize(static_cast<size_t>(memory_.tokens().words()));
  }

  void run(int32_t kind, const std::string& text, std::mt19937_64* random, Kind* out) {
    const ocellus_constraint_params params = {.struct_bytes = sizeof(ocellus_constraint_params),
                                              .kind = kind,
                                              .text = text.data(),
                                              .text_bytes = static_cast<int64_t>(text.size()),
                                              .free_space = static_cast<int32_t>((*random)() % 2),
                                              .session = nullptr};
    ConstraintSlot* slot = nullptr;
    const double start = now_ms();
    const Status status = memory_.open(params, &slot);
    out->compile.note(now_ms() - start, text);
    ++out->ends[name_of_end(status)];
    if (!status.ok()) return;
    answer(slot, text, random, out);
    slot->close();
  }

 private:
  void answer(ConstraintSlot* slot, const std::string& text, std::mt19937_64* random, Kind* out) {
    AnswerConstraint constraint;
    Status status = constraint.begin(slot, &memory_.state(0), false, nullptr);
    for (int t = 0; t < kTokens && status.ok(); ++t) {
      const double start = now_ms();
      status = constraint.write_masks(0, {}, nullptr, kNoToken, {mask_.data(), 1, std::ssize(mask_)});
      out->mask.note(now_ms() - start, text);
      ++out->masks;
      if (!status.ok()) break;
      const TokenId token = random_token(mask_, random);
      if (tokenizer_.is_end_of_generation(token)) break;
      const double before = now_ms();
      status = constraint.accept(token);
      out->mask.note(now_ms() - before, text);
      if (constraint.is_complete()) break;
    }
    if (status.ok()) return;
    ++out->ends[is_out_of_steps() ? "answer ended: steps" : "answer ended: other"];
    out->ended += text + "\n";
  }

  const Tokenizer& tokenizer_;
  ConstraintMemory& memory_;
  std::vector<uint32_t> mask_;
};

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 2) {
    std::fprintf(stderr, "usage: hostile_constraints_bench VOCABULARY.gguf [how many] [seed] [folder]\n");
    return 2;
  }
  const int count = argument_count > 2 ? std::atoi(arguments[2]) : 1000;
  const uint64_t seed = argument_count > 3 ? std::strtoull(arguments[3], nullptr, 10) : 1;
  GgufFile file;
  require(file.open(arguments[1]));
  VocabularyFacts facts;
  require(read_vocabulary_facts(file, &facts));
  Rows rows;
  Tokenizer tokenizer;
  require(tokenizer.build(file, facts, rows));
  ConstraintMemory memory;
  require(memory.lay_out(tokenizer, {.count = 1, .planned_bytes = int64_t{8} << 20}, 1, rows));
  Trial trial(tokenizer, &memory);
  HostileTexts texts(seed);
  std::mt19937_64 random(seed);
  const char* const names[] = {"schema", "grammar", "regex"};
  Kind kinds[3];
  for (int i = 0; i < count; ++i) {
    const int kind = i % 3;
    const std::string text = kind == OCELLUS_CONSTRAINT_SCHEMA    ? texts.schema()
                             : kind == OCELLUS_CONSTRAINT_GRAMMAR ? texts.gbnf()
                                                                  : texts.regex();
    trial.run(kind, text, &random, &kinds[kind]);
  }
  Json result = {{"vocabulary", tokenizer.token_count()}, {"constraints", count}, {"seed", seed}};
  bool is_late = false;
  for (int k = 0; k < 3; ++k) {
    result[names[k]] = {{"slowest_compile_ms", kinds[k].compile.ms},
                        {"slowest_mask_ms", kinds[k].mask.ms},
                        {"masks", kinds[k].masks},
                        {"ends", kinds[k].ends}};
    is_late = is_late || kinds[k].compile.ms > kMostCompileMs || kinds[k].mask.ms > kMostMaskMs;
    if (argument_count <= 4) continue;
    const std::string folder = std::string(arguments[4]) + "/" + names[k];
    std::ofstream(folder + "_compile.txt") << kinds[k].compile.text;
    std::ofstream(folder + "_mask.txt") << kinds[k].mask.text;
    std::ofstream(folder + "_ended.txt") << kinds[k].ended;
  }
  std::printf("%s\n", result.dump(1).c_str());
  return is_late ? 1 : 0;
}
