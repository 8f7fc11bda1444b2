// Clips of families that take frames in pairs: which frames and sizes those are, a pair that lacks a frame, pairs that
// are one block, what is refused, what the plan counts, and the cache methods and the library on pairs.
#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include "mm/views/clip_views.h"
#include "runtime/branches/roll/roll.h"
#include "runtime/models/family.h"
#include "tests/support/clips.h"
#include "tests/support/packed_sessions.h"
#include "tests/support/shelf.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::bound_on;
using test::error_of;
using test::family_limits;
using test::Shelf;
using test::TestClip;

/// Calls check(model) for the families that take pairs.
template <class Check>
void for_each_family(Check check) {
  for (const std::string name : {"qwen2-vl", "qwen2.5-vl", "qwen3-vl"}) {
    CAPTURE(name);
    check(*test::open_tiny_family(name));
  }
}

ocellus_limits pair_limits(int32_t frames, int32_t images = 0) {
  ocellus_limits limits = family_limits(images);
  limits.max_clip_frames = frames;
  return limits;
}

/// Different frames of one size, two a second.
void fill(TestClip& clip, const std::vector<int>& shifts) {
  for (size_t i = 0; i < shifts.size(); ++i) clip.add_frame(0.5 * static_cast<double>(i), 100, 41, shifts[i]);
}

Status add(Session& session, TestClip& clip) {
  const char question[] = "What is on the left?";
  const ocellus_part parts[] = {clip.part(), {OCELLUS_PART_TEXT, 0, question, sizeof question - 1, nullptr, nullptr}};
  int32_t failed = 0;
  return session.add_parts(parts, 2, &failed);
}

/// A clip of painted frames, shifted by these columns, and a question about it.
struct Talk {
  Talk(const Model& model, const ocellus_limits& limits, const std::vector<int>& shifts = {0, 40, 80})
      : engine(test::make_engine(model, limits)) {
    session = &test::open_session(*engine);
    TestClip clip;
    fill(clip, shifts);
    REQUIRE_MESSAGE(add(*session, clip).ok(), last_failure().sentence);
    logits = test::first_logits(*session);
    answer = test::answer_of(*session, test::default_params(8));
    REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
    CHECK(answer.stats.image_count == (std::ssize(shifts) + 1) / 2);
  }
  std::unique_ptr<Engine> engine;
  Session* session = nullptr;
  std::vector<float> logits;
  test::Answer answer;
};

std::vector<int32_t> sample(int32_t frame_count, double duration, int32_t most) {
  std::vector<int32_t> indices(static_cast<size_t>(most));
  indices.resize(
      static_cast<size_t>(find_family("Qwen3-VL").clips.sample(frame_count, duration, most, indices.data())));
  return indices;
}

/// The size that a frame of a public model's clip gets where so many frames were planned.
Size size_of_frame(const Model& model, int32_t frames, Size frame) {
  const PreprocessConfig config = of_clip(preprocess_config(model.vision(), pair_limits(frames)));
  return testing::plan_of(config, frame.width, frame.height).view_size();
}

}  // namespace

