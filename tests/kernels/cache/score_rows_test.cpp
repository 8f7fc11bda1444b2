#include "kernels/cache/score_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/base/highway_targets.h"
#include "kernels/cache/score_rows_plan.h"
#include "kernels/cache/select_slots.h"
#include "tests/kernels/cache/score_rows_case.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;
using Case = test::ScoreCase;
using Shape = test::ScoreShape;

#define OCELLUS_CAPTURE_SHAPE(shape) \
  CAPTURE(shape.rows);               \
  CAPTURE(shape.window);             \
  CAPTURE(shape.heads);              \
  CAPTURE(shape.kv_heads);           \
  CAPTURE(shape.dim);                \
  CAPTURE(shape.calibrates)

bool same_bits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  for (size_t g = 0; g < a.size(); ++g)
    if (std::memcmp(a[g].data(), b[g].data(), a[g].size() * sizeof(float)) != 0) return false;
  return a.size() == b.size();
}

std::vector<Shape> plain_shapes() {
  std::vector<Shape> shapes = {
      {1, 1, 1, 1, 8},
      {5, 5, 2, 1, 16},
      {70, 1, 8, 4, 64},
      {65, 64, 3, 3, 72, {{0, 4}, {5, 5}}},
      {130, 33, 6, 2, 80, {{100, 120}}},
      {200, 200, 2, 1, 64, {{30, 30}, {1, 1}}},
      {129, 129, 7, 1, 128},
      {64, 10, 64, 1, 32, {{17, 20}}},
      {90, 20, 4, 2, 64, {{50, 60, true}, {30, 30}, {40, 41, true}}, true},
      {90, 20, 9, 3, 96, {{50, 60, true}, {1, 1, true}}, false},
      {40, 8, 4, 4, 48, {{1, 3, true}, {20, 20}}, true},  // a single slot is not calibrated
      {60, 30, 6, 3, 64, {{33, 40, true, true}, {48, 50, false, true}, {9, 9, true}}, true},
      {60, 30, 6, 3, 64, {{64, 64, false, true}, {80, 80, false, true}, {5, 5}}},
  };
  Random random(78);
  constexpr int32_t kDims[] = {8, 40, 64, 72, 80, 96, 128, 136, 256, 512};
  constexpr int32_t kGroups[] = {1, 2, 3, 4, 7};
  for (int i = 0; i < 24; ++i) {
    Shape shape;
    shape.rows = random.integer(1, 210);
    shape.window = random.integer(0, 3) == 0 ? shape.rows : random.integer(1, std::min<int64_t>(shape.rows, 70));
    shape.dim = kDims[i % 10];
    shape.kv_heads = static_cast<int32_t>(random.integer(1, 3));
    shape.heads = shape.kv_heads * kGroups[random.integer(0, 4)];
    shape.calibrates = random.integer(0, 1) == 0;
    for (int64_t runs = random.integer(0, 4); runs > 0; --runs) {
      const auto slots = static_cast<int32_t>(random.integer(1, 90));
      shape.runs.push_back({slots, slots + static_cast<int32_t>(random.integer(0, 20)), random.integer(0, 1) == 0,
                            random.integer(0, 1) == 0});
    }
    shapes.push_back(shape);
  }
  return shapes;
}

/// Shapes that only the CPU reads itself: codes, and runs at other positions.
std::vector<Shape> packed_shapes() {
  std::vector<Shape> shapes;
  for (const KvFormat format :
       {KvFormat::k8Bit, KvFormat::k4Bit, KvFormat::k2Bit, KvFormat::k1Bit, kv_format_of(4, 1)}) {
    for (const bool calibrates : {false, true}) {
      shapes.push_back({50, 12, 6, 3, 72, {{70, 80, true, true, format}, {20, 20}}, calibrates});
      shapes.push_back({20, 20, 4, 2, 64, {{33, 33, true, false, format, 300}, {40, 40, true, false, format, -7}}});
      shapes.back().calibrates = calibrates;
      if (calibrates) shapes.back().pairing = RopePairing::kAdjacent;
    }
  }
  shapes.push_back({30, 9, 4, 2, 80, {{70, 80, false, true, KvFormat::kF16, 12345}, {9, 9, false, false}}});
  shapes.push_back({30, 9, 4, 2, 80, {{10, 10, false, false, KvFormat::kF16, -1}}, false, RopePairing::kAdjacent});
  return shapes;
}

