// Views whose rows are kept: which are encoded and which are known, and that prompts are read as if all were encoded.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/clips.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::error_of;
using test::Pair;
using test::TestPicture;
using test::VisionRecipe;

/// A conversation that was read.
struct Reading {
  std::vector<float> logits;
  int32_t encoded = 0, known = 0;
};

/// Reads what `add` says, in a session as if new.
template <class Add>
Reading read(Session& session, Add add) {
  session.reset();
  add();
  REQUIRE_MESSAGE(session.prompt().read().ok(), last_failure().sentence);
  const ViewCounts views = session.conversation().stats().views;
  return {.logits = test::first_logits(session), .encoded = views.encoded, .known = views.known};
}

Reading read(Session& session, const TestPicture& picture) {
  return read(session, [&] {
    test::add_picture(session, picture);
    test::add_words(session, "?");
  });
}

ocellus_limits keeping(ocellus_limits limits, int32_t views, float change = 0) {
  limits.kept_views = views;
  limits.view_change = change;
  return limits;
}

/// Engines on pictures of 3 x 3 tiles, 96 pixels wide and high, with the overview.
struct TiledEngine {
  explicit TiledEngine(int32_t kept_views, float change = 0)
      : TiledEngine(keeping(test::picture_limits(1, 16), kept_views, change)) {}
  explicit TiledEngine(const ocellus_limits& limits)
      : engine(test::make_engine(pair().model, limits)), session(test::open_session(*engine)) {}

  static const Pair& pair() {
    static const Pair made(VisionRecipe{.longest_edge = 96});
    return made;
  }
  bool on_cuda() const { return engine->shape().device.is_cuda(); }
  /// A GPU encodes views in batches, whose last bits depend on their number.
  void check_equal(const std::vector<float>& got, const std::vector<float>& expected) const {
    if (on_cuda())
      CHECK(error_of(got, expected) < 2e-3);
    else
      CHECK(got == expected);
  }

  std::unique_ptr<Engine> engine;
  Session& session;
};

TestPicture brightened(const TestPicture& picture, int by) {
  TestPicture brighter = picture;
  for (uint8_t& value : brighter.pixels) value = static_cast<uint8_t>(std::min(value / 2 + 60 + by, 255));
  return brighter;
}

}  // namespace

TEST_CASE("a picture that was read before is read again without its views being encoded, in every family") {
  test::for_each_tiny_family([](const Model& model) {
    const auto engine = test::make_engine(model, keeping(test::family_limits(), 64));
    Session& session = test::open_session(*engine);
    const auto add = [&] { test::add_two_pictures(session); };
    const Reading first = read(session, add), again = read(session, add);
    CHECK(first.encoded > 0);
    CHECK(again.encoded == 0);
    CHECK(again.known == first.encoded + first.known);
    CHECK(again.logits == first.logits);

    const auto plain = test::make_engine(model, test::family_limits());
    Session& other = test::open_session(*plain);
    const Reading expected = read(other, [&] { test::add_two_pictures(other); });
    CHECK(expected.encoded == first.encoded + first.known);
    CHECK(expected.known == 0);
    if (engine->shape().device.is_cuda())
      CHECK(error_of(first.logits, expected.logits) < 2e-2);
    else
      CHECK(first.logits == expected.logits);
  });
}

TEST_CASE("only the views in which something moved are encoded") {
  TiledEngine kept(10), plain(0);
  TestPicture picture(96, 96);
  CHECK(read(kept.session, picture).encoded == 10);
  for (const int place : {40, 70, 5}) {  // in the middle, at the bottom right, at the top left
    picture.pixels[static_cast<size_t>(3 * (place * 96 + place))] ^= 0x40;
    const Reading moved = read(kept.session, picture);
    CHECK(moved.encoded == 2);  // a tile and the overview
    CHECK(moved.known == 8);
    kept.check_equal(moved.logits, read(plain.session, picture).logits);
  }
}

TEST_CASE("batch-invariant views have the same bits whichever others are known") {
  ocellus_limits limits = keeping(test::picture_limits(1, 16), 10);
  limits.batch_invariant = 1;
  TiledEngine kept(limits), apart(limits);
  TestPicture picture(96, 96);
  CHECK(read(kept.session, picture).encoded == 10);
  picture.pixels[0] ^= 0x40;
  const Reading moved = read(kept.session, picture), alone = read(apart.session, picture);
  CHECK(moved.encoded == 2);
  CHECK(alone.encoded == 10);
  CHECK(moved.logits == alone.logits);
}

TEST_CASE("the views that were used last stay, so that pictures may alternate if all their views are kept") {
  const TestPicture one(96, 96), other(96, 96, 50);
  TiledEngine many(20), few(10), fewer(3);
  for (TiledEngine* const engine : {&many, &few, &fewer}) {
    const std::vector<float> first = read(engine->session, one).logits;
    const Reading second = read(engine->session, other), third = read(engine->session, one);
    CHECK(second.encoded == 10);
    CHECK(third.known == (engine == &many ? 10 : 0));
    engine->check_equal(third.logits, first);
  }
}

