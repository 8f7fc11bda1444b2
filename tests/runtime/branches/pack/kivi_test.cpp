// KIVI: all but the end of a prompt is packed, in groups of 32.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/engine/memory_plan.h"
#include "tests/support/cache_texts.h"
#include "tests/support/packed_sessions.h"
#include "tests/support/text_sessions.h"

namespace ocellus {
namespace {

using test::Answer;
using test::answer_golden;
using test::board_limits;
using test::check_equal;
using test::default_params;
using test::FreeBlocks;
using test::make_engine;
using test::open_session;
using test::score_of;
using test::words;

constexpr int64_t kLayers = 8, kHeads = 4, kDim = 64;  // the bundled model's
constexpr int64_t kSlotBytes = 4 * kLayers * kHeads * kDim;

ocellus_limits kivi_limits(int32_t images, int32_t text_tokens, int32_t bits, int32_t window) {
  ocellus_limits limits = test::packed_limits(images, text_tokens, bits);
  test::set_text(limits.cache.kv_scheme, window == 0 ? "kivi" : "kivi:residual=" + std::to_string(window));
  return limits;
}

int64_t packed_of(int64_t rows, int64_t window) { return rows > window ? (rows - window) / 32 * 32 : 0; }
/// 2 L H E n b / 8 codes; an offset and a step of two bytes each for 32 elements.
int64_t scale_bytes(int64_t packed) { return 2 * kLayers * kHeads * kDim * packed * 4 / 32; }
int64_t code_bytes(int64_t packed, int32_t bits) { return 2 * kLayers * kHeads * kDim * packed * bits / 8; }

/// Log-probabilities of an answer to a prompt where nothing is packed.
std::vector<float> plain_scores(const std::vector<TokenId>& prompt, const std::vector<TokenId>& answer) {
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(board_limits(0, 400));
  Session& session = open_session(*engine);
  test::add(session, prompt);
  ocellus_generate_stats stats;
  return score_of(session, answer, &stats);
}

double mean_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
  return sum / static_cast<double>(a.size());
}

/// They differ more than those before did; the next must differ more than these.
void check_farther(const std::vector<float>& values, const std::vector<float>& expected, double* before) {
  const double difference = mean_difference(values, expected);
  MESSAGE("mean difference of a log-probability: " << difference);
  CHECK(difference > *before);
  *before = difference;
}

}  // namespace

TEST_CASE("KIVI's cache takes the bytes of its formula, to the byte" * doctest::test_suite("long")) {
  for (const auto& [bits, window] : {std::pair{8, 1}, {4, 32}, {2, 0}, {2, 100}, {1, 32}}) {
    CAPTURE(bits);
    CAPTURE(window);
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(kivi_limits(4, 200, bits, window));
    Session& session = open_session(*engine);
    for (const int id : {1, 12, 13}) {
      session.reset();
      const ocellus_generate_stats stats = answer_golden(session, id).stats;
      const int64_t rows = session.cache().kept().rows(0).rows, answer = session.cache().rows() - rows;
      const int64_t stays = window == 0 ? 128 : window, of_answer = packed_of(answer, stays);
      const int64_t packed = packed_of(rows, stays) + of_answer;
      CAPTURE(rows);
      CHECK(session.cache().text_slots() == answer - of_answer);
      CHECK(stats.kv_scale_bytes == scale_bytes(packed));
      CHECK(stats.kv_bytes == code_bytes(packed, bits) + scale_bytes(packed) + (rows + answer - packed) * kSlotBytes);
      CHECK(stats.kv_bytes + stats.kv_waste_bytes == engine->memory().pools.used_bytes());
      CHECK(stats.kv_bytes_full == session.cache().rows() * kSlotBytes);
    }
  }
}

TEST_CASE("KIVI leaves a prompt that is no longer than its window as it is" * doctest::test_suite("long")) {
  const std::unique_ptr<Engine> plain_engine = make_engine(board_limits(4, 200));
  const std::unique_ptr<Engine> engine = make_engine(kivi_limits(4, 200, 2, 1000));
  Session &plain = open_session(*plain_engine), &session = open_session(*engine);
  for (const int id : {1, 13}) {
    plain.reset();
    session.reset();
    const Answer expected = answer_golden(plain, id), answer = answer_golden(session, id);
    CHECK(answer.text == expected.text);  // the order in which slots are read is another, and so are last bits
    CHECK(answer.stats.kv_bytes == expected.stats.kv_bytes);
  }
}

TEST_CASE("KIVI with eight bits answers as f16 does" * doctest::test_suite("long")) {
  const std::unique_ptr<Engine> plain_engine = test::make_bundled_engine(board_limits(8, 300));
  Session& plain = open_session(*plain_engine);
  for (const ocellus_compress_at at : {OCELLUS_COMPRESS_PROMPT_END, OCELLUS_COMPRESS_BEFORE_SUFFIX}) {
    ocellus_limits limits = kivi_limits(8, 300, 8, 8);
    limits.cache.compress_at = at;
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
    Session& session = open_session(*engine);
    for (const int id : {0, 1, 3, 12}) {
      CAPTURE(id);
      plain.reset();
      session.reset();
      CHECK(answer_golden(session, id).text == answer_golden(plain, id).text);
    }
  }
}