/// Shapes that CUDA treats differently: every padded head size, splits, rows over many tiles.
std::vector<Shape> shapes_for_tiles() {
  std::vector<Shape> shapes;
  for (const int32_t dim : {8, 32, 40, 64, 72, 80, 96, 128, 136, 256, 264, 512}) {
    shapes.push_back({100, 70, 4, 2, dim, {{37, 40}, {21, 30}}});
    shapes.push_back({300, 7, 6, 2, dim, {{300, 300, true}, {81, 100}, {3, 3, true}}, true});
  }
  shapes.push_back({700, 5, 3, 1, 64, {{1000, 1000, true, true}}, true});
  shapes.push_back({400, 400, 2, 1, 64});
  shapes.push_back({257, 257, 5, 1, 128, {{40, 40}}});
  shapes.push_back({300, 150, 3, 1, 40, {{15, 16}, {16, 16}, {1, 1}}});
  return shapes;
}

TEST_CASE("score_rows equals plain column sums on every target, with the same bits on any number of threads") {
  test::TestQueue one(1), three(3);
  std::vector<Shape> shapes = plain_shapes();
  for (const Shape& shape : packed_shapes()) shapes.push_back(shape);
  uint64_t seed = 0;
  for (const Shape& shape : shapes) {
    OCELLUS_CAPTURE_SHAPE(shape);
    Case instance(shape, ++seed, *one);
    test::for_each_target([&] {
      const std::string target = hwy::TargetName(hwy::SupportedTargets());
      CAPTURE(target);
      const auto scores = instance.score(*one);
      instance.check_numbers(scores, 3e-5);
      CHECK(same_bits(scores, instance.score(*three)));
    });
  }
}

TEST_CASE("score_rows equals plain column sums on every backend, with the same bits every time") {
  test::for_each_backend([&](Queue& queue) {
    uint64_t seed = 100;
    std::vector<Shape> shapes = plain_shapes();
    for (const Shape& shape : shapes_for_tiles()) shapes.push_back(shape);
    for (const Shape& shape : shapes) {
      OCELLUS_CAPTURE_SHAPE(shape);
      if (test::skip(++seed, 5)) continue;
      Case instance(shape, seed, queue);
      const auto scores = instance.score(queue);
      instance.check_numbers(scores, queue.on_cuda() ? 1e-4 : 3e-5);
      CHECK(same_bits(scores, instance.score(queue)));
    }
  });
}

/// Shapes with past and without, few rows and many, each with something else asked.
std::vector<Shape> shapes_that_tell() {
  std::vector<Shape> shapes;
  for (const Observers observers : {Observers::kAll, Observers::kVisual, Observers::kText})
    for (const bool adds_one : {false, true})
      for (const AttentionFact fact : {AttentionFact::kNone, AttentionFact::kEntropy, AttentionFact::kDensity}) {
        for (Shape shape : {Shape{1, 1, 1, 1, 8}, Shape{70, 9, 6, 2, 72, {{20, 20}, {3, 5}}}, Shape{150, 150, 4, 2, 64},
                            Shape{90, 20, 4, 1, 128, {{50, 60, true}, {30, 30}}, true}, Shape{131, 70, 2, 1, 256}}) {
          shape.observers = observers;
          shape.adds_one = adds_one;
          shape.fact = fact;
          shapes.push_back(shape);
        }
      }
  return shapes;
}

