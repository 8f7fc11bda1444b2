#include "kernels/cache/select_slots.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// One call's inputs. Options are set in `options`; the rest of the arguments is made of what stands here.
struct Problem {
  int64_t rows = 0;
  std::vector<std::vector<float>> scores;  // by head
  std::vector<uint8_t> is_visual;
  SelectSlotsArgs options;

  int64_t visual_count() const { return std::count(is_visual.begin(), is_visual.end(), uint8_t{1}); }
};

/// Kept rows by head.
struct Kept {
  std::vector<std::vector<int32_t>> text, visual;
  bool operator==(const Kept&) const = default;
};

template <class T>
std::vector<T> first_of(const Guarded<T>& values, int64_t row, int64_t count) {
  return {&values.at(row, 0), &values.at(row, 0) + count};
}

/// Runs the op in guarded memory and checks everything but which rows it chose.
Kept select_rows(const Problem& problem, Queue& queue, NcarState* state = nullptr) {
  const auto heads = static_cast<int64_t>(problem.scores.size());
  const int64_t room = problem.rows + 5;
  Guarded<float> scores(heads, problem.rows, room);
  for (int64_t g = 0; g < heads; ++g)
    std::copy(problem.scores[static_cast<size_t>(g)].begin(), problem.scores[static_cast<size_t>(g)].end(),
              &scores.at(g, 0));
  Guarded<uint8_t> is_visual(1, problem.rows);
  std::copy(problem.is_visual.begin(), problem.is_visual.end(), is_visual.data());
  Guarded<int32_t> text(heads, problem.rows, room), visual(heads, problem.rows, room);
  Guarded<int32_t> text_counts(1, heads), visual_counts(1, heads);
  const int64_t bytes = select_slots_scratch_bytes(problem.rows, static_cast<int32_t>(heads), queue.traits());
  Guarded<std::byte> scratch(1, bytes);
  Guarded<NcarState> device_state(1, 1);
  if (state != nullptr) device_state.at(0, 0) = *state;

  SelectSlotsArgs args = problem.options;
  args.scores = scores.view();
  args.rows.count = problem.rows;
  args.rows.is_visual = is_visual.data();
  args.rows.visual_count = problem.visual_count();
  args.ncar.state = device_state.data();
  args.kept.text = text.view();
  args.kept.visual = visual.view();
  args.kept.text_counts = text_counts.data();
  args.kept.visual_counts = visual_counts.data();
  args.scratch = scratch.view();
  select_slots(args, queue);
  REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
  CHECK((scores.intact() && text.intact() && visual.intact() && scratch.intact() && device_state.intact()));
  CHECK((text_counts.intact() && visual_counts.intact()));
  if (state != nullptr) *state = device_state.at(0, 0);

  Kept kept;
  for (int64_t g = 0; g < heads; ++g) {
    kept.text.push_back(first_of(text, g, text_counts.at(0, g)));
    kept.visual.push_back(first_of(visual, g, args.kept.is_split ? visual_counts.at(0, g) : 0));
  }
  // Nothing is written after the lists, and without a split nothing to the second one.
  int64_t untouched = 0;
  for (const auto& list : kept.text) untouched += problem.rows - static_cast<int64_t>(list.size());
  CHECK(text.untouched_count() == untouched);
  if (!args.kept.is_split) CHECK(visual.untouched_count() == heads * problem.rows);
  if (!args.kept.is_split) CHECK(visual_counts.untouched_count() == heads);
  return kept;
}

/// Pooled scores in double precision; not a number as infinity, which no score is.
std::vector<double> pooled_scores(const Problem& problem, const std::vector<float>& scores, int64_t rows) {
  const int64_t reach = problem.options.pool.width / 2;
  std::vector<double> pooled;
  for (int64_t row = 0; row < rows; ++row) {
    double sum = 0, largest = -std::numeric_limits<double>::infinity();
    const int64_t first = std::max<int64_t>(0, row - reach), last = std::min(rows - 1, row + reach);
    for (int64_t i = first; i <= last; ++i) {
      const double score = static_cast<double>(scores[static_cast<size_t>(i)]);
      sum += score;
      largest = std::isnan(score) || std::isnan(largest) ? static_cast<double>(kNan) : std::max(largest, score);
    }
    const double value =
        problem.options.pool.kind == ScorePooling::kMean ? sum / static_cast<double>(last - first + 1) : largest;
    pooled.push_back(std::isnan(value) ? std::numeric_limits<double>::infinity() : value);
  }
  return pooled;
}

