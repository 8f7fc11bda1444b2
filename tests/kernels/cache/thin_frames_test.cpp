#include "kernels/cache/thin_frames.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Random;

struct Shape {
  int32_t heads, dim, count, slots, thinned, recent;
  FramePool pool;
};

/// Frames of random numbers in blocks with room for three more slots. Unused slots, other layers and the notes of whole
/// frames hold bytes that no slot has.
class Frames {
 public:
  static constexpr int32_t kLayers = 2, kLayer = 1;

  Frames(const Shape& shape, Random& random) : shape_(shape), capacity_(shape.slots + 3) {
    const int64_t matrix = int64_t{2} * capacity_ * shape.dim;
    const int64_t notes = 2 * kLayers * shape.heads * matrix;
    const int64_t bytes = notes + int64_t{kLayers} * shape.heads * capacity_ * int64_t{sizeof(FrameNote)};
    block_bytes_ = (bytes + 15) / 16 * 16;
    memory_.assign(static_cast<size_t>(block_bytes_ * shape.count), 0x7E);
    for (int32_t i = 0; i < shape.count; ++i) {
      KvRun run;
      run.data = reinterpret_cast<std::byte*>(memory_.data() + i * block_bytes_);
      run.layer_stride = 2 * shape.heads * matrix;
      run.head_stride = 2 * matrix;
      run.value_offset = matrix;
      run.slots = shape.slots;
      run.capacity = capacity_;
      list_.push_back(run);
    }
    runs = {.runs = list_.data(),
            .count = shape.count,
            .slots = shape.slots,
            .thinned = shape.thinned,
            .notes = notes,
            .layer = kLayer,
            .heads = shape.heads,
            .head_dim = shape.dim};
    for (int64_t head = 0; head < shape.heads; ++head)
      for (int64_t at = 0; at < runs.total(); ++at) {
        for (int32_t e = 0; e < shape.dim; ++e) runs.key(head, at)[e] = float_to_half(random.normal());
        for (int32_t e = 0; e < shape.dim; ++e) runs.value(head, at)[e] = float_to_half(random.normal());
        if (at < int64_t{shape.thinned} * shape.slots)
          runs.note(head, at) = {static_cast<int32_t>(random.integer(0, shape.slots - 1)), random.uniform(1, 9)};
      }
  }
  const test::Vector<uint8_t>& memory() const { return memory_; }
  std::vector<double> row(const Half* halves) const {
    std::vector<double> values;
    for (int32_t e = 0; e < shape_.dim; ++e) values.push_back(static_cast<double>(half_to_float(halves[e])));
    return values;
  }

  FrameRuns runs;

