// Time that constraints take of decode steps: answers are replayed token by token, as if they were sampled.
//
//   constraint_bench VOCABULARY.gguf SCHEMAS.jsonl [rounds] [constraint bytes] [0: times of schemas are left out]
//
// A line of the second file is {"name": ..., "schema": {...}, "answers": ["...", ...]}. Each round compiles the schema
// anew and replays the answers twice: in "first", the schema was never used before, "later" are its other answers,
// "again" the second pass, with the masks that were kept. Prints one JSON object. Times are of the thread, without
// other programs' share; a token's time is the median over the rounds.
#include <time.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quant/gguf.h"
#include "runtime/branches/constrain/answer_constraint.h"

namespace {

using namespace ocellus;
using Json = nlohmann::ordered_json;

double now_us() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

void require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", last_failure().sentence);
  std::exit(1);
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

/// A token's times, us.
struct TokenTimes {
  double mask = 0, accept = 0;
  bool only = false;  // no other token could come
};
using Times = std::vector<TokenTimes>;

class Replay {
 public:
  Replay(const Tokenizer& tokenizer, ConstraintMemory* memory) : tokenizer_(tokenizer), memory_(memory) {
    mask_.resize(static_cast<size_t>(memory->tokens().words()));
  }

  /// A forced text may be spelled in other tokens than the answer's own: what is left is then encoded again.
  void run(ConstraintSlot* slot, std::string text, Times* times) {
    AnswerConstraint constraint;
    require(constraint.begin(slot, &memory_->state(0), false, nullptr));
    std::vector<TokenId> tokens = encode(text);
    for (size_t t = 0; !text.empty(); ++t) {
      const double start = now_us();
      require(constraint.write_masks(0, {}, nullptr, kNoToken, {mask_.data(), 1, std::ssize(mask_)}));
      const double masked = now_us();
      TokenId token = tokens[t];
      const int set = count_bits();
      if (!has(token) && set == 1) {
        token = only();
        tokens = encode(text.substr(std::min(text.size(), tokenizer_.piece(token, false).size())));
        t = static_cast<size_t>(-1);
      }
      const std::string_view piece = tokenizer_.piece(token, false);
      if (!has(token) || text.compare(0, piece.size(), piece) != 0) {
        std::fprintf(stderr, "the constraint does not allow \"%s\"\n", text.c_str());
        std::exit(1);
      }
      text.erase(0, piece.size());
      const double chosen = now_us();
      require(constraint.accept(token));
      times->push_back({masked - start, now_us() - chosen, set == 1});
    }
  }

 private:
  std::vector<TokenId> encode(const std::string& text) const {
    const auto bytes = static_cast<int64_t>(text.size());
    std::vector<std::byte> workspace(static_cast<size_t>(Tokenizer::workspace_bytes(bytes)));
    std::vector<TokenId> tokens(text.size() + 1);
    int64_t count = 0;
    require(tokenizer_.encode(text, false, workspace.data(), static_cast<int64_t>(workspace.size()), tokens.data(),
                              static_cast<int64_t>(tokens.size()), &count, true));
    tokens.resize(static_cast<size_t>(count));
    return tokens;
  }
  bool has(TokenId token) const { return has_token(mask_.data(), token); }
  int count_bits() const {
    int set = 0;
    for (const uint32_t word : mask_) set += std::popcount(word);
    return set;
  }
  TokenId only() const {
    size_t word = 0;
    while (mask_[word] == 0) ++word;
    return static_cast<TokenId>(word * 32) + std::countr_zero(mask_[word]);
  }

