// The matrix of methods: every eviction method with all bits, packing schemes, ways to reuse pictures and times of
// compression. A cell runs as planned, or has a pair of runtime/branches/feature_pairs.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/branches/feature_pairs.h"
#include "runtime/branches/roll/roll.h"
#include "runtime/engine/memory_plan.h"
#include "runtime/policy/packing_scheme.h"
#include "runtime/policy/row_rule.h"
#include "tests/support/cache_texts.h"
#include "tests/support/call_counter.h"
#include "tests/support/failure.h"
#include "tests/support/small_run.h"
#include "tests/support/tiled_pictures.h"

namespace ocellus {
namespace {

using test::TestPicture;

struct ReuseName {
  ocellus_reuse method;
  int32_t all_rows;  // reuse_rows that leave nothing to reuse; 0: every setting does
  const char* name;
};
constexpr ReuseName kReuses[] = {{OCELLUS_REUSE_NONE, 0, "none"},      {OCELLUS_REUSE_MPIC, -1, "mpic"},
                                 {OCELLUS_REUSE_SPREAD, -1, "spread"}, {OCELLUS_REUSE_CARRY, -1, "carry"},
                                 {OCELLUS_REUSE_FULL, 0, "full"},      {OCELLUS_REUSE_TILES, -1, "tiles"},
                                 {OCELLUS_REUSE_PREFIX, 0, "prefix"},  {OCELLUS_REUSE_BLEND, 100, "CacheBlend"}};
constexpr const char* kTimes[] = {"at the prompt's end", "before the suffix", "at the image's end"};

/// One cell of the matrix.
struct Cell {
  const RowRule* evict = nullptr;  // null: none
  int32_t bits = 16;
  const PackingScheme* scheme = nullptr;
  const ReuseName* reuse = kReuses;
  ocellus_compress_at when = OCELLUS_COMPRESS_PROMPT_END;

  std::string_view evict_name() const { return evict == nullptr ? "none" : evict->method().name; }
  bool packs() const { return bits < 16; }
  bool has_scheme(std::string_view name) const { return packs() && scheme->method.name == name; }
  bool links() const { return reuse->method != OCELLUS_REUSE_NONE; }
  bool one_by_one() const { return when == OCELLUS_COMPRESS_IMAGE_END; }
  std::string name() const {
    return std::string(evict_name()) + ", " + std::to_string(bits) + " bits, " + scheme->method.name + ", " +
           reuse->name + ", " + kTimes[when];
  }
  ocellus_limits limits(float keep, int32_t reuse_rows) const {
    ocellus_limits limits = test::picture_limits(2, 120);
    limits.cache.kv_bits = bits;
    test::set_text(limits.cache.evict, evict_name());
    test::set_text(limits.cache.kv_scheme, scheme->method.name);
    limits.cache.keep = evict == nullptr ? 1 : keep;
    limits.cache.compress_at = when;
    limits.reuse = reuse->method;
    limits.reuse_rows = reuse_rows;
    return limits;
  }
};

/// True if the cell's method drops slots during answers, too.
bool evicts_answers(const Cell& cell) {
  for (const char* name : {"h2o", "streaming-llm", "elastic", "sink-recent"})
    if (cell.evict_name() == name) return !cell.one_by_one();
  return false;
}

/// True if the cell's method is one of these.
bool is_one_of(const Cell& cell, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return cell.evict_name() == name; });
}

/// What a cell has, by the names of its methods.
bool has(const Cell& cell, Feature feature) {
  const bool thins = is_one_of(cell, {"infinipot-v"}), evicts = cell.evict != nullptr && !thins;
  const bool as_prompt = cell.has_scheme("kivi") || cell.has_scheme("calibquant") || evicts;
  switch (feature) {
    case Feature::kThinning: return thins;
    case Feature::kRanksByAttention:
      return evicts && !is_one_of(cell, {"random", "keydiff-prefill", "streaming-llm", "sink-recent"});
    case Feature::kRanksLate: return evicts && cell.evict->facts({}).is_late;
    case Feature::kEvictsAnswers: return evicts_answers(cell);
    case Feature::kNeedsAnswers: return is_one_of(cell, {"h2o", "streaming-llm", "elastic"});
    case Feature::kEvictsImages: return evicts && cell.one_by_one();
    case Feature::kKivi: return cell.has_scheme("kivi");
    case Feature::kCalibquant: return cell.has_scheme("calibquant");
    case Feature::kPacking: return cell.packs();
    case Feature::kImageEnd: return (evicts || cell.packs()) && cell.one_by_one();
    case Feature::kReuse: return cell.links();
    case Feature::kPrefix: return cell.reuse->method == OCELLUS_REUSE_PREFIX;
    case Feature::kFullReuse: return cell.reuse->method == OCELLUS_REUSE_FULL;
    case Feature::kStagedImages: return cell.links() && as_prompt;
    default: return false;  // not in the matrix
  }
}