 private:
  Shape shape_;
  int32_t capacity_;
  int64_t block_bytes_ = 0;
  test::Vector<uint8_t> memory_;
  test::Vector<KvRun> list_;
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double novelty_of(const Frames& f, const Shape& s, int64_t head, int64_t at) {
  if (at >= int64_t{s.count - s.recent} * s.slots) return 0;
  const int64_t place = at < int64_t{s.thinned} * s.slots ? f.runs.note(head, at).place : at % s.slots;
  const std::vector<double> key = f.row(f.runs.key(head, at));
  double sum = 0;
  for (int64_t frame = s.count - s.recent; frame < s.count; ++frame) {
    const std::vector<double> other = f.row(f.runs.key(head, frame * s.slots + place));
    sum += dot(key, other) / std::sqrt(dot(key, key) * dot(other, other));
  }
  return -sum / s.recent;
}

/// Adds up the neighbours by their distance along every axis.
double pooled_norm_of(const Frames& f, const Shape& s, int64_t head, int64_t at) {
  const int64_t first = int64_t{s.thinned} * s.slots, half = s.pool.width / 2;
  double sum = 0;
  for (int64_t i = first; i < f.runs.total(); ++i) {
    const auto apart = [&](int64_t a, int64_t b) { return std::abs(a - b); };
    const int64_t times = apart(i / s.slots, at / s.slots),
                  lines = apart(i % s.slots / s.pool.cols, at % s.slots / s.pool.cols);
    const int64_t cols = apart(i % s.slots % s.pool.cols, at % s.slots % s.pool.cols);
    const bool near = s.pool.axes == 0   ? i == at
                      : s.pool.axes == 1 ? apart(i, at) <= half
                                         : lines <= half && cols <= half && times <= (s.pool.axes == 3 ? half : 0);
    const std::vector<double> value = f.row(f.runs.value(head, i));
    if (near) sum += std::sqrt(dot(value, value));
  }
  return sum / std::pow(s.pool.width, s.pool.axes);
}

void check_scores(const Shape& s, Queue& queue) {
  Random random(static_cast<uint64_t>(s.dim + s.slots + s.count));
  Frames f(s, random);
  const int64_t total = f.runs.total();
  test::Guarded<float> novelty(s.heads, total, total + 2), values(s.heads, total, total + 1), norms(s.heads, total);
  score_frames({.frames = f.runs,
                .recent = s.recent,
                .pool = s.pool,
                .novelty = novelty.view(),
                .values = values.view(),
                .norms = norms.view()},
               queue);
  REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
  CHECK((novelty.intact() && values.intact() && norms.intact()));
  for (int64_t head = 0; head < s.heads; ++head)
    for (int64_t at = 0; at < total; ++at) {
      CHECK(static_cast<double>(novelty.at(head, at)) == doctest::Approx(novelty_of(f, s, head, at)).epsilon(1e-4));
      const FrameNote& note = f.runs.note(head, at);
      REQUIRE(values.at(head, at) == note.value);
      if (at < int64_t{s.thinned} * s.slots) continue;
      REQUIRE(note.place == at % s.slots);
      CHECK(static_cast<double>(note.value) == doctest::Approx(pooled_norm_of(f, s, head, at)).epsilon(1e-4));
    }
}

/// Every kept slot has moved, and nothing else was written.
void check_moves(const Shape& s, int64_t keep, Queue& queue) {
  Random random(static_cast<uint64_t>(s.dim + s.slots + keep));
  Frames f(s, random), expected = f;
  test::Vector<KvRun> there(f.runs.runs, f.runs.runs + s.count);
  for (KvRun& run : there)
    run.data = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(expected.memory().data())) +
               (run.data - f.runs.runs[0].data);
  expected.runs.runs = there.data();
  const int64_t total = f.runs.total();
  test::Guarded<int32_t> kept(s.heads, keep, keep + 3);
  for (int64_t head = 0; head < s.heads; ++head) {
    int64_t to = 0;
    for (int64_t from = 0; from < total && to < keep; ++from) {
      if (random.integer(0, total - from - 1) >= keep - to) continue;
      for (int32_t e = 0; e < s.dim; ++e) {
        expected.runs.key(head, to)[e] = f.runs.key(head, from)[e];
        expected.runs.value(head, to)[e] = f.runs.value(head, from)[e];
      }
      expected.runs.note(head, to) = f.runs.note(head, from);
      kept.at(head, to++) = static_cast<int32_t>(from);
    }
    REQUIRE(to == keep);
  }
  compact_frames({.frames = f.runs, .kept = kept.view(), .kept_count = keep}, queue);
  REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
  CHECK(f.memory() == expected.memory());
}

constexpr Shape kShapes[] = {{1, 8, 2, 1, 0, 1, {}},
                             {2, 24, 3, 12, 1, 1, {.axes = 2, .width = 3, .cols = 4}},
                             {3, 72, 7, 15, 2, 2, {.axes = 3, .width = 3, .cols = 5}},
                             {2, 64, 5, 49, 0, 3, {.axes = 3, .width = 5, .cols = 7}},
                             {1, 128, 4, 33, 3, 1, {.axes = 1, .width = 3}},
                             {4, 256, 3, 66, 1, 2, {.axes = 1, .width = 7}}};

}  // namespace

TEST_CASE("score_frames compares keys with those at their place in recent frames, and pools the norms of values") {
  const auto check = [](Queue& queue) {
    for (const Shape& shape : kShapes) {
      CAPTURE(shape.slots);
      check_scores(shape, queue);
    }
  };
  test::for_each_backend_and_target(check);
}

TEST_CASE("compact_frames moves the kept slots of every head with their notes, whatever they overwrite") {
  test::for_each_backend([](Queue& queue) {
    for (const Shape& shape : kShapes)
      for (const int64_t keep :
           {int64_t{1}, int64_t{shape.slots} * (shape.count - 1), int64_t{shape.slots} * shape.count}) {
        CAPTURE(shape.slots);
        CAPTURE(keep);
        check_moves(shape, keep, queue);
      }
  });
}

}  // namespace ocellus
