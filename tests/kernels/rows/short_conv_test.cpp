#include "kernels/rows/short_conv.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/guard.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

constexpr int64_t kRows = 23;  // of a conversation

struct Shape {
  int64_t cols = 0;
  int64_t gap = 0;  // between rows
  int32_t taps = 0;
};

/// The inputs of rows side by side, as one product writes them; the output takes the place of its gate.
class Rows {
 public:
  Rows(Queue& queue, int64_t rows, const Shape& shape)
      : shape_(shape), joined_(queue, rows, 3 * shape.cols, 3 * shape.cols + shape.gap) {}

  void fill(int64_t rows, uint64_t seed) {
    test::Random random(seed);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < 3 * shape_.cols; ++i) joined_.set(row, i, random.normal());
  }
  void copy(int64_t row, const Rows& from, int64_t other) {
    for (int64_t i = 0; i < 3 * shape_.cols; ++i) joined_.set(row, i, from.joined_.get(other, i));
  }
  ShortConv conv(int64_t first, int64_t count, const float* weights) {
    const ActivationView rows = joined_.view().slice_rows(first, count);
    const ActivationView last = rows.slice_cols(2 * shape_.cols, shape_.cols);
    return {.gate = rows.slice_cols(0, shape_.cols),
            .x = rows.slice_cols(shape_.cols, shape_.cols),
            .output_gate = last,
            .weights = weights,
            .taps = shape_.taps,
            .output = last};
  }
  double y(int64_t row, int64_t col) const {
    if (row < 0) return 0;
    return static_cast<double>(joined_.get(row, col)) * static_cast<double>(joined_.get(row, shape_.cols + col));
  }
  float last(int64_t row, int64_t col) const { return joined_.get(row, 2 * shape_.cols + col); }
  bool intact() const { return joined_.intact(); }

  /// Checks row `row` of `done` against row `number` of these inputs.
  void check(const Rows& done, int64_t row, int64_t number, const float* weights) const {
    check(done, row, number, weights, [&](int64_t back, int64_t col) { return y(number - back, col); });
  }
  /// `sees(back, col)`: row y that many rows before it.
  template <class Sees>
  void check(const Rows& done, int64_t row, int64_t number, const float* weights, const Sees& sees) const {
    for (int64_t i = 0; i < shape_.cols; ++i) {
      double sum = 0, size = 0;
      for (int32_t k = 0; k < shape_.taps; ++k) {
        const double part = static_cast<double>(weights[i * shape_.taps + k]) * sees(shape_.taps - 1 - k, i);
        sum += part;
        size += std::abs(part);
      }
      const double gate = static_cast<double>(last(number, i)), expected = gate * sum;
      const double error = 1e-6 * std::abs(gate) * size + done.joined_.rounding(expected);
      REQUIRE(std::abs(static_cast<double>(done.last(row, i)) - expected) <= error);
    }
  }

 private:
  Shape shape_;
  test::Activations joined_;
};

/// One conversation in calls of `most` rows at most. What a call leaves for the next one lies in either of two places,
/// or where its rows are stored one by one.
void check_sequence(const Shape& shape, int64_t most, bool one_by_one, Queue& queue) {
  CAPTURE(most);
  CAPTURE(one_by_one);
  test::Random random(static_cast<uint64_t>(shape.cols * 31 + most));
  const test::Vector<float> weights = test::visible(random.normals(shape.cols * shape.taps));
  Rows inputs(queue, kRows, shape);
  inputs.fill(kRows, 5);
  Rows rows = inputs;
  const int64_t kept = shape.taps - 1, offset = one_by_one ? 16 : 0;
  test::Guarded<float> ends[] = {{kept, shape.cols, shape.cols + 8}, {kept, shape.cols, shape.cols + 8}};
  test::Guarded<float> stored(kept + kRows, shape.cols);
  test::Vector<const float*> before[2];
  test::Vector<float*> places;
  for (int64_t i = 0; i < kept; ++i)
    for (int end = 0; end < 2; ++end) before[end].push_back(ends[end].view().row(i));
  for (int64_t i = 0; i < kept + kRows; ++i)
    places.push_back(i < kept || !one_by_one ? nullptr : stored.view().row(i) - offset);
  const test::Vector<const float*> all(places.begin(), places.end());
  int call = 0;
  for (int64_t first = 0; first < kRows; ++call) {
    const int64_t count = std::min(kRows - first, random.integer(1, most));
    const bool listed = one_by_one || first == 0;
    short_conv({.conv = rows.conv(first, count, weights.data()),
                .before = listed ? all.data() + first : before[call % 2].data(),
                .before_offset = offset,
                .places = places.data() + kept + first,
                .places_offset = offset,
                .end = one_by_one ? DeviceView<float>() : ends[(call + 1) % 2].view()},
               queue);
    first += count;
  }
  REQUIRE(queue.finish().ok());
  CHECK(rows.intact());
  CHECK(stored.intact());
  CHECK(ends[0].intact());
  CHECK(ends[1].intact());
  for (int64_t row = 0; row < kRows; ++row) inputs.check(rows, row, row, weights.data());
  for (int64_t row = one_by_one ? 0 : kRows - kept; row < kRows; ++row)
    for (int64_t i = 0; i < shape.cols; ++i) {
      const float y = one_by_one ? stored.at(kept + row, i) : ends[call % 2].at(row - (kRows - kept), i);
      REQUIRE(static_cast<double>(y) == doctest::Approx(inputs.y(row, i)).epsilon(1e-6));
    }
}

