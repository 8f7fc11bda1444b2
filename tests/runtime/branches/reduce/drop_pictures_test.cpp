// FastV: rows of pictures that are dropped after the first layers, against the double-precision model; and where none
// are, everything as without it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/branches/reduce/picture_reduction.h"
#include "tests/support/cache_texts.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::family_limits;
using test::Matrix;
using test::Pair;
using test::Parts;
using test::ReferenceText;
using test::TestPicture;
using test::VisionRecipe;

constexpr float kAllRows = 0.9999f;  // of so few: rounded up

ocellus_limits dropping(ocellus_limits limits, int layer, float keep) {
  test::set_text(limits.reduce, "fastv:layer=" + std::to_string(layer));
  limits.reduce_keep = keep;
  return limits;
}

const Pair& deep_pair() {
  static const Pair pair(test::TextRecipe{.layers = 3, .kv_heads = 2}, VisionRecipe{.longest_edge = 96});
  return pair;
}

Matrix rows_of(const Matrix& all, const std::vector<int64_t>& kept) {
  Matrix rows(std::ssize(kept), all.cols);
  for (int64_t i = 0; i < rows.rows; ++i) std::copy_n(all.row(kept[static_cast<size_t>(i)]), all.cols, rows.row(i));
  return rows;
}

/// A prompt about two pictures, and of every row its picture; -1: text.
struct Prompt {
  const std::string before = "Compare these two pictures with care: ", after = "now";
  const std::vector<TestPicture> pictures = {{96, 64}, {33, 200}};
  Parts parts;
  std::vector<int> picture_of;

  Prompt() {
    test::append_text(parts, before);
    test::append_picture(parts, 0, 2, 3);
    test::append_picture(parts, 1, 3, 1);
    test::append_text(parts, after);
    const int64_t view_rows = deep_pair().model.vision().tokens_per_view();
    for (const test::Part& part : parts)
      picture_of.insert(picture_of.end(), static_cast<size_t>(part.view < 0 ? 1 : view_rows), part.picture);
  }
  void add(Session& session) const {
    test::add_words(session, before.c_str());
    for (const TestPicture& picture : pictures) test::add_picture(session, picture);
    test::add_words(session, after.c_str());
  }
};

/// As many rows of the pictures as they have slots are kept, and none of them has less attention than one that is not.
void check_choice(const Prompt& prompt, const std::vector<int64_t>& kept, const std::vector<double>& attention,
                  float keep, double tolerance) {
  for (const bool text : {true, false}) {
    int64_t count = 0, stay = 0;
    double least = INFINITY, most = 0;
    for (size_t row = 0; row < prompt.picture_of.size(); ++row) {
      if ((prompt.picture_of[row] < 0) != text) continue;
      const bool stays = std::binary_search(kept.begin(), kept.end(), static_cast<int64_t>(row));
      ++count;
      stay += stays ? 1 : 0;
      stays ? least = std::min(least, attention[row]) : most = std::max(most, attention[row]);
    }
    const int64_t slots = std::llround(keep * 28) + std::llround(keep * 16);
    CHECK(stay == (text ? count : slots));
    CHECK(least >= most * (text ? 0 : 1 - tolerance));
  }
}

void check_against_reference(int layer, float keep, bool lean) {
  CAPTURE(layer);
  CAPTURE(keep);
  const Pair& pair = deep_pair();
  ocellus_limits limits = dropping(test::picture_limits(2, 90), layer, keep);
  limits.lean = lean ? 1 : 0;
  const auto engine = test::make_engine(pair.model, limits);
  Session& session = test::open_session(*engine);
  const Prompt prompt;
  prompt.add(session);
  const std::vector<float> logits = test::first_logits(session);
  CHECK(session.next_position() == std::ssize(prompt.picture_of));
  const int32_t* const picks = reduction_of(*engine).picks.host.data;
  const std::vector<int64_t> kept(picks, picks + session.cache().rows());

  const ReferenceText text(pair.model.text_file());
  const Matrix rows =
      test::reference_rows(pair.model, engine->shape().pictures.preprocess, prompt.parts, prompt.pictures);
  test::KeysAndValues taken;
  const Matrix looked = text.read(rows, {}, {}, &taken, {.end = layer});
  check_choice(prompt, kept, taken.last_attention.back(), keep, test::bound_on(*engine, 1e-3, 2e-2));
  const Matrix read = text.read(rows_of(looked, kept), kept, {}, nullptr, {.first = layer});
  const Matrix expected = text.logits(read);
  CHECK(test::relative_error(logits.data(), expected.row(expected.rows - 1), expected.cols) <
        test::bound_on(*engine, 3e-4, 1e-2));
}