TEST_CASE("KIVI with eight bits answers over what an eviction method leaves as f16 does" *
          doctest::test_suite("long")) {
  for (const char* const method : {"snapkv", "value-window", "vl-cache", "look-m-all-text"}) {
    CAPTURE(method);
    ocellus_limits limits = board_limits(8, 300);
    test::set_text(limits.cache.evict, method);
    limits.cache.keep = 0.6f;
    const std::unique_ptr<Engine> plain_engine = test::make_bundled_engine(limits);
    limits.cache.kv_bits = 8;
    test::set_text(limits.cache.kv_scheme, "kivi:residual=8");
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
    Session &plain = open_session(*plain_engine), &session = open_session(*engine);
    for (const int id : {0, 12}) {
      CAPTURE(id);
      plain.reset();
      session.reset();
      const Answer expected = answer_golden(plain, id), answer = answer_golden(session, id);
      CHECK(answer.text == expected.text);
      CHECK(answer.stats.kv_bytes < 0.8 * static_cast<double>(expected.stats.kv_bytes));
    }
  }
}

TEST_CASE("KIVI takes the bits that each layer is given" * doctest::test_suite("long")) {
  int64_t bytes[2] = {};
  for (const bool by_layer : {false, true}) {
    ocellus_limits limits = kivi_limits(8, 300, 8, 8);
    limits.cache.layer_bits_count = by_layer ? kLayers : 0;
    std::fill_n(limits.cache.layer_bits, kLayers, 8);
    limits.cache.layer_bits[2] = 1;
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
    Session& session = open_session(*engine);
    const Answer answer = answer_golden(session, 12);
    CHECK(answer.status.ok());
    bytes[by_layer] = answer.stats.kv_bytes;
    if (!by_layer) continue;
    const int64_t rows = session.cache().kept().rows(0).rows, packed = packed_of(rows, 8);
    CHECK(bytes[0] - bytes[1] == code_bytes(packed, 7) / kLayers);
  }
}

TEST_CASE("KIVI finds room for the planned images in whatever prompts they come" * doctest::test_suite("long")) {
  for (const auto& [window, keep] : {std::pair{1, 1.0f}, {40, 1.0f}, {128, 1.0f}, {1, 0.05f}, {40, 0.3f}}) {
    for (const int32_t chunk_rows : {0, 1}) {
      CAPTURE(window);
      CAPTURE(keep);
      CAPTURE(chunk_rows);
      ocellus_limits limits = kivi_limits(4, 200, 2, window);
      if (keep < 1) test::set_text(limits.cache.evict, "snapkv");
      limits.cache.keep = keep;
      limits.max_prompt_rows = chunk_rows;
      const std::unique_ptr<Engine> engine = make_engine(limits);
      const FreeBlocks all(*engine);
      Session& session = open_session(*engine);
      answer_golden(session, 13, 4);
      CHECK(session.cache().image_count() == 4);
      session.reset();
      CHECK(FreeBlocks(*engine) == all);
      for (int i = 0; i < 4; ++i) answer_golden(session, i == 3 ? 3 : 1, 4);
      CHECK(session.cache().image_count() == 4);
      ocellus_generate_params params = default_params(1 << 20);
      params.ignore_end = 1;
      REQUIRE(session.begin_turn().ok());
      const Answer answer = test::answer_of(session, params);
      CHECK_MESSAGE(answer.status.ok(), last_failure().sentence);
      CHECK(answer.stats.stop == OCELLUS_STOP_FULL);
      CHECK(session.cache().text_rows() == engine->shape().session.text_tokens);
      session.close();
      CHECK(FreeBlocks(*engine) == all);
    }
  }
}

TEST_CASE("KIVI packs long text where no images are planned, the better the more bits it has") {
  const std::vector<TokenId> prompt = words(300, 1), answer = words(40, 2);
  const std::vector<float> expected = plain_scores(prompt, answer);
  ocellus_generate_stats stats;
  double before = 0;
  for (const int32_t bits : {8, 4, 2, 1}) {
    CAPTURE(bits);
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(kivi_limits(0, 400, bits, 32));
    Session& session = open_session(*engine);
    test::add(session, prompt);
    const std::vector<float> values = score_of(session, answer, &stats);
    const int64_t packed = packed_of(300, 32);
    CHECK(packed == 256);
    CHECK(stats.kv_bytes == code_bytes(packed, bits) + scale_bytes(packed) + (300 - packed + 39) * kSlotBytes);
    CHECK(values[0] == expected[0]);  // the prompt was read with nothing packed
    check_farther(values, expected, &before);
    CHECK(before < (bits == 1 ? 5.0 : 3.0));  // random words
  }
}