/// Returns the pair of the table that a cell has, or null if it runs.
const FeaturePair* refusal_of(const Cell& cell) {
  for (const FeaturePair& pair : feature_pairs())
    if (has(cell, pair.one) && has(cell, pair.other)) return &pair;
  return nullptr;
}

/// True if the sentence names a method of the cell.
bool names_method(const Cell& cell, std::string_view sentence) {
  const auto names = [&](std::string_view name) { return sentence.find(name) != std::string_view::npos; };
  return (cell.evict != nullptr && names(cell.evict_name())) || names(cell.scheme->method.name) ||
         (cell.links() && (names("linked image") || names(cell.reuse->name)));
}

/// Calls visit(cell) for all cells, or in slow runs for one in 23.
template <class Visit>
void for_each_cell(const std::vector<int32_t>& bits, Visit visit) {
  uint64_t number = 0;
  const auto rule_at = methods_of(OCELLUS_METHOD_EVICT)->rule_at;
  for (int32_t e = -1; e < 0 || rule_at(e) != nullptr; ++e)
    for (const int32_t b : bits)
      for (int32_t s = 0; packing_scheme_at(s) != nullptr && (b < 16 || s == 0); ++s)
        for (const ReuseName& reuse : kReuses)
          for (const ocellus_compress_at when :
               {OCELLUS_COMPRESS_PROMPT_END, OCELLUS_COMPRESS_BEFORE_SUFFIX, OCELLUS_COMPRESS_IMAGE_END}) {
            if (test::is_slow_run() && number++ % 23 != 5) continue;
            const Cell cell{e < 0 ? nullptr : rule_at(e), b, packing_scheme_at(s), &reuse, when};
            CAPTURE(cell.name());
            visit(cell);
          }
}

/// Two layers, and heads of 32 values, which a GPU can pack.
const Model& tiny_model() {
  static const test::Pair pair(test::TextRecipe{.kv_heads = 2, .head_dim = 32}, test::VisionRecipe{.longest_edge = 96});
  return pair.model;
}

/// Text of an answer, without memory of its own.
struct Words {
  char text[512] = "";
  size_t length = 0;
  static int add(void* user, const char* text, int32_t bytes) {
    Words& words = *static_cast<Words*>(user);
    const auto count = std::min(static_cast<size_t>(bytes), sizeof words.text - 1 - words.length);
    std::memcpy(words.text + words.length, text, count);
    words.length += count;
    return 0;
  }
};

/// An engine, and a question about two pictures.
struct Talk {
  explicit Talk(const ocellus_limits& limits) : engine(test::make_engine(tiny_model(), limits)) {
    int32_t slot = 0;
    REQUIRE(engine->take_slot(&slot).ok());
    session.open(*engine, slot);
  }
  Status ask() {
    OCELLUS_TRY(session.begin_turn());
    OCELLUS_TRY(session.add_text("Compare ", false));
    OCELLUS_TRY(session.add_frame(wide.frame()));
    OCELLUS_TRY(session.add_text(" with ", false));
    OCELLUS_TRY(session.add_frame(tall.frame()));
    OCELLUS_TRY(session.add_text(": which is wider?", false));
    return session.end_turn();
  }
  Status answer(int32_t tokens) {
    ocellus_generate_params params;
    ocellus_generate_params_init(&params);
    params.max_tokens = tokens;
    params.ignore_end = 1;
    params.on_text = Words::add;
    params.user = &words;
    Session* const one = &session;
    return generate(&one, &params, &stats, 1);
  }
  const TestPicture wide{100, 41}, tall{41, 100};
  Session session;  // outlives its engine
  std::unique_ptr<Engine> engine;
  Words words;
  ocellus_generate_stats stats = {};
};

ocellus_plan plan_of(const ocellus_limits& limits) {
  ocellus_plan plan;
  REQUIRE_MESSAGE(plan_memory(tiny_model(), limits, &plan).ok(), last_failure().sentence);
  return plan;
}