/// One conversation in calls of `most` rows at most, some of whose rows follow states in place of the rows before them.
/// What the rows after some others see is stored.
void check_states(const Shape& shape, int64_t most, Queue& queue) {
  CAPTURE(most);
  test::Random random(static_cast<uint64_t>(shape.cols * 17 + most));
  const test::Vector<float> weights = test::visible(random.normals(shape.cols * shape.taps));
  Rows inputs(queue, kRows, shape);
  inputs.fill(kRows, 9);
  Rows rows = inputs;
  const int64_t kept = shape.taps - 1, offset = 24;
  test::Guarded<float> given(kRows * kept, shape.cols), stored(kRows * kept, shape.cols);
  test::Guarded<float> ends[] = {{kept, shape.cols}, {kept, shape.cols}};
  const auto state = [&](test::Guarded<float>& of, int64_t row) { return of.view().row(row * kept); };
  test::Vector<const float*> before, list[2];
  test::Vector<float*> after;
  const test::Vector<float*> places(kRows, nullptr);
  for (int64_t row = 0; row < kRows; ++row) {
    const test::Vector<float> values = test::visible(random.normals(kept * shape.cols));
    std::copy(values.begin(), values.end(), state(given, row));
    before.push_back(random.integer(0, 3) == 0 ? state(given, row) - offset : nullptr);
    after.push_back(random.integer(0, 1) == 0 ? state(stored, row) - offset : nullptr);
  }
  for (int end = 0; end < 2; ++end)
    for (int64_t i = 0; i < kept; ++i) list[end].push_back(ends[end].view().row(i));
  const test::Vector<const float*> nothing(static_cast<size_t>(kept), nullptr);
  int call = 0;
  for (int64_t first = 0; first < kRows; ++call) {
    const int64_t count = std::min(kRows - first, random.integer(1, most));
    short_conv({.conv = rows.conv(first, count, weights.data()),
                .before = first == 0 ? nothing.data() : list[call % 2].data(),
                .places = places.data() + first,
                .states = {.before = before.data() + first, .after = after.data() + first, .offset = offset},
                .end = ends[(call + 1) % 2].view()},
               queue);
    first += count;
  }
  REQUIRE(queue.finish().ok());
  CHECK(rows.intact());
  CHECK(stored.intact());
  const auto sees = [&](int64_t row, int64_t back, int64_t col) {
    for (int64_t i = 0; i < back; ++i)
      if (row - i >= 0 && before[static_cast<size_t>(row - i)] != nullptr)
        return static_cast<double>(given.at((row - i) * kept + kept - (back - i), col));
    return inputs.y(row - back, col);
  };
  for (int64_t row = 0; row < kRows; ++row) {
    inputs.check(rows, row, row, weights.data(), [&](int64_t back, int64_t col) { return sees(row, back, col); });
    for (int64_t i = 0; i < kept && after[static_cast<size_t>(row)] != nullptr; ++i)
      for (int64_t col = 0; col < shape.cols; ++col)
        REQUIRE(static_cast<double>(stored.at(row * kept + i, col)) ==
                doctest::Approx(sees(row, kept - 1 - i, col)).epsilon(1e-6));
  }
}

constexpr int64_t kTiles = 2;  // of a ring
constexpr int32_t kLayers = 3, kLayer = 1;

/// Conversations that are read in steps, with a ring each.
class Sessions {
 public:
  static constexpr int64_t kCount = 3, kGuesses = 7, kMostRows = kCount * (kGuesses + 2);