TEST_CASE("KIVI packs an answer, 32 tokens at a time, as they leave the window" * doctest::test_suite("long")) {
  const std::vector<TokenId> prompt = words(20, 1), answer = words(300, 2);
  const std::vector<float> expected = plain_scores(prompt, answer);
  ocellus_generate_stats stats;
  double before = 0;
  for (const int32_t bits : {8, 4, 2, 1}) {
    CAPTURE(bits);
    constexpr int64_t kWindow = 40;
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(kivi_limits(0, 400, bits, kWindow));
    const FreeBlocks all(*engine);
    Session& session = open_session(*engine);
    test::add(session, prompt);
    const std::vector<float> values = score_of(session, answer, &stats);
    const int64_t rows = 20 + 299, packed = packed_of(rows, kWindow);
    CHECK(packed == 256);
    CHECK(session.cache().rows() == rows);
    CHECK(session.cache().text_rows() == rows);
    CHECK(session.cache().text_slots() == rows - packed);
    CHECK(stats.kv_bytes == code_bytes(packed, bits) + scale_bytes(packed) + (rows - packed) * kSlotBytes);
    CHECK(stats.kv_bytes_full == rows * kSlotBytes);
    // Until 20 + n tokens have filled the window and a block, nothing was packed.
    for (size_t i = 0; i < static_cast<size_t>(kWindow + 32 - 20); ++i) CHECK(values[i] == expected[i]);
    check_farther(values, expected, &before);
    CHECK(before < (bits == 1 ? 5.0 : 3.0));  // random words
    // Later text sees it, and it is released with the session.
    test::add(session, prompt);
    CHECK(std::isfinite(score_of(session, words(30, 3), &stats).back()));
    session.reset();
    CHECK(FreeBlocks(*engine) == all);
  }
}

/// Each session forgets what it had, and is asked the question of its place.
void ask_all(const std::vector<Session*>& sessions, const std::vector<int>& ids) {
  for (size_t i = 0; i < sessions.size(); ++i) {
    sessions[i]->reset();
    test::add_question(*sessions[i], test::golden(ids[i]));
  }
}

TEST_CASE("KIVI's long answers in a batch are those alone" * doctest::test_suite("long")) {
  ocellus_limits limits = kivi_limits(1, 300, 4, 16);
  limits.max_sessions = 3;
  limits.batch_invariant = 1;
  const std::unique_ptr<Engine> engine = make_engine(limits);
  const std::vector<Session*> sessions = {&open_session(*engine), &open_session(*engine), &open_session(*engine)};
  ocellus_generate_params params = default_params(120);
  params.ignore_end = 1;
  constexpr std::array kIds = {0, 1, 5};
  std::vector<Answer> alone;
  for (size_t i = 0; i < kIds.size(); ++i) {
    ask_all({sessions[i]}, {kIds[i]});
    alone.push_back(test::answer_of(*sessions[i], params));
    CHECK(sessions[i]->cache().text_slots() < 16 + 32);
  }
  ask_all(sessions, {kIds.begin(), kIds.end()});
  const std::vector<Answer> together = test::batch_answers(sessions, params);
  for (size_t i = 0; i < 3; ++i) CHECK(together[i].text == alone[i].text);
}

TEST_CASE("KIVI always finds pages and blocks for planned text, in whatever pieces it comes" *
          doctest::test_suite("long")) {
  constexpr int32_t kTokens = 1500;
  test::Random random(6);
  for (const int32_t window : {1, 100}) {
    ocellus_limits limits = kivi_limits(0, kTokens, 4, window);
    limits.max_prompt_rows = 200;
    const std::unique_ptr<Engine> engine = make_engine(limits);
    Session& session = open_session(*engine);
    for (int round = 0; round < 2; ++round) {
      session.reset();
      test::fill_with_pieces(session, kTokens, random);
    }
  }
}

TEST_CASE("KIVI's answers in a batch and on any number of threads are those alone" * doctest::test_suite("long")) {
  std::vector<Answer> by_threads;
  for (const int32_t threads : {1, 3}) {
    ocellus_limits limits = kivi_limits(4, 200, 2, 20);
    limits.thread_count = threads;
    const std::unique_ptr<Engine> engine = make_engine(limits);
    by_threads.push_back(answer_golden(open_session(*engine), 13));
  }
  check_equal(by_threads[0], by_threads[1]);
  ocellus_limits limits = kivi_limits(1, 150, 4, 20);
  limits.max_sessions = 3;
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
  const std::vector<Session*> sessions = {&open_session(*engine), &open_session(*engine), &open_session(*engine)};
  std::vector<Answer> alone;
  for (const int id : {0, 1, 5}) {
    sessions[0]->reset();
    alone.push_back(answer_golden(*sessions[0], id, 24));
  }
  sessions[0]->reset();
  for (size_t i = 0; i < 3; ++i) test::add_question(*sessions[i], test::golden(std::array{0, 1, 5}[i]));
  const std::vector<Answer> together = test::batch_answers(sessions, default_params(24));
  for (size_t i = 0; i < 3; ++i) CHECK(together[i].text == alone[i].text);
}

}  // namespace ocellus