/// The engine takes what was planned, and answers without taking more.
void check_run(const Cell& cell, const ocellus_plan& plan) {
  constexpr int32_t kTokens = 20;
  Talk talk(cell.limits(0.4f, 3));
  ocellus_engine_stats stats;
  talk.engine->describe(&stats);
  CHECK(stats.arena_bytes == plan.total_bytes);
  Status asked, answered, went_on;
  {
    const test::CallCounter counter;
    asked = talk.ask();
    if (asked.ok()) answered = talk.answer(kTokens);
    if (answered.ok()) went_on = talk.answer(4);
  }
  CHECK(test::report_calls() == 0);
  CHECK(test::driver_calls() <= test::kMaxDriverCalls);
  REQUIRE_MESSAGE((asked.ok() && answered.ok() && went_on.ok()), last_failure().sentence);
  CHECK(talk.stats.generated_tokens == 4);
  CHECK(talk.stats.image_count == 2);
  talk.engine->describe(&stats);
  CHECK(stats.session_high_water_bytes <= plan.session_bytes);
  CHECK(stats.scratch_high_water_bytes <= plan.scratch_bytes);
}

}  // namespace

TEST_CASE("every pair of methods runs as planned and allocates nothing, or is refused by a sentence that names one") {
  int32_t runs = 0, refusals = 0;
  for_each_cell({16, 4, 1}, [&](const Cell& cell) {
    ocellus_plan plan;
    const Status status = plan_memory(tiny_model(), cell.limits(0.4f, 3), &plan);
    const FeaturePair* const expected = refusal_of(cell);
    if (expected == nullptr) {
      REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
      check_run(cell, plan);
      ++runs;
      return;
    }
    REQUIRE_FALSE(status.ok());
    const std::string_view sentence = last_failure().sentence;
    CHECK_MESSAGE(sentence.find(expected->reason) != std::string_view::npos, sentence);
    CHECK_MESSAGE(names_method(cell, sentence), sentence);
    ++refusals;
  });
  MESSAGE(runs << " pairs run, " << refusals << " are refused");
}

TEST_CASE("rolling contexts run with every pair that evicts nothing during answers, and allocate nothing") {
  int32_t runs = 0;
  for_each_cell({16, 1}, [&](const Cell& cell) {
    if (refusal_of(cell) != nullptr) return;
    const bool answers = evicts_answers(cell);
    const bool is_prefix = cell.reuse->method == OCELLUS_REUSE_PREFIX;
    Talk talk(cell.limits(0.4f, 3));
    const Status rolling = set_rolling(talk.session, 2, 16);
    REQUIRE(rolling.ok() == !(answers || is_prefix));
    if (!rolling.ok()) {
      const std::string_view sentence = last_failure().sentence;
      CHECK(sentence.find(answers ? "tokens of later answers" : "prefix caching") != std::string_view::npos);
      return;
    }
    Status status;
    const ocellus_plan plan = plan_of(cell.limits(0.4f, 3));
    {
      const test::CallCounter counter;
      for (int32_t turn = 0; turn < 4 && status.ok(); ++turn) {
        status = talk.ask();
        if (status.ok()) status = talk.answer(5);
      }
    }
    CHECK(test::report_calls() == 0);
    REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
    CHECK(talk.stats.image_count == 2);
    ocellus_engine_stats stats;
    talk.engine->describe(&stats);
    CHECK(stats.arena_bytes == plan.total_bytes);
    CHECK(stats.session_high_water_bytes <= plan.session_bytes);
    CHECK(stats.scratch_high_water_bytes <= plan.scratch_bytes);
    ++runs;
  });
  MESSAGE(runs << " pairs run in rolling contexts");
}

TEST_CASE("methods that drop nothing, pack nothing and reuse nothing answer as if there were none") {
  Talk plain(Cell{.scheme = packing_scheme_at(0)}.limits(1, 0));
  REQUIRE_MESSAGE((plain.ask().ok() && plain.answer(12).ok()), last_failure().sentence);
  REQUIRE(plain.words.length > 0);
  for_each_cell({16}, [&](const Cell& cell) {
    if (cell.reuse->method == OCELLUS_REUSE_FULL) return;  // text does not read pictures in any setting
    Talk talk(cell.limits(1, cell.reuse->all_rows));
    REQUIRE_MESSAGE((talk.ask().ok() && talk.answer(12).ok()), last_failure().sentence);
    if (!cell.links() || !talk.engine->queue().on_cuda())  // where rows in place are rounded otherwise
      CHECK(std::string_view(talk.words.text) == plain.words.text);
  });
}

}  // namespace ocellus
