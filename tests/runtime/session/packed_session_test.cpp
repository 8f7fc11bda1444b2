// Sessions whose images are packed, and whose prompts keep only some of their slots.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "runtime/engine/memory_plan.h"
#include "tests/support/cache_texts.h"
#include "tests/support/packed_sessions.h"

namespace ocellus {
namespace {

using test::Answer;
using test::answer_golden;
using test::answer_of;
using test::check_equal;
using test::default_params;
using test::evicting_limits;
using test::FreeBlocks;
using test::golden;
using test::make_engine;
using test::open_session;
using test::packed_limits;

constexpr int64_t kLayers = 8, kHeads = 4, kDim = 64, kImageSlots = 64;  // the bundled model's
constexpr int64_t kSlotBytes = 4 * kLayers * kHeads * kDim;
constexpr int64_t kScaleBytes = 8 * kLayers * kHeads * kDim;  // per block

/// Checks the engine's pools against the session's statistics.
void check_resident(Session& session, const ocellus_generate_stats& stats) {
  CHECK(stats.kv_bytes + stats.kv_waste_bytes == session.engine().memory().pools.used_bytes());
  CHECK(stats.kv_waste_bytes >= 0);
  CHECK(stats.kv_bytes_full == session.cache().rows() * kSlotBytes);
}

struct Eviction {
  std::string_view method;
  float keep;
  int32_t bits;
};
/// Methods and shares, each with one of the formats.
std::vector<Eviction> many_evictions() {
  std::vector<Eviction> all;
  for (const std::string_view method : {"snapkv", "david"})
    for (const float keep : {0.5f, 0.2f, 0.1f, 0.05f})
      all.push_back({method, keep, std::array{16, 8, 2, 16, 4}[all.size() % 5]});
  return all;
}

}  // namespace

TEST_CASE("to keep everything gives the plain engine's answers, bit for bit" * doctest::test_suite("long")) {
  const std::unique_ptr<Engine> plain_engine = make_engine(test::board_limits(4, 200));
  Session& plain = open_session(*plain_engine);
  const auto ask = [](Session& session, size_t question) {
    session.reset();
    if (question == 0) return answer_golden(session, 1);
    const std::vector<std::string>& images = golden(13).images;
    REQUIRE(test::add_turn(session, "<image>Before.<image>What is on the left?", {images[0], images[1]}).ok());
    return answer_of(session);
  };
  const std::vector<Answer> expected = {ask(plain, 0), ask(plain, 1)};
  for (int32_t number = -1; number < 0 || ocellus_method_get(OCELLUS_METHOD_EVICT, number) != nullptr; ++number) {
    const std::string method = number < 0 ? "none" : ocellus_method_get(OCELLUS_METHOD_EVICT, number)->name;
    CAPTURE(method);
    for (const ocellus_compress_at at :
         {OCELLUS_COMPRESS_PROMPT_END, OCELLUS_COMPRESS_BEFORE_SUFFIX, OCELLUS_COMPRESS_IMAGE_END}) {
      ocellus_limits limits = evicting_limits(4, 200, method, 1, 16, at);
      test::set_text(limits.cache.kv_scheme, "per-image:tau-high=3,block=10");
      if (number >= 0 && method != "infinipot-v") test::add_option(limits.cache.evict, "window=5");
      const std::unique_ptr<Engine> engine = make_engine(limits);
      Session& session = open_session(*engine);
      for (size_t i = 0; i < 2; ++i) {
        const Answer answer = ask(session, i);
        check_equal(answer, expected[i]);
        CHECK(answer.stats.kv_bytes == expected[i].stats.kv_bytes);
      }
    }
  }
}

TEST_CASE("eight bits answer as f16 does" * doctest::test_suite("long")) {
  const std::unique_ptr<Engine> plain_engine = make_engine(test::board_limits(8, 300));
  Session& plain = open_session(*plain_engine);
  std::map<int, std::string> expected;
  for (const ocellus_compress_at at : {OCELLUS_COMPRESS_BEFORE_SUFFIX, OCELLUS_COMPRESS_IMAGE_END}) {
    ocellus_limits limits = packed_limits(8, 300, 8);
    limits.cache.compress_at = at;
    const std::unique_ptr<Engine> engine = make_engine(limits);
    Session& session = open_session(*engine);
    for (const int id : {0, 1, 3, 6, 12, 18}) {
      CAPTURE(id);
      plain.reset();
      session.reset();
      if (expected.count(id) == 0) expected[id] = answer_golden(plain, id).text;
      CHECK(answer_golden(session, id).text == expected[id]);
    }
  }
}

TEST_CASE("packed images take the bytes of the formulas, to the byte" * doctest::test_suite("long")) {
  for (const int32_t bits : {8, 4, 2, 1}) {
    for (const int32_t block_slots : {0, 20}) {
      const bool calibrate = (bits == 1 || bits == 8) == (block_slots == 0);
      CAPTURE(bits);
      CAPTURE(block_slots);
      ocellus_limits limits = packed_limits(4, 200, bits);
      if (calibrate) test::add_option(limits.cache.kv_scheme, "tau-high=3");
      if (block_slots > 0) test::add_option(limits.cache.kv_scheme, "block=" + std::to_string(block_slots));
      const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
      Session& session = open_session(*engine);
      const int64_t blocks = block_slots == 0 ? 1 : 4;
      for (const int id : {1, 12}) {
        session.reset();
        const ocellus_generate_stats stats = answer_golden(session, id).stats;
        const int64_t images = std::ssize(golden(id).images);
        const int64_t text = session.cache().text_slots();
        CHECK(text == session.next_position() - images * kImageSlots);
        CHECK(stats.kv_scale_bytes == images * blocks * kScaleBytes);
        CHECK(stats.kv_bytes ==
              images * kImageSlots * 2 * kLayers * kHeads * kDim * bits / 8 + stats.kv_scale_bytes + text * kSlotBytes);
        check_resident(session, stats);
      }
      ocellus_plan plan;
      REQUIRE(plan_memory(test::bundled_model(), limits, &plan).ok());
      CHECK(plan.kv_bytes_per_image == engine->shape().kv.image_bytes());
    }
  }
}

TEST_CASE("at the prompt's end the first token comes from exact attention, before the suffix it does not") {
  const std::unique_ptr<Engine> plain = make_engine(test::board_limits(1, 120));
  const auto logits_of = [&](Engine& engine, bool text_only) {
    Session& session = open_session(engine);
    if (text_only) {
      REQUIRE(test::add_turn(session, "What color is the background?", {}).ok());
    } else {
      test::add_question(session, golden(1));
    }
    std::vector<float> logits = test::first_logits(session);
    session.close();
    return logits;
  };
  const std::vector<float> exact = logits_of(*plain, false), text = logits_of(*plain, true);
  for (const ocellus_compress_at at :
       {OCELLUS_COMPRESS_PROMPT_END, OCELLUS_COMPRESS_BEFORE_SUFFIX, OCELLUS_COMPRESS_IMAGE_END}) {
    for (const std::string_view method : {"none", "snapkv"}) {
      CAPTURE(at);
      CAPTURE(method);
      const float keep = method == "none" ? 1.0f : 0.3f;
      const std::unique_ptr<Engine> engine = make_engine(evicting_limits(1, 120, method, keep, 2, at));
      const bool same = logits_of(*engine, false) == exact;
      CHECK(same == (at == OCELLUS_COMPRESS_PROMPT_END));
      // Prompts without images are unchanged, except that a suffix is read on its own.
      const std::vector<float> without = logits_of(*engine, true);
      if (at != OCELLUS_COMPRESS_BEFORE_SUFFIX) CHECK(without == text);
      CHECK(test::relative_error(without.data(), text) < 2e-2);
    }
  }
}

TEST_CASE("every head keeps floor(keep n) slots of a prompt, whichever they are" * doctest::test_suite("long")) {
  for (const Eviction& e : many_evictions()) {
    for (const ocellus_compress_at at : {OCELLUS_COMPRESS_PROMPT_END, OCELLUS_COMPRESS_BEFORE_SUFFIX}) {
      CAPTURE(e.method);
      CAPTURE(e.keep);
      CAPTURE(e.bits);
      const std::unique_ptr<Engine> engine =
          test::make_bundled_engine(evicting_limits(4, 200, e.method, e.keep, e.bits, at));
      Session& session = open_session(*engine);
      for (const int id : {1, 12}) {
        session.reset();
        const ocellus_generate_stats stats = answer_golden(session, id).stats;
        REQUIRE(session.cache().kept().count() == 1);
        const int64_t rows = session.cache().kept().rows(0).rows;
        CHECK(session.cache().rows() == session.next_position());
        CHECK(rows <= stats.prompt_tokens);
        CHECK((rows == stats.prompt_tokens) == (at == OCELLUS_COMPRESS_PROMPT_END));
        const auto kept = static_cast<int64_t>(std::floor(static_cast<double>(e.keep) * static_cast<double>(rows)));
        const test::KeptCounts counts = test::kept_counts(session, 0);
        int64_t visual = 0;
        for (size_t i = 0; i < counts.text.size(); ++i) {
          CHECK(counts.text[i] + counts.visual[i] == kept);
          visual += counts.visual[i];
        }
        const int64_t matrices = kLayers * kHeads;
        const int64_t scales = e.bits == 16 ? 0 : session.cache().kept().blocks(0) * kScaleBytes;
        CHECK(stats.kv_scale_bytes == scales);
        CHECK(stats.kv_bytes == scales + visual * 2 * kDim * e.bits / 8 + (matrices * kept - visual) * 4 * kDim +
                                    session.cache().text_slots() * kSlotBytes);
        check_resident(session, stats);
        if (e.bits != 16 && e.keep >= 0.5f) CHECK(visual > 0);
      }
    }
  }
}

TEST_CASE("every head keeps floor(keep n) slots of an image that is compressed on its own, and all text" *
          doctest::test_suite("long")) {
  for (const Eviction& e : many_evictions()) {
    CAPTURE(e.keep);
    CAPTURE(e.bits);
    const std::unique_ptr<Engine> engine =
        test::make_bundled_engine(evicting_limits(4, 200, e.method, e.keep, e.bits, OCELLUS_COMPRESS_IMAGE_END));
    Session& session = open_session(*engine);
    const ocellus_generate_stats stats = answer_golden(session, 12).stats;
    const auto kept = static_cast<int64_t>(std::floor(static_cast<double>(e.keep) * kImageSlots));
    const int64_t scales = e.bits == 16 ? 0 : 4 * kScaleBytes;
    CHECK(session.cache().kept().count() == 0);
    for (int32_t i = 0; i < 4; ++i) CHECK(session.cache().image_block(i, 0).slots == kept);
    CHECK(session.cache().text_slots() == session.next_position() - 4 * kImageSlots);
    CHECK(stats.kv_scale_bytes == scales);
    CHECK(stats.kv_bytes == scales + 4 * kept * kSlotBytes * e.bits / 16 + session.cache().text_slots() * kSlotBytes);
    check_resident(session, stats);
  }
}

TEST_CASE("an image that stands alone, and a window larger than what is kept") {
  for (const int32_t bits : {16, 4}) {
    for (const int32_t window : {0, 1, 1000}) {
      ocellus_limits limits = evicting_limits(1, 64, "david", 0.1f, bits);
      if (window > 0) test::add_option(limits.cache.evict, "window=" + std::to_string(window));
      for (const int32_t pack_window : {0, 1}) {
        test::set_text(limits.cache.kv_scheme, pack_window == 1 ? "per-image" : "per-image:window=f16");
        const std::unique_ptr<Engine> engine = make_engine(limits);
        Session& session = open_session(*engine);
        REQUIRE(test::add_board(session, "images/115.png").ok());
        REQUIRE(answer_of(session, default_params(0)).status.ok());
        const int64_t rows = session.next_position();
        const test::KeptCounts counts = test::kept_counts(session, 0);
        for (size_t i = 0; i < counts.text.size(); ++i) {
          CHECK(counts.text[i] + counts.visual[i] == rows / 10);
          // The last row is text; with this window nothing else is chosen but visual rows before it.
          if (bits == 4 && window == 1000 && pack_window == 0) CHECK(counts.visual[i] == 0);
        }
        REQUIRE(session.add_text("Answer:", false).ok());
        CHECK(answer_of(session, default_params(4)).status.ok());
      }
    }
  }
}

TEST_CASE("planned images fit in whatever prompts and parts of prompts they come" * doctest::test_suite("long")) {
  int number = 0;
  for (const Eviction& e : many_evictions()) {
    const int32_t chunk_rows = number % 2, pack_window = number / 2 % 2;
    ++number;
    CAPTURE(e.keep);
    CAPTURE(e.bits);
    CAPTURE(chunk_rows);
    ocellus_limits limits = evicting_limits(4, 200, e.method, e.keep, e.bits);
    limits.max_prompt_rows = chunk_rows;
    if (pack_window == 0) test::add_option(limits.cache.kv_scheme, "window=f16");
    if (pack_window == 0) test::add_option(limits.cache.evict, "window=40");
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
    const FreeBlocks all(*engine);
    Session& session = open_session(*engine);
    // All in one turn.
    Answer answer = answer_golden(session, 13, 4);
    CHECK(session.cache().image_count() == 4);
    CHECK(session.cache().kept().count() == 1);
    int64_t rows = 0;
    for (int32_t i = 0; i < session.cache().kept().count(); ++i) {
      const test::KeptCounts counts = test::kept_counts(session, i);
      const int64_t of = session.cache().kept().rows(i).rows;
      rows += of;
      for (size_t k = 0; k < counts.text.size(); ++k)
        CHECK(counts.text[k] + counts.visual[k] ==
              static_cast<int64_t>(std::floor(static_cast<double>(e.keep) * static_cast<double>(of))));
    }
    CHECK(rows + session.cache().text_slots() == session.cache().rows());
    check_resident(session, answer.stats);
    session.reset();
    CHECK(FreeBlocks(*engine) == all);
    // One in each of four turns.
    for (int i = 0; i < 4; ++i) {
      answer = answer_golden(session, i == 3 ? 3 : 1, 4);
      check_resident(session, answer.stats);
    }
    CHECK(session.cache().image_count() == 4);
    CHECK(session.cache().kept().count() == 4);
    CHECK(session.begin_turn().ok());
    CHECK(test::add_board(session, "images/115.png").code() == Code::kFull);
    // Text until nothing fits: the answer ends there, it does not fail.
    ocellus_generate_params params = default_params(1 << 20);
    params.ignore_end = 1;
    answer = answer_of(session, params);
    CHECK_MESSAGE(answer.status.ok(), last_failure().sentence);
    CHECK(answer.stats.stop == OCELLUS_STOP_FULL);
    CHECK(session.cache().text_rows() == engine->shape().session.text_tokens);
    session.close();
    CHECK(FreeBlocks(*engine) == all);
  }
}

TEST_CASE("a prompt that is cancelled gives pages and blocks back, whatever was compressed already" *
          doctest::test_suite("long")) {
  for (const Eviction& e : {Eviction{"none", 1, 2}, Eviction{"snapkv", 0.2f, 16}, Eviction{"david", 0.2f, 4}}) {
    for (const ocellus_compress_at at :
         {OCELLUS_COMPRESS_PROMPT_END, OCELLUS_COMPRESS_BEFORE_SUFFIX, OCELLUS_COMPRESS_IMAGE_END}) {
      CAPTURE(e.bits);
      CAPTURE(at);
      ocellus_limits limits = evicting_limits(5, 300, e.method, e.keep, e.bits, at);
      limits.max_prompt_rows = 150;
      const std::unique_ptr<Engine> engine = make_engine(limits);
      const FreeBlocks all(*engine);
      Session& session = open_session(*engine);
      answer_golden(session, 1);
      session.reset();
      CHECK(FreeBlocks(*engine) == all);
      const Answer first = answer_golden(session, 1);
      const FreeBlocks after_first(*engine);
      const CacheBytes bytes = session.cache().bytes();
      const int64_t position = session.next_position();
      for (int round = 0; round < 2; ++round) {
        test::add_question(session, golden(12));
        // Rows that compete wait until the prompt is complete.
        CHECK((session.next_position() == position) == (e.keep < 1 && at == OCELLUS_COMPRESS_PROMPT_END));
        session.stop_signal().cancel();
        CHECK(answer_of(session).status.code() == Code::kCancelled);
        CHECK(FreeBlocks(*engine) == after_first);
        CHECK(session.next_position() == position);
        CHECK(session.cache().bytes().payload == bytes.payload);
        CHECK(session.ncar() == nullptr);
      }
      std::vector<uint8_t> damaged = test::board_bytes("images/115.png");
      damaged.resize(damaged.size() / 2);
      CHECK(session.add_encoded_image(damaged.data(), static_cast<int64_t>(damaged.size())).code() == Code::kBadImage);
      answer_golden(session, 12);
      session.reset();
      CHECK(FreeBlocks(*engine) == all);
      check_equal(answer_golden(session, 1), first);
    }
  }
}

TEST_CASE("sessions with compressed caches are decoded together as they are alone") {
  for (const Eviction& e : {Eviction{"none", 1, 1}, Eviction{"snapkv", 0.3f, 16}, Eviction{"david", 0.3f, 4}}) {
    ocellus_limits limits = evicting_limits(1, 150, e.method, e.keep, e.bits);
    limits.max_sessions = 3;
    test::add_option(limits.cache.kv_scheme, "tau-low=0");
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
    const std::vector<Session*> sessions = {&open_session(*engine), &open_session(*engine), &open_session(*engine)};
    const std::vector<int> ids = {0, 1, 5};
    std::vector<Answer> alone;
    for (const int id : ids) {
      sessions[0]->reset();
      alone.push_back(answer_golden(*sessions[0], id, 24));
    }
    sessions[0]->reset();
    for (size_t i = 0; i < 3; ++i) test::add_question(*sessions[i], golden(ids[i]));
    const std::vector<Answer> together = test::batch_answers(sessions, default_params(24));
    for (size_t i = 0; i < 3; ++i) {
      CHECK(together[i].text == alone[i].text);
      CHECK(together[i].stats.kv_bytes == alone[i].stats.kv_bytes);
    }
  }
}

TEST_CASE("the number of threads changes no bit of a compressed cache" * doctest::test_suite("long")) {
  for (const Eviction& e : {Eviction{"none", 1, 1}, Eviction{"david", 0.3f, 2}}) {
    std::vector<Answer> answers;
    for (const int32_t threads : {1, 2, 3}) {
      ocellus_limits limits = evicting_limits(4, 200, e.method, e.keep, e.bits);
      limits.thread_count = threads;
      limits.max_prompt_rows = 150;
      test::add_option(limits.cache.kv_scheme, "tau-high=2");
      const std::unique_ptr<Engine> engine = make_engine(limits);
      answers.push_back(answer_golden(open_session(*engine), 13));
    }
    check_equal(answers[0], answers[1]);
    check_equal(answers[0], answers[2]);
  }
}

TEST_CASE("ranges: of every image or of all, and as wide as the policy says") {
  const auto scales_of = [&](const ocellus_limits& limits) {
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
    Session& session = open_session(*engine);
    test::add_question(session, golden(12));
    REQUIRE(answer_of(session, default_params(0)).status.ok());
    std::vector<std::vector<float>> scales;
    for (int32_t i = 0; i < 4; ++i)
      scales.push_back(test::block_scales(session, session.cache().image_block(i, 0), 3, 2));
    return scales;
  };
  ocellus_limits limits = packed_limits(4, 200, 2);
  const auto own = scales_of(limits);
  test::set_text(limits.cache.kv_scheme, "calibquant");
  const auto shared = scales_of(limits);
  test::set_text(limits.cache.kv_scheme, "per-image:key-range=0.5,value-range=0.25");
  const auto narrow = scales_of(limits);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(shared[i] == shared[0]);
    if (i > 0) CHECK(own[i] != own[0]);
    for (size_t k = 0; k < own[i].size(); ++k) {
      const bool of_values = k >= 2 * kDim;
      CHECK(narrow[i][k] == doctest::Approx(own[i][k] * (of_values ? 0.25f : 0.5f)).epsilon(2e-3));
      const bool is_offset = k / kDim % 2 == 0;
      if (is_offset) CHECK(shared[i][k] <= own[i][k]);
      if (!is_offset) CHECK(shared[i][k] >= own[i][k] * 0.999f);
    }
  }
}