/// A conversation about two pictures, then a third question.
struct Talk {
  Talk(const Model& model, const ocellus_limits& limits) : engine(test::make_engine(model, limits)) {
    session = &test::open_session(*engine);
    test::add_two_pictures(*session);
    logits = test::first_logits(*session);
    image_rows = session->conversation().stats().image_rows;
    answer = test::answer_of(*session, test::default_params(8));
    REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
    test::add_words(*session, "And now");
    later = test::first_logits(*session);
  }
  std::unique_ptr<Engine> engine;
  Session* session = nullptr;
  int32_t image_rows = 0;
  std::vector<float> logits, later;
  test::Answer answer;
};

void check_same(const Talk& a, const Talk& b) {
  CHECK(a.logits == b.logits);
  CHECK(a.answer.text == b.answer.text);
  CHECK(a.later == b.later);
  CHECK(a.session->cache().rows() == b.session->cache().rows());
}

/// Stops the session when a range of this name has ended.
struct StopAfter {
  const char* name = "";
  StopSignal* signal = nullptr;
};

}  // namespace

TEST_CASE("rows with the least attention are dropped after the first layers, as in the double-precision model") {
  for (const int layer : {1, 2})
    for (const float keep : {kAllRows, 0.5f, 0.25f}) check_against_reference(layer, keep, layer == 2);
}

TEST_CASE("every family drops half of its pictures' rows after its first layers, or none bit for bit") {
  test::for_each_tiny_family([](const Model& model) {
    if (model.text().local.convolve()) return;
    int layer = 1;  // the first that sees all
    while (model.text().local.has(layer - 1)) ++layer;
    if (layer >= model.text().layer_count) return;  // none, but the last
    const Talk all(model, family_limits());
    check_same(Talk(model, dropping(family_limits(), layer, kAllRows)), all);
    const Talk half(model, dropping(family_limits(), layer, 0.5f));
    CHECK(half.image_rows >= all.image_rows / 2);
    CHECK(half.image_rows <= all.image_rows / 2 + 1);  // of two pictures
    CHECK(half.session->next_position() == all.session->next_position());
    CHECK(half.logits != all.logits);
    check_same(Talk(model, dropping(family_limits(), layer, 0.5f)), half);
  });
}

TEST_CASE("what a cache evicts and packs is the same if no row is dropped") {
  const Model& model = deep_pair().model;
  for (const char* const evict : {"", "snapkv", "elastic", "streaming-llm", "meda", "vl-cache", "david"}) {
    CAPTURE(std::string(evict));
    for (const int32_t bits : {16, 4}) {
      if (bits < 16 && !test::can_pack(model)) continue;
      ocellus_limits limits = test::picture_limits(2, 80);
      test::set_text(limits.cache.evict, evict);
      limits.cache.kv_bits = bits;
      if (evict[0] != '\0') limits.cache.keep = 0.5f;
      ocellus_plan plan;
      if (!plan_memory(model, limits, &plan).ok()) {
        MESSAGE(last_failure().sentence);
        continue;
      }
      check_same(Talk(model, dropping(limits, 2, kAllRows)), Talk(model, limits));
      limits.lean = 1;
      const Talk half(model, dropping(limits, 1, 0.5f));
      CHECK(std::all_of(half.later.begin(), half.later.end(), [](float x) { return std::isfinite(x); }));
    }
  }
}