TEST_CASE("noise and a slow drift are no change until they add up to one, from the view that was encoded on") {
  constexpr float kChange = 4.5f / 255;
  TiledEngine kept(10, kChange);
  const TestPicture picture(96, 96);
  const Reading first = read(kept.session, brightened(picture, 0));
  CHECK(first.encoded == 10);
  for (int drift = 1; drift <= 4; ++drift) {
    TestPicture noisy = brightened(picture, drift);
    for (size_t i = 0; i < noisy.pixels.size(); ++i)
      noisy.pixels[i] = static_cast<uint8_t>(noisy.pixels[i] + (i / 3 % 2 == 0 ? 6 : -6));
    const Reading reading = read(kept.session, noisy);
    CHECK(reading.known == 10);
    CHECK(reading.logits == first.logits);
  }
  CHECK(read(kept.session, brightened(picture, 5)).encoded == 10);
  CHECK(read(kept.session, brightened(picture, 9)).known == 10);

  // A patch of 8 x 8 pixels is enough.
  TestPicture spotted = brightened(picture, 9);
  for (int y = 40; y < 48; ++y)
    for (int x = 40 * 3; x < 48 * 3; ++x) spotted.pixels[static_cast<size_t>(y * 96 * 3 + x)] += 20;
  CHECK(read(kept.session, spotted).encoded == 2);
}

TEST_CASE("all sessions know the views that one of them has read") {
  ocellus_limits limits = keeping(test::picture_limits(1, 16), 10);
  limits.max_sessions = 2;
  const auto engine = test::make_engine(TiledEngine::pair().model, limits);
  const TestPicture picture(96, 96);
  const Reading first = read(test::open_session(*engine), picture);
  const Reading second = read(test::open_session(*engine), picture);
  CHECK(second.known == 10);
  CHECK(second.logits == first.logits);
}

TEST_CASE("the pairs of a clip that goes on are known, in their new places") {
  for (const std::string name : {"qwen2-vl", "qwen2.5-vl", "qwen3-vl"}) {
    CAPTURE(name);
    const auto model = test::open_tiny_family(name);
    ocellus_limits limits = keeping(test::family_limits(0), 4);
    limits.max_clip_frames = 4;
    const auto engine = test::make_engine(*model, limits);
    Session& session = test::open_session(*engine);
    const auto show = [&](const std::vector<int>& shifts) {
      test::TestClip clip;
      for (const int shift : shifts) clip.add_frame(0.5 * static_cast<double>(clip.seconds.size()), 100, 41, shift);
      return read(session, [&] {
        int32_t failed = 0;
        REQUIRE_MESSAGE(session.add_parts(&clip.part(), 1, &failed).ok(), last_failure().sentence);
        test::add_words(session, "?");
      });
    };
    CHECK(show({0, 40, 80, 7}).encoded == 2);
    const Reading next = show({80, 7, 20, 3});
    CHECK(next.encoded == 1);
    CHECK(next.known == 1);
    CHECK(show({7, 80}).encoded == 1);  // in another order
  }
}

TEST_CASE("a cancelled prompt leaves nothing behind that a later one would take for its views") {
  TiledEngine kept(10);
  const TestPicture picture(96, 96);
  const std::vector<float> expected = read(kept.session, picture).logits;
  const TestPicture other(96, 96, 50);
  kept.session.reset();
  test::add_picture(kept.session, other);
  kept.session.stop_signal().cancel();
  CHECK(test::answer_of(kept.session).status.code() == Code::kCancelled);
  const Reading after = read(kept.session, other);
  CHECK(after.encoded + after.known == 10);
  CHECK(error_of(after.logits, expected) > 1e-3);
  TiledEngine plain(0);
  kept.check_equal(after.logits, read(plain.session, other).logits);
}

TEST_CASE("kept views are rows of the plan, and limits that cannot be are refused in a sentence") {
  const Model& model = TiledEngine::pair().model;
  const auto total = [&](const ocellus_limits& limits) {
    ocellus_plan plan;
    REQUIRE_MESSAGE(plan_memory(model, limits, &plan).ok(), last_failure().sentence);
    return plan.total_bytes;
  };
  const ocellus_limits limits = test::picture_limits(1, 16);
  const int64_t row_bytes = 64 * int64_t{sizeof(float)}, rows_of_view = 4;
  CHECK(total(keeping(limits, 10)) - total(limits) >= 10 * rows_of_view * row_bytes);
  CHECK(total(keeping(limits, 10, 0.1f)) > total(keeping(limits, 10)));
  const struct {
    int32_t views;
    float change;
  } wrong[] = {{-1, 0}, {4097, 0}, {10, -0.1f}, {10, 1.5f}, {10, NAN}, {0, 0.5f}};
  for (const auto& w : wrong) {
    ocellus_plan plan;
    CHECK(plan_memory(model, keeping(limits, w.views, w.change), &plan).code() == Code::kBadArgument);
  }
}

}  // namespace ocellus