/// The contract, by sorting.
Kept reference(const Problem& problem, bool decoupled) {
  const SelectSlotsArgs& options = problem.options;
  const int64_t before_window = std::max<int64_t>(0, problem.rows - options.window);
  Kept kept;
  for (const std::vector<float>& scores : problem.scores) {
    const std::vector<double> pooled = pooled_scores(problem, scores, before_window);
    std::vector<int64_t> order;
    for (int64_t row = 0; row < before_window; ++row) order.push_back(row);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return pooled[static_cast<size_t>(a)] > pooled[static_cast<size_t>(b)];
    });
    const auto is_visual = [&](int64_t row) { return problem.is_visual[static_cast<size_t>(row)] != 0; };
    const int64_t budget = std::min(options.budget, before_window);
    int64_t room[2] = {budget, budget};  // room of text and of visual rows
    if (decoupled) {
      const auto visual = static_cast<int64_t>(std::count_if(order.begin(), order.end(), is_visual));
      const int64_t text = before_window - visual;
      room[1] = std::min({options.visual_quota, budget, visual});
      room[0] = std::min(budget - room[1], text);
      room[1] = std::min(budget - room[0], visual);
    }
    std::vector<bool> chosen(static_cast<size_t>(problem.rows), false);
    int64_t left = budget;
    for (const int64_t row : order) {
      int64_t& of_kind = room[is_visual(row)];
      if (left == 0 || of_kind == 0) continue;
      chosen[static_cast<size_t>(row)] = true;
      --left;
      --of_kind;
    }
    kept.text.emplace_back();
    kept.visual.emplace_back();
    const int64_t kept_count = budget + problem.rows - before_window;
    for (int64_t row = 0, place = 0; row < problem.rows; ++row) {
      if (row < before_window && !chosen[static_cast<size_t>(row)]) continue;
      const bool by_kind = options.kept.is_split && is_visual(row) && (row < before_window || options.kept.pack_window);
      const bool to_visual = options.kept.last_text < 0 ? by_kind : place < kept_count - options.kept.last_text;
      ++place;
      (to_visual ? kept.visual : kept.text).back().push_back(static_cast<int32_t>(row));
    }
  }
  return kept;
}

double reference_theta(const Problem& problem) {
  double sum = 0;
  for (const std::vector<float>& scores : problem.scores)
    for (size_t row = 0; row < scores.size(); ++row) sum += problem.is_visual[row] * static_cast<double>(scores[row]);
  const auto visual = static_cast<double>(problem.visual_count());
  const auto queries = static_cast<double>(std::min(problem.options.window, problem.rows));
  if (visual == 0 || queries == 0) return 0;
  return static_cast<double>(problem.rows) * sum / static_cast<double>(problem.scores.size()) / visual / queries;
}

/// Scores are multiples of 1/64, so that sums are exact and many are equal; or any.
Problem random_problem(Random& random, int64_t most_rows) {
  Problem problem;
  problem.rows = random.integer(1, most_rows);
  const bool coarse = random.integer(0, 1) == 0;
  problem.scores.resize(static_cast<size_t>(random.integer(1, 5)));
  for (std::vector<float>& scores : problem.scores)
    for (int64_t row = 0; row < problem.rows; ++row)
      scores.push_back(coarse ? static_cast<float>(random.integer(-9, 30)) / 64.0f : random.normal());
  // Text, one or two pictures in it.
  const int64_t begin = random.integer(0, problem.rows), end = random.integer(begin, problem.rows);
  const int64_t gap = random.integer(begin, end);
  for (int64_t row = 0; row < problem.rows; ++row)
    problem.is_visual.push_back(row >= begin && row < end && row != gap ? 1 : 0);

  SelectSlotsArgs& options = problem.options;
  options.window = random.integer(0, std::max<int64_t>(1, problem.rows / 3));
  options.budget = random.integer(0, problem.rows);
  options.visual_quota = random.integer(0, options.budget + 3);
  options.pool.width = static_cast<int32_t>(2 * random.integer(0, 4) + 1);
  options.pool.kind = coarse && random.integer(0, 1) == 0 ? ScorePooling::kMean : ScorePooling::kMax;
  options.stage = random.integer(0, 1) == 0 ? SelectStage::kUnified : SelectStage::kDecoupled;
  options.kept.is_split = random.integer(0, 1) == 0;
  options.kept.pack_window = random.integer(0, 1) == 0;
  if (options.kept.is_split && random.integer(0, 2) == 0)
    options.kept.last_text = random.integer(0, options.budget + 9);
  return problem;
}