TEST_CASE("a prompt that is stopped in the first layers, or in the others, leaves what was read before") {
  for (const char* const name : {"full layer", "drop rows", "compress"}) {
    CAPTURE(std::string(name));
    ocellus_engine_config config;
    ocellus_engine_config_init(&config);
    config.limits = dropping(test::picture_limits(3, 80), 2, 0.5f);
    test::set_text(config.limits.cache.evict, "snapkv");
    config.limits.cache.keep = 0.9f;
    StopAfter stop;
    config.trace_user = &stop;
    config.trace = [](void* user, const char* range, int64_t, int64_t) {
      const auto& after = *static_cast<const StopAfter*>(user);
      if (after.signal != nullptr && std::string(range) == after.name) after.signal->cancel();
    };
    std::unique_ptr<Engine> engine;
    REQUIRE(Engine::create(deep_pair().model, config, &engine).ok());
    Session& session = test::open_session(*engine);
    test::add_words(session, "Look");
    test::add_picture(session, test::wide_picture());
    REQUIRE(test::answer_of(session, test::default_params(2)).status.ok());
    const int64_t rows = session.cache().rows(), position = session.next_position();
    const int64_t bytes = engine->memory().pools.used_bytes();
    for (const bool stops : {true, false}) {
      test::add_picture(session, test::tall_picture());
      test::add_words(session, "now");
      stop = {name, stops ? &session.stop_signal() : nullptr};
      CHECK(test::answer_of(session, test::default_params(2)).status.code() == (stops ? Code::kCancelled : Code::kOk));
      session.stop_signal().acknowledge();
      if (!stops) continue;
      CHECK(session.cache().rows() <= rows);
      CHECK(session.next_position() <= position);
      CHECK(engine->memory().pools.used_bytes() <= bytes);
    }
  }
}

TEST_CASE("the plan has slots for the rows that stay, and memory for those of the first layers") {
  const Model& model = deep_pair().model;
  const auto plan_of = [&](const ocellus_limits& limits) {
    ocellus_plan plan;
    REQUIRE_MESSAGE(plan_memory(model, limits, &plan).ok(), last_failure().sentence);
    return plan;
  };
  const ocellus_limits limits = test::picture_limits(8, 60);
  const ocellus_plan all = plan_of(limits), half = plan_of(dropping(limits, 1, 0.5f));
  CHECK(half.rows_per_image == all.rows_per_image / 2);
  CHECK(half.kv_bytes_per_image == all.kv_bytes_per_image / 2);
  CHECK(half.positions_per_image == all.positions_per_image);
  const ocellus_limits deeper = dropping(test::picture_limits(8, 800), 2, 0.5f);
  const ocellus_plan planned = plan_of(deeper);
  const Talk talk(model, deeper);
  ocellus_engine_stats stats;
  talk.engine->describe(&stats);
  CHECK(stats.arena_bytes == planned.total_bytes);
  CHECK(stats.scratch_high_water_bytes <= planned.scratch_bytes);
  CHECK(stats.scratch_high_water_bytes * 100 > planned.scratch_bytes * 99);
}

TEST_CASE("layers after which no rows can be dropped are refused in a sentence") {
  const Model& model = deep_pair().model;
  ocellus_plan plan;
  const ocellus_limits limits = test::picture_limits(2, 60);
  for (const int layer : {0, 3, 40, 2000})
    CHECK(plan_memory(model, dropping(limits, layer, 0.5f), &plan).code() == Code::kBadArgument);
  ocellus_limits linked = limits, early = limits;
  linked.reuse = OCELLUS_REUSE_MPIC;
  CHECK(plan_memory(model, dropping(linked, 2, 0.5f), &plan).code() == Code::kBadArgument);
  test::set_text(early.cache.evict, "snapkv");
  early.cache.keep = 0.5f;
  for (const int32_t at : {OCELLUS_COMPRESS_BEFORE_SUFFIX, OCELLUS_COMPRESS_IMAGE_END}) {
    early.cache.compress_at = at;
    CHECK(plan_memory(model, dropping(early, 2, 0.5f), &plan).code() == Code::kBadArgument);
  }
  const auto gemma = test::open_tiny_family("gemma3");
  CHECK(plan_memory(*gemma, dropping(family_limits(), 1, 0.5f), &plan).code() == Code::kUnsupported);
}

}  // namespace ocellus