TEST_CASE("calibquant has the range of all images of a prompt, and a later prompt its own") {
  const auto scales_after = [](std::string_view scheme, std::vector<std::vector<float>>* scales) {
    ocellus_limits limits = packed_limits(4, 200, 2);
    test::set_text(limits.cache.kv_scheme, scheme);
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
    Session& session = open_session(*engine);
    for (const char* second : {"images/115.png", "images/024.png"}) {
      REQUIRE(test::add_turn(session, "<image><image>What is on the left?", {"images/113.png", second}).ok());
      const Answer answer = answer_of(session, default_params(4));
      REQUIRE(answer.status.ok());
      check_resident(session, answer.stats);
    }
    for (int32_t i = 0; i < 4; ++i)
      scales->push_back(test::block_scales(session, session.cache().image_block(i, 0), 2, 1));
  };
  std::vector<std::vector<float>> own, shared;
  scales_after("per-image", &own);
  scales_after("calibquant", &shared);
  CHECK(own[0] != own[1]);
  CHECK(shared[0] == shared[1]);
  CHECK(shared[2] == shared[3]);
  CHECK(shared[0] != shared[2]);
  // Keys and values of the first prompt are exact in both, so the range of both images follows from theirs.
  for (size_t row = 0; row < 4; row += 2) {
    for (size_t e = 0; e < kDim; ++e) {
      const size_t at = row * kDim + e, step = at + kDim;
      const double least = std::min(own[0][at], own[1][at]);
      const double greatest = std::max(own[0][at] + 3.0 * own[0][step], own[1][at] + 3.0 * own[1][step]);
      CHECK(shared[0][at] == least);
      CHECK(shared[0][step] == doctest::Approx((greatest - least) / 3).epsilon(3e-3));
    }
  }
}