void check_against_sort(const Problem& problem, Queue& queue) {
  const bool decoupled = problem.options.stage == SelectStage::kDecoupled;
  const Kept kept = select_rows(problem, queue), expected = reference(problem, decoupled);
  CAPTURE(problem.rows);
  CAPTURE(problem.options.window);
  CAPTURE(problem.options.budget);
  CAPTURE(decoupled);
  CHECK(kept.text == expected.text);
  CHECK(kept.visual == expected.visual);
}

/// A head whose row j has score scores[j]; rows [begin, end) are visual.
Problem small_problem(std::vector<float> scores, int64_t begin, int64_t end) {
  Problem problem;
  problem.rows = static_cast<int64_t>(scores.size());
  for (int64_t row = 0; row < problem.rows; ++row) problem.is_visual.push_back(row >= begin && row < end ? 1 : 0);
  problem.scores = {std::move(scores)};
  problem.options.kept.is_split = true;
  return problem;
}

using Rows = std::vector<int32_t>;

TEST_CASE("select_slots keeps what a plain sort keeps") {
  test::for_each_backend([&](Queue& queue) {
    for (uint64_t seed = 0; seed < 120; ++seed) {
      if (test::skip(seed, 4)) continue;
      CAPTURE(seed);
      Random random(seed);
      check_against_sort(random_problem(random, seed % 3 == 0 ? 12 : seed % 3 == 1 ? 300 : 5000), queue);
    }
  });
}

TEST_CASE("select_slots chooses the same rows on any number of threads") {
  test::TestQueue one(1), three(3);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Random random(seed);
    const Problem problem = random_problem(random, 700);
    CHECK(select_rows(problem, *one) == select_rows(problem, *three));
  }
}

TEST_CASE("select_slots takes long prompts, and scores that differ in their last bits only") {
  test::for_each_backend([&](Queue& queue) {
    Random random(5);
    Problem problem = random_problem(random, 40);
    problem.rows = 65536;
    problem.scores.assign(2, {});
    problem.is_visual.clear();
    for (int64_t row = 0; row < problem.rows; ++row) {
      for (std::vector<float>& scores : problem.scores)
        scores.push_back(1.0f + 0x1p-23f * static_cast<float>(random.integer(0, 999)));
      problem.is_visual.push_back(row % 3 == 0 ? 1 : 0);
    }
    problem.options.window = 100;
    problem.options.budget = 9000;
    problem.options.visual_quota = 6000;
    problem.options.pool.kind = ScorePooling::kMax;
    for (const SelectStage stage : {SelectStage::kUnified, SelectStage::kDecoupled}) {
      for (const int32_t pool : {1, 7}) {
        problem.options.stage = stage;
        problem.options.pool.width = pool;
        check_against_sort(problem, queue);
      }
    }
  });
}

TEST_CASE("a prompt no longer than window and budget is kept whole, and a budget of nothing keeps the window") {
  test::for_each_backend([&](Queue& queue) {
    for (const auto& [window, budget] : {std::pair<int64_t, int64_t>{4, 2}, {9, 0}, {6, 0}, {0, 6}, {100, 100}}) {
      for (const SelectStage stage : {SelectStage::kUnified, SelectStage::kDecoupled}) {
        Problem problem = small_problem({1, 2, 3, 4, 5, 6}, 1, 5);
        problem.options.window = window;
        problem.options.budget = budget;
        problem.options.stage = stage;
        const Kept kept = select_rows(problem, queue);
        CHECK(kept.text[0] == Rows{0, 5});
        CHECK(kept.visual[0] == Rows{1, 2, 3, 4});
      }
    }
    Problem problem = small_problem({1, 2, 3, 4, 5, 6}, 1, 5);
    problem.options.window = 2;
    CHECK(select_rows(problem, queue).text[0] == Rows{5});
    CHECK(select_rows(problem, queue).visual[0] == Rows{4});
    problem.options.kept.pack_window = false;
    CHECK(select_rows(problem, queue).text[0] == Rows{4, 5});
    problem.options.window = 0;
    CHECK(select_rows(problem, queue).text[0].empty());
    CHECK(select_rows(problem, queue).visual[0].empty());
  });
}