  const Tokenizer& tokenizer_;
  ConstraintMemory* memory_;
  std::vector<uint32_t> mask_;
};

double at(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
}

double rounded(double value) { return static_cast<double>(static_cast<int64_t>(value * 100 + .5)) / 100; }

Json describe(const std::vector<double>& values) {
  return {{"p50", rounded(at(values, .5))}, {"p99", rounded(at(values, .99))}, {"max", rounded(at(values, 1))}};
}

/// Percentiles of the times of a schema, or of all of them.
Json describe(const Times& times) {
  std::vector<double> masks, free_masks, steps;
  for (const TokenTimes& time : times) {
    masks.push_back(time.mask);
    if (!time.only) free_masks.push_back(time.mask);
    steps.push_back(time.mask + time.accept);
  }
  const double only = 1 - static_cast<double>(free_masks.size()) / static_cast<double>(times.size());
  return {{"tokens", times.size()},
          {"no_choice", rounded(only)},
          {"mask_us", describe(masks)},
          {"mask_where_there_is_a_choice_us", describe(free_masks)},
          {"mask_and_accept_us", describe(steps)}};
}

/// The median of each token's times.
Times medians(const std::vector<Times>& rounds) {
  Times result = rounds[0];
  for (size_t t = 0; t < result.size(); ++t) {
    std::vector<double> masks, accepts;
    for (const Times& times : rounds) {
      masks.push_back(times[t].mask);
      accepts.push_back(times[t].accept);
    }
    result[t].mask = at(masks, .5);
    result[t].accept = at(accepts, .5);
  }
  return result;
}

constexpr const char* kPasses[] = {"first", "later", "again"};

Json measure(const Json& line, int rounds, Replay* replay, ConstraintMemory* memory, std::map<std::string, Times>* all,
             std::vector<double>* compile_ms) {
  const std::string schema = line["schema"].dump();
  const ocellus_constraint_params params = {.struct_bytes = sizeof(ocellus_constraint_params),
                                            .kind = OCELLUS_CONSTRAINT_SCHEMA,
                                            .text = schema.data(),
                                            .text_bytes = static_cast<int64_t>(schema.size()),
                                            .free_space = 0,
                                            .session = nullptr};
  Json result = {{"name", line["name"]}};
  std::map<std::string, std::vector<Times>> passes;
  std::vector<double> compiles;
  for (int round = 0; round < rounds; ++round) {
    ConstraintSlot* slot = nullptr;
    const double start = now_us();
    require(memory->open(params, &slot));
    compiles.push_back((now_us() - start) * 1e-3);
    Times times[3];
    const Json& answers = line["answers"];
    for (size_t a = 0; a < answers.size(); ++a) replay->run(slot, answers[a], &times[a == 0 ? 0 : 1]);
    for (const Json& answer : answers) replay->run(slot, answer, &times[2]);
    for (int pass = 0; pass < 3; ++pass) passes[kPasses[pass]].push_back(times[pass]);
    result["table_bytes"] = slot->constraint.table_bytes();
    result["kept_masks"] = slot->constraint.kept_masks();
    slot->close();
  }
  compile_ms->push_back(at(compiles, .5));
  result["compile_ms"] = rounded(compile_ms->back());
  for (const char* pass : kPasses) {
    const Times times = medians(passes[pass]);
    if (!times.empty()) result[pass] = describe(times);
    (*all)[pass].insert((*all)[pass].end(), times.begin(), times.end());
  }
  return result;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 3) {
    std::fprintf(stderr, "usage: constraint_bench VOCABULARY.gguf SCHEMAS.jsonl [rounds] [constraint bytes] [0]\n");
    return 2;
  }
  const int rounds = argument_count > 3 ? std::atoi(arguments[3]) : 5;
  const int64_t bytes = argument_count > 4 ? std::atoll(arguments[4]) : int64_t{8} << 20;
  GgufFile file;
  require(file.open(arguments[1]));
  VocabularyFacts facts;
  require(read_vocabulary_facts(file, &facts));
  Rows rows;
  Tokenizer tokenizer;
  require(tokenizer.build(file, facts, rows));
  ConstraintMemory memory;
  require(memory.lay_out(tokenizer, {.count = 1, .planned_bytes = bytes}, 1, rows));
  Replay replay(tokenizer, &memory);
  std::map<std::string, Times> all;
  std::vector<double> compile_ms, clock_us;
  Json schemas = Json::array();
  std::ifstream lines(arguments[2]);
  for (std::string line; std::getline(lines, line);) {
    schemas.push_back(measure(Json::parse(line), rounds, &replay, &memory, &all, &compile_ms));
    const double start = now_us();
    clock_us.push_back(now_us() - start);
  }
  Json result = {{"vocabulary", tokenizer.token_count()},
                 {"constraint_bytes", bytes},
                 {"schemas", schemas.size()},
                 {"rounds", rounds},
                 {"clock_us", rounded(at(clock_us, .5))},
                 {"compile_ms", describe(compile_ms)}};
  for (const char* pass : kPasses) result[pass] = describe(all[pass]);
  if (argument_count <= 5) result["each"] = schemas;
  std::printf("%s\n", result.dump(1).c_str());
}