TEST_CASE("calibquant has one range for a prompt, however many rows are read at once") {
  std::vector<float> first;
  uint64_t first_hash = 0;
  for (const int32_t prompt_rows : {0, 200, 100, 1}) {
    CAPTURE(prompt_rows);
    ocellus_limits limits = packed_limits(4, 200, 1);
    test::set_text(limits.cache.kv_scheme, "calibquant:tau-high=2");
    limits.cache.compress_at = OCELLUS_COMPRESS_BEFORE_SUFFIX;
    limits.max_prompt_rows = prompt_rows;
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
    Session& session = open_session(*engine);
    const Answer answer = answer_golden(session, 13, 4);
    check_resident(session, answer.stats);
    // A GPU's rounding depends on the number of rows.
    const bool is_first = prompt_rows == 0 || cuda_device_count() > 0;
    if (is_first) first = test::block_scales(session, session.cache().image_block(0, 0), 3, 2);
    if (is_first) first_hash = answer.stats.logits_hash;
    CHECK(answer.stats.logits_hash == first_hash);
    for (int32_t i = 0; i < 4; ++i)
      CHECK(test::block_scales(session, session.cache().image_block(i, 0), 3, 2) == first);
  }
}

TEST_CASE("ranges over the survivors of a prompt: by block, or calibquant's one") {
  ocellus_limits limits = evicting_limits(4, 200, "snapkv", 0.5f, 4);
  for (const std::string_view scheme : {"per-image:block=20", "calibquant"}) {
    test::set_text(limits.cache.kv_scheme, scheme);
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
    Session& session = open_session(*engine);
    test::add_question(session, golden(12));
    REQUIRE(answer_of(session, default_params(0)).status.ok());
    const test::KeptCounts counts = test::kept_counts(session, 0);
    const int32_t block_slots = engine->shape().kv.block_slots;
    int compared = 0;
    for (int32_t layer = 0; layer < kLayers; ++layer) {
      for (int32_t head = 0; head < kHeads; ++head) {
        const auto first = test::block_scales(session, session.cache().kept().block(0, 0), layer, head);
        const int32_t blocks = counts.visual[static_cast<size_t>(layer * kHeads + head)] / block_slots;
        for (int32_t b = 1; b < blocks; ++b, ++compared)
          CHECK((test::block_scales(session, session.cache().kept().block(0, b), layer, head) == first) ==
                (scheme == "calibquant"));
      }
    }
    CHECK(compared > 20);
    CHECK(answer_of(session).status.ok());
  }
}

}  // namespace ocellus