TEST_CASE("frames of a video are an even number, two a second, as the published code takes them") {
  using Indices = std::vector<int32_t>;
  // As numpy.linspace has them.
  CHECK(sample(90, 3.0, 768) == Indices{0, 18, 36, 53, 71, 89});
  CHECK(sample(75, 2.5, 768) == Indices{0, 25, 49, 74});
  CHECK(sample(105, 3.5, 768) == Indices{0, 21, 42, 62, 83, 104});
  CHECK(sample(5, 0.2, 768) == Indices{0, 1, 3, 4});
  CHECK(sample(300, 10.0, 5) == Indices{0, 100, 199, 299});
  CHECK(sample(10, 20.0, 7) == Indices{0, 2, 4, 5, 7, 9});
  CHECK(sample(10, 20.0, 768) == Indices{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(sample(3, 0.1, 768) == Indices{0, 2});
  CHECK(sample(1, 0.04, 768) == Indices{0});
  CHECK(sample(90, 3.0, 1) == Indices{0});
  const Indices long_one = sample(30000, 1000.0, 999);
  CHECK(long_one.size() == 768);
  CHECK(long_one.back() == 29999);
  CHECK(std::accumulate(long_one.begin(), long_one.end(), 0) == 11519617);  // torch.linspace's, of torch 2.15.0
}

TEST_CASE("frames of a clip get the sizes that the published code gives them, smaller ones in longer clips") {
  Model model;
  REQUIRE_MESSAGE(model.open_shape("Qwen3-VL-2B", "Q8_0").ok(), last_failure().sentence);
  // As smart_resize of transformers' video_processing_qwen3_vl has them, at most 768 rows a frame and 24576 a clip.
  CHECK(size_of_frame(model, 2, {640, 480}) == Size{640, 480});
  CHECK(size_of_frame(model, 4, {1920, 1080}) == Size{1152, 640});
  CHECK(size_of_frame(model, 64, {1920, 1080}) == Size{832, 448});
  CHECK(size_of_frame(model, 63, {1920, 1080}) == Size{832, 448});
  CHECK(size_of_frame(model, 768, {1920, 1080}) == Size{224, 128});
  CHECK(size_of_frame(model, 4, {100, 40}) == Size{96, 32});
  CHECK(size_of_frame(model, 4, {20, 10}) == Size{64, 32});
  CHECK(size_of_frame(model, 4, {5, 3}) == Size{64, 32});
  CHECK(size_of_frame(model, 4, {31, 300}) == Size{32, 320});
}

TEST_CASE("the last frame of an odd number is a pair with itself, and the order of a pair matters") {
  for_each_family([](const Model& model) {
    const auto logits = [&](const std::vector<int>& shifts, double second) {
      const std::unique_ptr<Engine> engine = test::make_engine(model, pair_limits(4));
      Session& session = test::open_session(*engine);
      TestClip clip;
      for (const int shift : shifts) clip.add_frame(second, 100, 41, shift);
      REQUIRE_MESSAGE(add(session, clip).ok(), last_failure().sentence);
      return test::first_logits(session);
    };
    CHECK(logits({7}, 0.25) == logits({7, 7}, 0.25));
    CHECK(logits({7, 40, 80}, 0.25) == logits({7, 40, 80, 80}, 0.25));
    CHECK(logits({7}, 0.25) != logits({7, 40}, 0.25));
    CHECK(logits({7, 40}, 0.25) != logits({40, 7}, 0.25));
  });
}

TEST_CASE("a block of pairs ends after its latest time, wherever a chunk ends in it") {
  const std::unique_ptr<Model> model = test::open_tiny_family("qwen2.5-vl");
  struct Result {
    std::vector<float> logits;
    int64_t next_position = 0;
  };
  const auto read = [&](double seconds, int32_t prompt_rows) {
    ocellus_limits limits = pair_limits(8);
    limits.max_prompt_rows = prompt_rows;
    limits.max_image_rows = 4;
    const std::unique_ptr<Engine> engine = test::make_engine(*model, limits);
    Session& session = test::open_session(*engine);
    TestClip clip;
    for (int i = 0; i < 8; ++i) clip.add_frame(seconds * i, 100, 41, 40 * i);
    REQUIRE_MESSAGE(add(session, clip).ok(), last_failure().sentence);
    std::vector<float> logits = test::first_logits(session);
    return Result{std::move(logits), session.next_position()};
  };
  const int64_t row = 3;  // columns of a line
  const Result brief = read(0.25, 0), usual = read(0.5, 0), slow = read(20, 0);
  CHECK(usual.next_position - brief.next_position == 3 * 2 + 1 - row);  // from one pair to the next a second
  CHECK(slow.next_position - brief.next_position == 3 * 2 * 40 + 1 - row);
  for (const double seconds : {0.25, 0.5, 20.0}) {
    CAPTURE(seconds);
    const Result whole = read(seconds, 0);
    for (const int32_t rows : {8, 12, 15}) {
      const Result cut = read(seconds, rows);
      CHECK(cut.next_position == whole.next_position);
      CHECK(error_of(cut.logits, whole.logits) < 2e-2);
    }
  }
  CHECK(usual.logits != slow.logits);
  const auto refused = [&] {
    const std::unique_ptr<Engine> engine = test::make_engine(*model, pair_limits(4));
    Session& session = test::open_session(*engine);
    TestClip clip;
    for (const double second : {0.0, 1.0, 86000.0, 86001.0}) clip.add_frame(second, 100, 41);
    const Status status = add(session, clip);
    CHECK(engine->memory().chunk.row_count == 0);
    return status.code();
  };
  CHECK(refused() == Code::kFull);  // beyond the model's positions
}

TEST_CASE("pairs that are one block are not linked, as one sentence says") {
  const std::unique_ptr<Model> model = test::open_tiny_family("qwen2-vl");
  ocellus_limits limits = pair_limits(4);
  limits.reuse = OCELLUS_REUSE_MPIC;
  ocellus_plan plan;
  CHECK(plan_memory(*model, limits, &plan).code() == Code::kUnsupported);
  CHECK(
      std::string(last_failure().sentence) ==
      "Qwen2-VL has the frames of a clip in one block, each at its time, while pictures are linked one by one: plan no "
      "reuse (reuse), or no clips (max_clip_frames)");
}

TEST_CASE("frames of a pair that cannot be are refused by one sentence, and nothing is lost") {
  const std::unique_ptr<Model> model = test::open_tiny_family("qwen3-vl");
  const std::unique_ptr<Engine> engine = test::make_engine(*model, pair_limits(4));
  const test::FreeBlocks all(*engine);
  Session& session = test::open_session(*engine);
  const auto refuse = [&](TestClip& clip, const std::string& sentence) {
    const Status status = add(session, clip);
    CHECK(last_failure().sentence == sentence);
    CHECK(engine->memory().chunk.row_count == 0);
    return status.code();
  };
  TestClip sizes;
  fill(sizes, {0, 40, 80});
  sizes.add_frame(2, 41, 100);
  CHECK(refuse(sizes,
               "frame 4 of the clip is 41 x 100 pixels and frame 1 is 100 x 41: this model takes clips with frames of "
               "one size") == Code::kBadImage);
  TestClip many;
  fill(many, {0, 1, 2, 3, 4});
  CHECK(refuse(many, "a clip has 5 frames, and 4 were planned: plan more frames of clips") == Code::kFull);
  TestClip narrow;
  narrow.add_frame(0, 1000, 2);
  narrow.add_frame(1, 1000, 2);
  CHECK(refuse(narrow, "frames 1 and 2 of the clip: the picture is 1000 x 2 pixels, longer than 200 to 1: crop it") ==
        Code::kBadImage);
  TestClip good;
  fill(good, {0, 40, 80});
  REQUIRE_MESSAGE(add(session, good).ok(), last_failure().sentence);
  CHECK(test::first_logits(session) == Talk(*model, pair_limits(4)).logits);
  session.reset();
  CHECK(test::FreeBlocks(*engine) == all);
}

TEST_CASE("the plan counts pairs, both frames' pixels and the longest times, and is what the engine takes") {
  for_each_family([](const Model& model) {
    for (const int32_t frames : {1, 2, 7, 8})
      for (const int32_t images : {0, 1}) {
        CAPTURE(frames);
        CAPTURE(images);
        ocellus_limits limits = pair_limits(frames, images);
        limits.max_text_tokens = 1;
        ocellus_plan plan;
        REQUIRE_MESSAGE(plan_memory(model, limits, &plan).ok(), last_failure().sentence);
        const std::unique_ptr<Engine> engine = test::make_engine(model, limits);
        ocellus_engine_stats stats;
        engine->describe(&stats);
        CHECK(stats.arena_bytes == plan.total_bytes);
        CHECK(engine->shape().pictures.per_session == images + (frames + 1) / 2);
        Session& session = test::open_session(*engine);
        TestClip clip;
        for (int32_t i = 0; i < frames; ++i) clip.add_frame(86000 + 0.5 * i, 640, 480, i);
        int32_t failed = 0;
        CHECK_MESSAGE(session.add_parts(&clip.part(), 1, &failed).ok(), last_failure().sentence);
        if (images > 0) test::add_picture(session, test::TestPicture(640, 480));
        test::first_logits(session);
        CHECK(session.cache().image_count() == images + (frames + 1) / 2);
        engine->describe(&stats);
        CHECK(stats.session_high_water_bytes <= plan.session_bytes);
        CHECK(stats.scratch_high_water_bytes <= plan.scratch_bytes);
      }
  });
}

TEST_CASE("pairs are packed, dropped and released as pictures are") {
  for_each_family([](const Model& model) {
    const Talk plain(model, pair_limits(3));
    ocellus_limits limits = pair_limits(3);
    if (test::can_pack(model)) {
      limits.cache.kv_bits = 8;
      limits.cache.compress_at = OCELLUS_COMPRESS_IMAGE_END;
      CHECK(error_of(Talk(model, limits).logits, plain.logits) < 5e-2);
    }
    limits = pair_limits(3);
    test::set_text(limits.cache.evict, "snapkv");
    limits.cache.keep = 0.5f;
    const Talk evicted(model, limits);
    const KeptPrompt& all = evicted.session->cache().kept().rows(0);
    const PreprocessConfig config = of_clip(plain.engine->shape().pictures.preprocess);
    CHECK(all.rows - all.text_rows == 2 * testing::plan_of(config, 100, 41).row_count());
    CHECK(evicted.session->next_position() == plain.session->next_position());

    const std::unique_ptr<Engine> engine = test::make_engine(model, pair_limits(6));
    Session& session = test::open_session(*engine);
    REQUIRE_MESSAGE(set_rolling(session, 3, 16).ok(), last_failure().sentence);
    for (int turn = 0; turn < 4; ++turn) {
      TestClip clip;
      fill(clip, {turn, 40, 80, 120});
      REQUIRE_MESSAGE(add(session, clip).ok(), last_failure().sentence);
      REQUIRE_MESSAGE(test::answer_of(session, test::default_params(4)).status.ok(), last_failure().sentence);
      CHECK(session.cache().image_count() == (turn == 0 ? 2 : 3));
    }
  });
}

TEST_CASE("pairs with their times in text are linked as pictures are") {
  const std::unique_ptr<Model> model = test::open_tiny_family("qwen3-vl");
  const Talk plain(*model, pair_limits(3));
  ocellus_limits limits = pair_limits(3);
  limits.reuse = OCELLUS_REUSE_MPIC;
  limits.reuse_rows = -1;
  const Talk linked(*model, limits);
  CHECK(error_of(linked.logits, plain.logits) < bound_on(*plain.engine, 1e-3, 2e-2));
  limits.reuse_rows = 1;
  CHECK(Talk(*model, limits).session->next_position() == plain.session->next_position());
}

TEST_CASE("the image library knows a pair by both of its frames") {
  const std::unique_ptr<Model> model = test::open_tiny_family("qwen3-vl");
  Shelf shelf;
  ocellus_limits limits = pair_limits(4);
  limits.reuse = OCELLUS_REUSE_MPIC;
  limits.reuse_rows = 3;
  limits.library = 1;
  const std::unique_ptr<Engine> engine = test::make_engine(*model, limits);
  Session& session = test::open_with(*engine, shelf, "ann");
  const auto ask = [&](const std::vector<int>& shifts) {
    session.reset();
    TestClip clip;
    fill(clip, shifts);
    REQUIRE_MESSAGE(add(session, clip).ok(), last_failure().sentence);
    const test::Answer answer = test::answer_of(session, test::default_params(8));
    REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
    return answer;
  };
  const test::Answer stored = ask({0, 40, 80});
  test::check_hits(stored, 0, 2);
  const test::Answer found = ask({0, 40, 80});
  test::check_hits(found, 2, 0);
  check_equal(found, stored);
  test::check_hits(ask({40, 0, 80}), 1, 1);
  test::check_hits(ask({0, 41, 80}), 1, 1);
  test::check_hits(ask({0, 40, 81}), 1, 1);
  test::check_hits(ask({0, 0}), 0, 1);
}

}  // namespace ocellus