TEST_CASE("prompts of one modality give it the whole budget") {
  test::for_each_backend([&](Queue& queue) {
    for (const bool visual : {true, false}) {
      for (const int64_t quota : {0, 1, 3, 7}) {
        Problem problem = small_problem({5, 1, 4, 2, 9, 0, 0}, 0, visual ? 7 : 0);
        problem.options.window = 1;
        problem.options.budget = 3;
        problem.options.visual_quota = quota;
        problem.options.stage = SelectStage::kDecoupled;
        const Kept kept = select_rows(problem, queue);
        CHECK((visual ? kept.visual : kept.text)[0] == Rows{0, 2, 4, 6});
        CHECK((visual ? kept.text : kept.visual)[0].empty());
      }
    }
  });
}

TEST_CASE("equal quotas give equal shares, and a share that is not used goes to the other modality") {
  test::for_each_backend([&](Queue& queue) {
    // Rows 0 .. 5 text, 6 .. 15 visual, of which the last two are the window. Visual scores are all higher.
    Problem problem = small_problem({6, 5, 4, 3, 2, 1, 11, 12, 13, 14, 15, 16, 17, 18, 0, 0}, 6, 16);
    problem.options.window = 2;
    problem.options.budget = 8;
    problem.options.stage = SelectStage::kDecoupled;
    const auto counts = [&](int64_t quota, int64_t budget) {
      problem.options.visual_quota = quota;
      problem.options.budget = budget;
      const Kept kept = select_rows(problem, queue);
      return std::pair(kept.text[0].size(), kept.visual[0].size() - 2);
    };
    CHECK(counts(4, 8) == std::pair<size_t, size_t>(4, 4));
    CHECK(counts(2, 8) == std::pair<size_t, size_t>(6, 2));
    CHECK(counts(0, 8) == std::pair<size_t, size_t>(6, 2));  // text has six rows only
    CHECK(counts(8, 8) == std::pair<size_t, size_t>(0, 8));
    CHECK(counts(50, 8) == std::pair<size_t, size_t>(0, 8));
    CHECK(counts(11, 12) == std::pair<size_t, size_t>(4, 8));  // there are eight visual rows before the window
    problem.options.stage = SelectStage::kUnified;
    CHECK(counts(0, 8) == std::pair<size_t, size_t>(0, 8));
  });
}

TEST_CASE("scores that are not numbers rank before all, equal ones by their row") {
  test::for_each_backend([&](Queue& queue) {
    const float infinity = std::numeric_limits<float>::infinity();
    Problem problem = small_problem({0.0f, infinity, -kNan, -0.0f, -infinity, kNan, 0.0f, 1.0f}, 0, 0);
    const auto best = [&](int64_t budget) {
      problem.options.budget = budget;
      return select_rows(problem, queue).text[0];
    };
    CHECK(best(1) == Rows{2});
    CHECK(best(2) == Rows{2, 5});
    CHECK(best(3) == Rows{1, 2, 5});
    CHECK(best(5) == Rows{0, 1, 2, 5, 7});
    CHECK(best(6) == Rows{0, 1, 2, 3, 5, 7});
    CHECK(best(7) == Rows{0, 1, 2, 3, 5, 6, 7});
    problem = small_problem(std::vector<float>(50, 0.25f), 0, 0);
    CHECK(best(3) == Rows{0, 1, 2});
    problem = small_problem({1, 2, kNan, 3, 4, 5}, 0, 0);
    problem.options.pool.width = 3;
    CHECK(best(3) == Rows{1, 2, 3});
    problem.options.pool.kind = ScorePooling::kMean;
    CHECK(best(4) == Rows{1, 2, 3, 5});
  });
}