TEST_CASE("score_rows counts the queries of one modality, knows the n-softmax, and tells entropy and density") {
  test::for_each_backend([&](Queue& queue) {
    uint64_t seed = 300;
    for (const Shape& shape : shapes_that_tell()) {
      OCELLUS_CAPTURE_SHAPE(shape);
      CAPTURE(static_cast<int>(shape.observers));
      CAPTURE(static_cast<int>(shape.fact));
      CAPTURE(shape.adds_one);
      Case instance(shape, ++seed, queue);
      instance.check_numbers(instance.score(queue), queue.on_cuda() ? 1e-4 : 3e-5);
      if (shape.fact != AttentionFact::kNone) instance.check_facts(queue.on_cuda() ? 3e-4 : 1e-4);
    }
  });
}

TEST_CASE("score_rows leaves out the queries that are not known, whatever else is asked") {
  test::for_each_backend([&](Queue& queue) {
    uint64_t seed = 600;
    for (Shape shape : shapes_that_tell()) {
      OCELLUS_CAPTURE_SHAPE(shape);
      CAPTURE(static_cast<int>(shape.observers));
      CAPTURE(static_cast<int>(shape.fact));
      shape.some_read = true;
      Case instance(shape, ++seed, queue);
      instance.check_numbers(instance.score(queue), queue.on_cuda() ? 1e-4 : 3e-5);
      if (shape.fact != AttentionFact::kNone) instance.check_facts(queue.on_cuda() ? 3e-4 : 1e-4);
    }
  });
}

TEST_CASE("score_rows counts what all rows of a tower's view give each other") {
  test::for_each_backend([](Queue& queue) {
    uint64_t seed = 1200;
    for (Shape shape :
         {Shape{1, 1, 1, 1, 8}, Shape{70, 1, 4, 4, 64}, Shape{65, 65, 3, 3, 72}, Shape{200, 200, 2, 2, 80},
          Shape{130, 33, 6, 2, 24}, Shape{257, 257, 2, 2, 128}, Shape{90, 90, 2, 1, 256}}) {
      OCELLUS_CAPTURE_SHAPE(shape);
      shape.see_all = true;
      for (const AttentionFact fact : {AttentionFact::kNone, AttentionFact::kDensity}) {
        shape.fact = fact;
        Case instance(shape, ++seed, queue);
        instance.check_numbers(instance.score(queue), queue.on_cuda() ? 1e-4 : 3e-5);
        if (fact != AttentionFact::kNone) instance.check_facts(queue.on_cuda() ? 3e-4 : 1e-4);
      }
    }
  });
}

TEST_CASE("score_rows weighs rows as a moving average does, and adds to the scores of the layers before") {
  test::for_each_backend([](Queue& queue) {
    uint64_t seed = 900;
    for (const float decay : {0.9f, 0.5f}) {
      for (Shape shape : {Shape{1, 1, 1, 1, 8}, Shape{70, 9, 6, 2, 72, {{20, 20}, {3, 5}}}, Shape{150, 150, 4, 2, 64},
                          Shape{90, 20, 4, 1, 128, {{50, 60, true}, {30, 30}}, true}}) {
        shape.decay = decay;
        Case instance(shape, ++seed, queue);
        const auto scores = instance.score(queue);
        instance.check_numbers(scores, queue.on_cuda() ? 1e-4 : 3e-5);
        const auto added = instance.score(queue, true, 2.5f);
        for (size_t g = 0; g < scores.size(); ++g)
          for (size_t row = 0; row < scores[g].size(); ++row) CHECK(added[g][row] == 2.5f + scores[g][row]);
      }
    }
  });
}

TEST_CASE("what visual queries and text queries give adds up to what all give") {
  test::for_each_backend([&](Queue& queue) {
    Shape shape{170, 60, 6, 2, 64, {{30, 30}}};
    std::vector<std::vector<std::vector<float>>> scores;
    for (const Observers observers : {Observers::kAll, Observers::kVisual, Observers::kText}) {
      shape.observers = observers;
      scores.push_back(Case(shape, 12, queue).score(queue));
    }
    for (size_t g = 0; g < 2; ++g)
      for (size_t row = 0; row < 170; ++row) {
        const auto both = static_cast<double>(scores[1][g][row] + scores[2][g][row]);
        CHECK(static_cast<double>(scores[0][g][row]) == doctest::Approx(both).epsilon(1e-4));
      }
  });
}