  Sessions(const Shape& shape, Queue& queue)
      : shape_(shape), queue_(queue), random_(static_cast<uint64_t>(shape.cols)) {
    weights_ = test::visible(random_.normals(shape.cols * shape.taps));
    for (uint64_t session = 0; session < kCount; ++session) {
      inputs_.emplace_back(queue, kRows, shape).fill(kRows, session);
      rings_.emplace_back(kTiles * kLayers * kTileSlots, shape.cols);
    }
  }

  bool done() const { return *std::min_element(read_, read_ + kCount) == kRows; }
  /// Some rows of each conversation, between them rows that are not active.
  void step() {
    steps_.clear(), tiles_.clear(), starts_.clear(), meant_.clear();
    Rows rows(queue_, kMostRows, shape_);
    rows.fill(kMostRows, 77);
    const Rows before = rows;
    for (size_t session = 0; session < kCount; ++session) {
      const int64_t count = std::min(kRows - read_[session], random_.integer(0, kGuesses + 1));
      for (int64_t i = 0; i < count; ++i) {
        rows.copy(static_cast<int64_t>(steps_.size()), inputs_[session], read_[session]);
        add_row(session, read_[session]++, true);
      }
      if (random_.integer(0, 1) == 0) add_row(session, read_[session], false);
    }
    const auto count = static_cast<int64_t>(steps_.size());
    short_conv_step({.conv = rows.conv(0, count, weights_.data()),
                     .tiles = {.steps = steps_.data(),
                               .runs = tiles_.data(),
                               .per_row = kTiles,
                               .most = kTiles,
                               .window = shape_.taps,
                               .ring_starts = starts_.data()},
                     .layer = kLayer},
                    queue_);
    REQUIRE(queue_.finish().ok());
    CHECK(rows.intact());
    for (int64_t row = 0; row < count; ++row) check_row(rows, before, row);
  }
  void check_rings() const {
    for (const test::Guarded<float>& ring : rings_) {
      CHECK(ring.intact());
      CHECK(ring.untouched_count() == (kTiles * kLayers * kTileSlots - kRows) * shape_.cols);
    }
  }

 private:
  void add_row(size_t session, int64_t number, bool active) {
    const auto start = static_cast<int32_t>(100 * session);
    StepRow& step = steps_.emplace_back();
    step.active = active ? 1 : 0;
    step.position = start + static_cast<int32_t>(number);
    for (int64_t tile = 0; tile < kTiles; ++tile) {
      KvRun& run = tiles_.emplace_back();
      run.data = reinterpret_cast<std::byte*>(rings_[session].view().row(tile * kLayers * kTileSlots));
      run.layer_stride = int64_t{4} * kTileSlots * shape_.cols;
    }
    starts_.push_back(start);
    meant_.push_back({session, number});
  }
  void check_row(const Rows& rows, const Rows& before, int64_t row) const {
    const auto [session, number] = meant_[static_cast<size_t>(row)];
    if (steps_[static_cast<size_t>(row)].active != 0)
      inputs_[session].check(rows, row, number, weights_.data());
    else
      for (int64_t i = 0; i < shape_.cols; ++i) REQUIRE(rows.last(row, i) == before.last(row, i));
  }

  Shape shape_;
  Queue& queue_;
  test::Random random_;
  test::Vector<float> weights_;
  std::vector<Rows> inputs_;
  std::vector<test::Guarded<float>> rings_;
  int64_t read_[kCount] = {};
  test::Vector<StepRow> steps_;
  test::Vector<KvRun> tiles_;
  test::Vector<int32_t> starts_;
  std::vector<std::pair<size_t, int64_t>> meant_;  // session and number of each row
};

TEST_CASE("a convolution over the last rows goes on from call to call, and from step to step in rings") {
  test::for_each_backend([](Queue& queue) {
    for (const int64_t cols : {1, 7, 64, 300, 1024})
      for (const int64_t gap : {0, 3, 8})
        for (const int32_t taps : {3, 4}) {
          CAPTURE(cols);
          CAPTURE(gap);
          CAPTURE(taps);
          const Shape shape = {cols, gap, taps};
          for (const int64_t most : {1, 2, 5, 64})
            for (const bool one_by_one : {false, true}) check_sequence(shape, most, one_by_one, queue);
          for (const int64_t most : {1, 2, 5, 64}) check_states(shape, most, queue);
          Sessions sessions(shape, queue);
          while (!sessions.done()) sessions.step();
          sessions.check_rings();
        }
  });
}

}  // namespace
}  // namespace ocellus