TEST_CASE("pooling takes fewer rows at the ends and none of the window") {
  test::for_each_backend([&](Queue& queue) {
    Problem problem = small_problem({8, 0, 0, 0, 0, 6, 0, 100, 100}, 0, 0);
    problem.options.window = 2;
    problem.options.pool.width = 3;
    const auto best = [&](ScorePooling pooling, int64_t budget) {
      problem.options.pool.kind = pooling;
      problem.options.budget = budget;
      Rows kept = select_rows(problem, queue).text[0];
      kept.resize(kept.size() - 2);
      return kept;
    };
    // Means: 4, 8/3, 0, 0, 2, 2, 3
    CHECK(best(ScorePooling::kMean, 1) == Rows{0});
    CHECK(best(ScorePooling::kMean, 2) == Rows{0, 6});
    CHECK(best(ScorePooling::kMean, 3) == Rows{0, 1, 6});
    CHECK(best(ScorePooling::kMean, 4) == Rows{0, 1, 4, 6});
    // Maxima: 8, 8, 0, 0, 6, 6, 6
    CHECK(best(ScorePooling::kMax, 2) == Rows{0, 1});
    CHECK(best(ScorePooling::kMax, 4) == Rows{0, 1, 4, 5});
    problem.options.pool.width = 99;
    CHECK(best(ScorePooling::kMax, 3) == Rows{0, 1, 2});
  });
}

/// Rows of which a third is visual and gets `theta` times its even share of the attention of 5 queries.
Problem problem_of_theta(double theta) {
  constexpr int64_t kRows = 60, kWindow = 5;
  Problem problem = small_problem(std::vector<float>(kRows), 10, 30);
  problem.scores.resize(3);
  for (size_t head = 0; head < 3; ++head) {
    // The heads disagree; their mean is theta. Scores fall as rows rise, so that unified selection takes text first.
    const double of_head = theta * (0.5 + 0.5 * static_cast<double>(head));
    problem.scores[head].assign(kRows, 0.0f);
    for (int64_t row = 0; row < kRows; ++row)
      problem.scores[head][static_cast<size_t>(row)] =
          problem.is_visual[static_cast<size_t>(row)] != 0 ? static_cast<float>(of_head * kWindow / kRows) : 9.0f;
  }
  problem.options.window = kWindow;
  problem.options.budget = 20;
  problem.options.visual_quota = 12;
  problem.options.stage = SelectStage::kUntilSwitch;
  return problem;
}

/// Runs layers with these thetas; returns the state after the last. Every layer must select as its stage does.
NcarState run_layers(const std::vector<double>& thetas, NcarSwitch ncar, float threshold, int32_t switch_layer,
                     Queue& queue) {
  NcarState state;  // the state left by an earlier prompt must not matter
  state.switch_layer = 7;
  std::fill(std::begin(state.theta), std::end(state.theta), 0.125f);
  for (size_t layer = 0; layer < thetas.size(); ++layer) {
    CAPTURE(layer);
    Problem problem = problem_of_theta(thetas[layer]);
    problem.options.ncar.when = ncar;
    problem.options.ncar.threshold = threshold;
    problem.options.ncar.layer = static_cast<int32_t>(layer);
    const bool decoupled = switch_layer == NcarState::kNotYet || static_cast<int32_t>(layer) < switch_layer;
    const Kept kept = select_rows(problem, queue, &state);
    CHECK(kept == reference(problem, decoupled));
    CHECK(reference(problem, true) != reference(problem, false));
    const int32_t known = decoupled ? NcarState::kNotYet : switch_layer;
    CHECK(state.switch_layer == known);
    const bool noted = decoupled || static_cast<int32_t>(layer) == switch_layer;
    CHECK(static_cast<double>(state.theta[layer]) == doctest::Approx(noted ? reference_theta(problem) : 0.0));
    if (noted) CHECK(reference_theta(problem) == doctest::Approx(thetas[layer]));
  }
  return state;
}