TEST_CASE("rows that are all liked alike are dense, and their entropy is the logarithm of their number") {
  test::for_each_backend([&](Queue& queue) {
    for (const AttentionFact fact : {AttentionFact::kEntropy, AttentionFact::kDensity}) {
      Shape shape{200, 200, 4, 2, 64};
      shape.fact = fact;
      Case instance(shape, 4, queue);
      for (int64_t t = 0; t < 200; ++t)
        for (int64_t i = 0; i < 4 * 64; ++i) instance.query().set(t, i, 0);
      instance.score(queue);
      double wanted = 0;
      for (int rows = 1; rows <= 200; ++rows) wanted += fact == AttentionFact::kDensity ? 1.0 : std::log(rows);
      for (const std::vector<float>& facts : instance.facts())
        CHECK(std::accumulate(facts.begin(), facts.end(), 0.0) == doctest::Approx(wanted).epsilon(1e-4));
    }
  });
}

TEST_CASE("sums over all queries and rows total the number of queries") {
  test::for_each_backend([&](Queue& queue) {
    for (const Shape& shape : {Shape{150, 150, 6, 2, 64}, Shape{333, 333, 3, 3, 40}, Shape{333, 100, 4, 1, 128}}) {
      Case instance(shape, 3, queue);
      for (const std::vector<float>& scores : instance.score(queue)) {
        const double total = std::accumulate(scores.begin(), scores.end(), 0.0);
        CHECK(total == doctest::Approx(static_cast<double>(shape.window)).epsilon(1e-5));
      }
    }
  });
}

TEST_CASE("queries that like all rows alike share their attention evenly, which is an NCAR of about 1") {
  test::for_each_backend([&](Queue& queue) {
    constexpr int64_t kRows = 400, kWindow = 8;
    Case instance({kRows, kWindow, 4, 2, 64}, 4, queue);
    for (int64_t t = 0; t < kWindow; ++t)
      for (int64_t i = 0; i < 4 * 64; ++i) instance.query().set(t, i, 0);
    const auto scores = instance.score(queue);
    double expected = 0;
    for (int64_t t = 0; t < kWindow; ++t) expected += 1.0 / static_cast<double>(kRows - kWindow + t + 1);
    for (int64_t row = 0; row <= kRows - kWindow; ++row)
      CHECK(static_cast<double>(scores[1][static_cast<size_t>(row)]) == doctest::Approx(expected).epsilon(1e-5));
    CHECK(static_cast<double>(scores[1].back()) == doctest::Approx(1.0 / kRows).epsilon(1e-5));

    Guarded<float> given(2, kRows);
    for (int64_t g = 0; g < 2; ++g) std::copy(scores[g].begin(), scores[g].end(), &given.at(g, 0));
    Guarded<uint8_t> is_visual(1, kRows);
    for (int64_t row = 0; row < kRows; ++row) is_visual.at(0, row) = row >= 50 && row < 300;
    Guarded<int32_t> kept(2, kRows), counts(1, 2);
    Guarded<NcarState> state(1, 1);
    Guarded<std::byte> scratch(1, select_slots_scratch_bytes(kRows, 2, queue.traits()));
    SelectSlotsArgs args;
    args.scores = given.view();
    args.rows.count = kRows;
    args.rows.is_visual = is_visual.data();
    args.rows.visual_count = 250;
    args.window = kWindow;
    args.budget = 100;
    args.stage = SelectStage::kUntilSwitch;
    args.ncar.state = state.data();
    args.kept.text = kept.view();
    args.kept.text_counts = counts.data();
    args.scratch = scratch.view();
    select_slots(args, queue);
    REQUIRE(queue.finish().ok());
    CHECK(static_cast<double>(state.at(0, 0).theta[0]) == doctest::Approx(1.0).epsilon(0.02));
    CHECK(state.at(0, 0).switch_layer == 0);
  });
}

