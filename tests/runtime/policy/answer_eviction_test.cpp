// Rules that go on while sessions answer: which slots are left, by the ledger, and that nothing depends on how answers
// are cut or who decodes beside whom.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <string_view>

#include "platform/device.h"
#include "runtime/branches/evict/slot_dropper.h"
#include "runtime/branches/measure/score.h"
#include "runtime/engine/memory_plan.h"
#include "runtime/policy/row_rule.h"
#include "tests/support/packed_sessions.h"

namespace ocellus {
namespace {

using test::answer_of;
using test::evicting_limits;

constexpr std::string_view kMethods[] = {"h2o",
                                         "streaming-llm",
                                         "sink-recent",
                                         "elastic",
                                         "elastic:discard=attention",
                                         "elastic:discard=oldest,merge=none",
                                         "elastic:place=4,ranking=head"};

ocellus_generate_params long_answer(int32_t tokens) {
  ocellus_generate_params params = test::default_params(tokens);
  params.ignore_end = 1;
  return params;
}

/// Positions of the live slots of one layer and head, kStays where they stay.
std::multiset<int32_t> live_positions(Session& session, int32_t layer, int32_t head) {
  const SessionCache& cache = session.cache();
  const SlotLedger& ledger = cache.ledger();
  const KvShape& shape = cache.shape();
  std::vector<KvRun> runs(1024);
  const int64_t count = cache.list_live(TileLimits::of(session.engine().shape().device), runs.data());
  const int64_t line = int64_t{layer} * shape.kv_heads + head;
  Queue& queue = session.engine().queue();
  const std::vector<int32_t> positions =
      test::download<int32_t>(ledger.positions.row(line), ledger.positions.cols, queue);
  std::multiset<int32_t> live;
  for (KvRun& run : std::span(runs).first(static_cast<size_t>(count))) {
    int32_t slots = run.slots;
    if (run.counts != nullptr)
      slots = std::clamp(test::download<int32_t>(run.counts + line, 1, queue)[0] - run.counted_before - run.first, 0,
                         run.slots);
    for (int32_t s = 0; s < slots; ++s) live.insert(positions[static_cast<size_t>(ledger.first_slot(run) + s)]);
  }
  return live;
}

template <class Check>
void for_each_matrix(const KvShape& shape, Check check) {
  for (int32_t layer = 0; layer < shape.layer_count; ++layer)
    for (int32_t head = 0; head < shape.kv_heads; ++head) check(layer, head);
}

/// Calls check(method, bits) for all methods, with f16 pages alone and with packed pictures.
template <class Check>
void for_each_method(Check check) {
  for (const std::string_view method : kMethods)
    for (const int32_t bits : {16, 2}) {
      CAPTURE(method);
      CAPTURE(bits);
      check(method, bits);
    }
}

struct Talk {
  explicit Talk(std::string_view method, float keep, int32_t sessions = 1, int32_t bits = 16) {
    ocellus_limits limits = evicting_limits(2, 400, method, keep, bits);
    limits.max_sessions = sessions;
    limits.batch_invariant = 1;
    engine = test::make_engine(limits);
  }
  Session& ask(int golden) {
    Session& session = test::open_session(*engine);
    test::add_question(session, test::golden(golden));
    return session;
  }
  std::unique_ptr<Engine> engine;
};

TEST_CASE("while a session answers, as many slots stay as its prompt left, or the share of all tokens that grows") {
  for_each_method([](std::string_view method, int32_t bits) {
    constexpr double kKeep = 0.25;
    Talk talk(method, static_cast<float>(kKeep), 1, bits);
    Session& session = talk.ask(0);
    const test::Answer answer = answer_of(session, long_answer(41));
    REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
    const int64_t prompt = answer.stats.prompt_tokens, seen = session.next_position();
    CHECK(seen == prompt + 40);  // the last token is not read yet
    const auto left = static_cast<int64_t>(std::floor(kKeep * static_cast<double>(prompt)));
    int64_t expected = left;
    for (int64_t n = prompt + 1; method.starts_with("elastic") && n <= seen; ++n)
      if (std::floor(static_cast<double>(expected + 1) - kKeep * static_cast<double>(n)) < 1) ++expected;
    const SessionCache& cache = session.cache();
    CHECK(cache.live_slots() == expected);
    CHECK(answer.stats.kv_bytes_full == seen * cache.shape().slot_bytes());
    // Packed slots gave way to f16 ones, in every head as many as it lost.
    const CacheBytes bytes = cache.bytes();
    const int64_t packed = bytes.block_elements * bits / 8;
    CHECK(bytes.payload == expected * cache.shape().slot_bytes() - bytes.block_elements * 2 + packed);
    CHECK(answer.stats.kv_bytes == bytes.payload + bytes.scales);
  });
}

TEST_CASE("rules by age keep what stays and the newest; H2O keeps the newest half and no token twice") {
  for_each_method([](std::string_view method, int32_t bits) {
    Talk talk(method, 0.3f, 1, bits);
    Session& session = talk.ask(0);
    constexpr int32_t kTokens = 60;
    const test::Answer answer = answer_of(session, long_answer(kTokens));
    REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
    const int64_t kept = session.engine().shape().policy.kept_rows(answer.stats.prompt_tokens);
    const CachePolicy& policy = session.engine().shape().policy;
    const AnswerRule rule = policy.facts.answers;
    const auto newest = static_cast<int32_t>(session.next_position() - 1);
    for_each_matrix(session.cache().shape(), [&](int32_t layer, int32_t head) {
      std::multiset<int32_t> live = live_positions(session, layer, head);
      REQUIRE(std::ssize(live) == session.cache().live_slots());
      if (rule.by_attention) {
        CHECK(std::set<int32_t>(live.begin(), live.end()).size() == live.size());
        for (int32_t back = 0; back < kept / 2; ++back) CHECK(live.contains(newest - back));
        return;
      }
      CHECK(std::ssize(live) - rule.stay(kept) > 0);
      CHECK(static_cast<int64_t>(live.count(kStays)) == rule.stay(kept));
      live.erase(kStays);
      // All answer tokens are newer than what the prompt left.
      const int64_t others = std::ssize(live);
      for (int64_t back = 0; back < std::min<int64_t>(others, kTokens - 1); ++back)
        CHECK(live.contains(newest - static_cast<int32_t>(back)));
    });
  });
}

TEST_CASE("rules by age keep the same tokens, whatever the bits of pictures, and given tokens are as probable") {
  const std::vector<TokenId> tokens = {297, 330, 438, 389, 20, 297, 330, 438, 389, 20, 297, 330, 438, 389, 20, 297};
  for (const std::string_view method : {"streaming-llm", "sink-recent", "elastic"}) {
    CAPTURE(method);
    const auto read = [&](int32_t bits, std::vector<std::multiset<int32_t>>* live) {
      Talk talk(method, 0.3f, 1, bits);
      Session& session = talk.ask(0);
      std::vector<float> values(tokens.size());
      ocellus_generate_stats stats;
      const Status status = score(session, {tokens.data(), static_cast<int32_t>(tokens.size()), values.data()}, &stats);
      REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
      for_each_matrix(session.cache().shape(),
                      [&](int32_t layer, int32_t head) { live->push_back(live_positions(session, layer, head)); });
      return values;
    };
    std::vector<std::multiset<int32_t>> plain_live, packed_live;
    const std::vector<float> plain = read(16, &plain_live), packed = read(8, &packed_live);
    CHECK(plain_live == packed_live);
    for (size_t i = 0; i < tokens.size(); ++i) CHECK(std::abs(plain[i] - packed[i]) < 0.3f);
  }
}

TEST_CASE("a token that a packed slot gives way to takes a planned text slot, and gives it back with the session") {
  Talk probe("h2o", 0.5f, 1, 1);
  const ocellus_generate_stats asked = answer_of(probe.ask(0), long_answer(1)).stats;
  const int32_t text_tokens = asked.prompt_tokens - asked.image_tokens + 6;
  const std::unique_ptr<Engine> engine = test::make_engine(evicting_limits(1, text_tokens, "h2o", 0.5f, 1));
  const test::FreeBlocks before(*engine);
  Session& session = test::open_session(*engine);
  test::add_question(session, test::golden(0));
  const test::Answer first = answer_of(session, long_answer(9));
  REQUIRE_MESSAGE(first.status.ok(), last_failure().sentence);
  CHECK(first.stats.stop == OCELLUS_STOP_MAX_TOKENS);
  CHECK(session.cache().text_rows() > asked.prompt_tokens - asked.image_tokens);
  const test::Answer rest = answer_of(session, long_answer(500));
  REQUIRE_MESSAGE(rest.status.ok(), last_failure().sentence);
  CHECK(rest.stats.stop == OCELLUS_STOP_FULL);
  CHECK(session.cache().text_rows() <= engine->shape().session.text_tokens);
  session.reset();
  CHECK(test::FreeBlocks(*engine) == before);
  test::add_question(session, test::golden(0));
  CHECK(answer_of(session, long_answer(9)).text == first.text);
}

/// The live slots of every layer and head, and the words, of answers to the questions of `ids`, asked together.
struct Ends {
  std::vector<std::string> texts;
  std::vector<std::vector<std::multiset<int32_t>>> slots;
};

constexpr int32_t kLengths[] = {10, 19, 28};

Ends answer_together(std::string_view method, std::span<const int> ids, std::span<const int32_t> lengths) {
  const auto count = static_cast<int32_t>(ids.size());
  Talk talk(method, 0.4f, count);
  std::vector<Session*> sessions;
  std::vector<ocellus_generate_params> params;
  std::vector<ocellus_generate_stats> stats(ids.size());
  std::vector<test::Answer> answers(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    sessions.push_back(&talk.ask(ids[i]));
    params.push_back(long_answer(lengths[i]));
    params[i].on_text = test::collect_piece;
    params[i].user = &answers[i];
  }
  REQUIRE(generate(sessions.data(), params.data(), stats.data(), count).ok());
  Ends ends;
  for (size_t i = 0; i < ids.size(); ++i) {
    ends.texts.push_back(answers[i].text);
    std::vector<std::multiset<int32_t>>& slots = ends.slots.emplace_back();
    for_each_matrix(sessions[i]->cache().shape(),
                    [&](int32_t layer, int32_t head) { slots.push_back(live_positions(*sessions[i], layer, head)); });
  }
  return ends;
}

TEST_CASE("an answer in a batch with evictions is the answer alone, whenever the others end" *
          doctest::test_suite("long")) {
  constexpr std::array kIds = {0, 1, 2};
  for (const std::string_view method : kMethods) {
    CAPTURE(method);
    const Ends together = answer_together(method, kIds, kLengths);
    for (size_t i = 0; i < kIds.size(); ++i) {
      const Ends alone = answer_together(method, {&kIds[i], 1}, {&kLengths[i], 1});
      CHECK(together.texts[i] == alone.texts[0]);
      CHECK(together.slots[i] == alone.slots[0]);
    }
  }
}

TEST_CASE("what StreamingLLM keeps of the beginning is read as if it stood right before the rest") {
  Talk talk("streaming-llm", 0.2f);
  Session& session = talk.ask(0);
  REQUIRE(answer_of(session, long_answer(24)).status.ok());
  test::add_question(session, test::golden(1));
  REQUIRE(answer_of(session, long_answer(5)).status.ok());
  std::vector<KvRun> runs(1024);
  int32_t first_page = 0;
  session.cache().move_sinks(session.next_position());
  session.cache().list_for_steps(TileLimits::of(talk.engine->shape().device), runs.data(), &first_page);
  CHECK(runs[0].slots == 4);
  CHECK(runs[0].position_shift == session.next_position() - session.cache().live_slots());
  CHECK(runs[1].first == 4);
  CHECK(runs[1].position_shift == 0);
}

TEST_CASE("a stopped answer leaves a cache that the next turn can use, whatever was under way") {
  for_each_method([](std::string_view method, int32_t bits) {
    Talk talk(method, 0.3f, 1, bits);
    Session& session = talk.ask(0);
    ocellus_generate_params params = long_answer(30);
    int32_t pieces = 0;
    params.user = &pieces;
    params.on_text = [](void* user, const char*, int32_t) { return ++*static_cast<int32_t*>(user) >= 7 ? 1 : 0; };
    ocellus_generate_stats stats;
    Session* const one = &session;
    REQUIRE(generate(&one, &params, &stats, 1).ok());
    CHECK(stats.stop == OCELLUS_STOP_CALLBACK);
    for_each_matrix(session.cache().shape(), [&](int32_t layer, int32_t head) {
      std::multiset<int32_t> live = live_positions(session, layer, head);
      CHECK(live.upper_bound(static_cast<int32_t>(session.next_position()) - 1) == live.lower_bound(kStays));
      CHECK((live.contains(static_cast<int32_t>(session.next_position()) - 1) || live.contains(kStays)));
    });
    test::add_question(session, test::golden(1));
    CHECK(answer_of(session, long_answer(8)).status.ok());
  });
}

TEST_CASE("a step evicts where a slot more would be more than the budget, and so the plan counts its room") {
  StepEviction fixed{.on = 1, .slots = 20, .budget = 20};
  CHECK(fixed.evicts(100));
  fixed.slots = 19;
  CHECK_FALSE(fixed.evicts(100));
  CHECK_FALSE(StepEviction().evicts(5));
  const StepEviction growing{.on = 1, .slots = 50, .growth = 0.5f};
  CHECK_FALSE(growing.evicts(100));  // 51 of 101 tokens
  CHECK(growing.evicts(99));         // 51 of 100
  const AnswerSteps steps = plan_steps(growing, 100, {.text = 1000, .positions = 1000}, 60);
  CHECK(steps.steps == 60);
  CHECK(steps.slots == 31);
  CHECK(plan_steps(growing, 100, {.text = 10, .positions = 1000}, 60).slots == 10);
  CHECK(plan_steps({}, 100, {.text = 10, .positions = 1000}, 60).steps == 10);
  CHECK(plan_steps({}, 100, {.text = 100, .positions = 7}, 60).steps == 7);
  CHECK(plan_steps({.on = 1, .slots = 20, .budget = 20}, 100, {.text = 1, .positions = 1000}, 60).steps == 60);
  CHECK(plan_steps({.on = 1, .slots = 20, .budget = 20}, 100, {.text = 0, .positions = 1000}, 60).steps == 0);
  // Tokens that packed slots give way to take text slots, while there are packed slots.
  const StepEviction full{.on = 1, .slots = 20, .budget = 20};
  const AnswerSteps cut = plan_steps(full, 100, {.text = 10, .positions = 1000, .packed = 12}, 60);
  CHECK(cut.steps == 9);  // one slot holds the newest token
  CHECK(cut.slots == 1);
  CHECK(cut.spare == 9);
  CHECK(plan_steps(full, 100, {.text = 13, .positions = 1000, .packed = 12}, 60).steps == 60);
}

TEST_CASE("rules that go on while sessions answer refuse pictures that are cut down one by one") {
  for (const std::string_view method : {"h2o", "streaming-llm", "elastic"}) {
    CachePolicy policy;
    CHECK(resolve_cache_policy(evicting_limits(1, 64, method, 0.5f, 2).cache, &policy).ok());
    CHECK(policy.facts.answers.drops_slots);
    ocellus_plan plan;
    const ocellus_limits one_by_one = evicting_limits(1, 64, method, 0.5f, 16, OCELLUS_COMPRESS_IMAGE_END);
    CHECK(plan_memory(test::bundled_model(), one_by_one, &plan).code() == Code::kBadArgument);
  }
}

}  // namespace
}  // namespace ocellus