TEST_CASE("every reading of NCAR switches at its layer, for good, and reports theta") {
  test::for_each_backend([&](Queue& queue) {
    constexpr int32_t kNever = NcarState::kNotYet;
    const std::vector<double> falling = {0.65, 0.3, 0.05, 0.9, 0.2};
    // Drops: 0.35, 0.35, 0.25, -0.85, 0.7
    run_layers(falling, NcarSwitch::kSmallDrop, 0.3f, 2, queue);
    run_layers(falling, NcarSwitch::kSmallDrop, 0.4f, 0, queue);
    run_layers(falling, NcarSwitch::kSmallDrop, -1.0f, kNever, queue);
    run_layers(falling, NcarSwitch::kLargeDrop, 0.3f, 0, queue);
    run_layers(falling, NcarSwitch::kLargeDrop, 0.5f, 4, queue);
    run_layers(falling, NcarSwitch::kLargeDrop, 0.8f, kNever, queue);
    run_layers(falling, NcarSwitch::kLow, 0.1f, 2, queue);
    run_layers(falling, NcarSwitch::kLow, 0.4f, 1, queue);
    run_layers(falling, NcarSwitch::kLow, 0.01f, kNever, queue);
    run_layers(falling, NcarSwitch::kAtLayer, 3.0f, 3, queue);
    run_layers(falling, NcarSwitch::kAtLayer, 0.0f, 0, queue);
    const NcarState state = run_layers(falling, NcarSwitch::kAtLayer, 9.0f, kNever, queue);
    CHECK(std::all_of(state.theta + falling.size(), state.theta + NcarState::kMaxLayers,
                      [](float theta) { return theta == 0; }));
  });
}

TEST_CASE("even attention has theta 1, whatever the shape, and without visual rows theta is 0") {
  test::for_each_backend([&](Queue& queue) {
    for (uint64_t seed = 0; seed < 12; ++seed) {
      Random random(seed);
      Problem problem = random_problem(random, 3000);
      problem.options.window = random.integer(1, 40);
      const auto queries = static_cast<float>(std::min(problem.options.window, problem.rows));
      for (std::vector<float>& scores : problem.scores)
        scores.assign(scores.size(), queries / static_cast<float>(problem.rows));
      problem.options.stage = SelectStage::kUntilSwitch;
      NcarState state;
      select_rows(problem, queue, &state);
      const double expected = problem.visual_count() > 0 ? 1.0 : 0.0;
      CHECK(static_cast<double>(state.theta[0]) == doctest::Approx(expected).epsilon(1e-5));
      CHECK(state.switch_layer == (problem.visual_count() > 0 ? 0 : NcarState::kNotYet));  // the drop: 0, or 1
    }
  });
}

TEST_CASE("select_slots without a mask takes all rows as text") {
  test::for_each_backend([&](Queue& queue) {
    Guarded<float> scores(1, 4);
    for (int i = 0; i < 4; ++i) scores.at(0, i) = static_cast<float>(i);
    Guarded<int32_t> text(1, 4), counts(1, 1);
    Guarded<std::byte> scratch(1, select_slots_scratch_bytes(4, 1, queue.traits()));
    SelectSlotsArgs args;
    args.scores = scores.view();
    args.rows.count = 4;
    args.budget = 2;
    args.kept.text = text.view();
    args.kept.text_counts = counts.data();
    args.scratch = scratch.view();
    select_slots(args, queue);
    REQUIRE(queue.finish().ok());
    CHECK(counts.at(0, 0) == 2);
    CHECK(first_of(text, 0, 2) == Rows{2, 3});
  });
}

TEST_CASE("select_slots refuses short scratch and layers that its state has no room for") {
  for (const bool short_scratch : {true, false}) {
    test::TestQueue queue(1);
    Guarded<std::byte> scratch(1, 4096);
    SelectSlotsArgs args;
    args.rows.count = short_scratch ? 100000 : 10;
    args.stage = SelectStage::kUntilSwitch;
    args.ncar.layer = short_scratch ? 0 : NcarState::kMaxLayers;
    args.scratch = scratch.view();
    select_slots(args, *queue);
    CHECK(queue->status().code() == (short_scratch ? Code::kInternal : Code::kUnsupported));
  }
}

}  // namespace
}  // namespace ocellus