TEST_CASE("a key or query that is not a number shows in the scores of the rows it touches") {
  test::for_each_backend([&](Queue& queue) {
    Case with_key({100, 10, 4, 2, 64}, 5, queue);
    with_key.key(1, 95)[7] = test::kHalfNan;  // seen by the last five rows
    auto scores = with_key.score(queue);
    CHECK(std::all_of(scores[0].begin(), scores[0].end(), [](float score) { return score >= 0; }));
    CHECK(std::all_of(scores[1].begin(), scores[1].end(), [](float score) { return std::isnan(score); }));

    Case with_query({100, 10, 4, 2, 64}, 6, queue);
    with_query.query().set(3, 70, std::numeric_limits<float>::quiet_NaN());  // chunk row 93, key/value head 0
    scores = with_query.score(queue);
    for (size_t row = 0; row < 100; ++row) CHECK(std::isnan(scores[0][row]) == (row <= 93));
    CHECK(std::all_of(scores[1].begin(), scores[1].end(), [](float score) { return score >= 0; }));
  });
}

TEST_CASE("large scores neither overflow nor vanish, and calibration of equal scores only lowers them") {
  test::for_each_backend([&](Queue& queue) {
    Shape shape{150, 150, 4, 2, 64, {{40, 40, true}}, true};
    Case large(shape, 7, queue);
    for (int64_t t = 0; t < shape.window; ++t)
      for (int64_t i = 0; i < 4 * 64; ++i) large.query().set(t, i, 200.0f * large.query().get(t, i));
    large.check_numbers(large.score(queue), 5e-3);

    Case even(shape, 8, queue);
    for (int64_t t = 0; t < shape.window; ++t)
      for (int64_t i = 0; i < 4 * 64; ++i) even.query().set(t, i, 0);
    even.check_numbers(even.score(queue), 1e-4);
    even.calibration().tau_low = 1.5f;  // a range of 0 is then stretched by a huge slope
    even.calibration().tau_high = 0.25f;
    even.check_numbers(even.score(queue), 1e-4);
  });
}

TEST_CASE("without queries all scores are zero") {
  test::for_each_backend([&](Queue& queue) {
    Case instance({70, 0, 4, 2, 64, {{20, 20}}}, 9, queue);
    for (const std::vector<float>& scores : instance.score(queue))
      CHECK(std::all_of(scores.begin(), scores.end(), [](float score) { return score == 0; }));
  });
}

TEST_CASE("tiles of lines cover them, split only where they are few, and fit their scratch") {
  for (const int64_t lines : {1, 40, 64, 65, 700, 13600}) {
    for (const int64_t heads : {1, 3, 8, 32}) {
      for (const int64_t stages : {1, 3, 4, 60, 500}) {
        const ScorePlan plan = plan_score_tiles(lines, heads, stages);
        CHECK(int64_t{plan.tiles} * kScoreTile >= lines);
        CHECK((int64_t{plan.tiles} - 1) * kScoreTile < lines);
        CHECK(int64_t{plan.splits} * plan.stages_per_split >= stages);
        CHECK((int64_t{plan.splits} - 1) * plan.stages_per_split < stages);
        if (plan.splits == 1) continue;
        CHECK(plan.splits * lines * heads * static_cast<int64_t>(sizeof(ScorePart)) <= score_parts_bytes());
        CHECK(plan.stages_per_split >= 2);
      }
    }
  }
  CHECK(plan_score_tiles(96, 3, 60).splits > 20);
}

TEST_CASE("score_rows refuses short scratch, and more queries than rows") {
  for (const bool short_scratch : {true, false}) {
    test::TestQueue queue(1);
    Guarded<float> scores(1, 8);
    ScoreRowsArgs args;
    args.query.rows = 9;
    args.query_heads = 1;
    args.rows.heads = 1;
    args.rows.head_dim = 64;
    args.row_count = 8;
    args.scores = scores.view();
    args.scratch.rows = 1;
    args.scratch.cols = short_scratch ? 64 : 1 << 24;
    score_rows(args, *queue);
    CHECK(queue->status().code() == Code::kInternal);
    CHECK(scores.untouched_count() == 8);
  }
}

}  // namespace
}  // namespace ocellus
