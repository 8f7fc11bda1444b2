// One call of attend_rows on random inputs, and what it must give.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/attention/attend_rows.h"
#include "tests/kernels/attention/attend_rows_shape.h"
#include "tests/support/device.h"
#include "tests/support/kv_cache.h"
#include "tests/support/pairs.h"
#include "tests/support/random.h"

namespace ocellus::test {

inline constexpr double kPairError = 0x1p-6;

/// Inputs of one call. Chunk rows behind the last, gaps between query rows and dead slots are NaN.
class RowsCase {
 public:
  RowsCase(const RowsShape& shape, uint64_t seed, Queue& queue)
      : shape_(shape),
        queue_(queue),
        random_(seed),
        query_(queue, shape.sequences * shape.rows, width(), width() + (queue.on_cuda() ? 8 : 5)) {
    if (shape.listed != Listed::kNot) {
      const std::vector<RowSpan> drawn = draw_spans(shape, random_);
      spans_.assign(drawn.begin(), drawn.end());
    }
    make_runs();
    make_rows();
    for (int64_t row = 0; shape.biased && row < shape.row_count(); ++row)
      bias_.push_back(std::log(static_cast<float>(random_.integer(1, 4))));
    while (std::ssize(bias_) % kRowBiasUnit != 0) bias_.push_back(7);  // not used
    for (int64_t t = 0; t < shape_.sequences * shape_.rows; ++t)
      for (int64_t i = 0; i < width(); ++i) query_.set(t, i, random_.normal());
  }

  /// Runs the op and checks everything but the numbers.
  Activations attend(Queue& queue) {
    Activations out(queue, shape_.sequences * shape_.rows, width(), width() + 16);
    const int64_t bytes = attend_rows_scratch_bytes(shape_.dim, queue.traits());
    Guarded<std::byte> scratch(1, bytes);
    std::memset(scratch.data(), 0xFF, static_cast<size_t>(bytes));  // NaN: what was there before must not matter
    attend_rows({.query = query_.view(),
                 .query_heads = shape_.heads,
                 .rows = rows_,
                 .first_row = shape_.first_row,
                 .row_count = shape_.row_count(),
                 .bounds = bounds(),
                 .row_bias = shape_.biased ? bias_.data() : nullptr,
                 .past = {.runs = runs_.data(),
                          .count = static_cast<int32_t>(runs_.size()),
                          .layer = {.index = TestRun::kLayer}},
                 .sequences = shape_.sequences,
                 .output = out.view(),
                 .scratch = scratch.view()},
                queue);
    REQUIRE(queue.finish().ok());
    CHECK(out.intact());
    CHECK(scratch.intact());
    return out;
  }

  /// Lists what its rows see without a list.
  void list_bounds() {
    for (int64_t row = 0; row < shape_.rows; ++row) spans_.push_back(span_of(row));
    shape_.listed = Listed::kAnything;
  }

  void check_numbers(const Activations& out) {
    for (int64_t t = 0; t < shape_.sequences * shape_.rows; ++t) {
      for (int32_t head = 0; head < shape_.heads; ++head) {
        if ((t + head) % shape_.check_every == 0) check_numbers(out, t, head);
      }
    }
  }

 private:
  int64_t width() const { return int64_t{shape_.heads} * shape_.dim; }

  RowBounds bounds() const {
    if (shape_.listed != Listed::kNot) return RowBounds::listed(spans_.data());
    return shape_.causal ? RowBounds::causal() : RowBounds::all();
  }

  void make_runs() {
    for (const auto& [slots, capacity] : shape_.runs) {
      stores_.emplace_back(random_, shape_.kv_heads, shape_.dim, slots, capacity);
      KvRun run = stores_.back().run();
      if (shape_.listed != Listed::kNot)
        run.visible_from = static_cast<uint16_t>(random_.integer(0, 1) * random_.integer(0, shape_.row_count()));
      if (!queue_.on_cuda() || slots == 0) {
        runs_.push_back(run);
        continue;
      }
      // Tiles: full ones with a rest at the end, or of any sizes.
      for (int32_t first = 0; first < slots;) {
        const auto most = static_cast<int32_t>(stores_.size() % 2 == 0 ? random_.integer(1, kTileSlots) : kTileSlots);
        const int32_t count = std::min(slots - first, most);
        runs_.push_back(slice_run(run, first, count, shape_.dim));
        first += count;
      }
    }
  }

  void make_rows() {
    const int64_t dim = shape_.dim, row_width = shape_.kv_heads * dim;
    const int64_t capacity = shape_.row_count() + (shape_.side_by_side ? 0 : 3);
    const int64_t spread = shape_.side_by_side ? 3 : 2;
    store_.assign(static_cast<size_t>(spread * shape_.sequences * capacity * row_width), kHalfNan);
    if (shape_.side_by_side) {
      rows_ = {store_.data() + row_width,
               store_.data() + 2 * row_width,
               shape_.kv_heads,
               shape_.dim,
               capacity,
               3 * row_width,
               dim,
               capacity * 3 * row_width};
    } else {
      Half* const values = store_.data() + shape_.sequences * capacity * row_width;
      rows_ = KvLayerRows::head_major(store_.data(), values, shape_.kv_heads, shape_.dim, capacity);
      rows_.sequence_stride = capacity * row_width;
    }
    for (int64_t sequence = 0; sequence < shape_.sequences; ++sequence) {
      for (int64_t head = 0; head < shape_.kv_heads; ++head) {
        for (int64_t row = 0; row < shape_.row_count(); ++row) {
          const int64_t at = sequence * rows_.sequence_stride + rows_.at(row, head);
          for (int64_t e = 0; e < dim; ++e) rows_.keys[at + e] = float_to_half(random_.normal());
          for (int64_t e = 0; e < dim; ++e) rows_.values[at + e] = float_to_half(random_.normal());
        }
      }
    }
  }

  void check_numbers(const Activations& out, int64_t t, int32_t head) {
    const int32_t kv_head = head / (shape_.heads / shape_.kv_heads);
    const int64_t sequence = t / shape_.rows, row = t % shape_.rows;
    std::vector<KvRun> runs(runs_.begin(), runs_.end());
    runs.erase(std::remove_if(runs.begin(), runs.end(),
                              [&](const KvRun& run) { return run.visible_from > shape_.first_row + row; }),
               runs.end());
    std::vector<Slot> visible =
        live_slots(runs.data(), static_cast<int64_t>(runs.size()), TestRun::kLayer, kv_head, shape_.dim);
    const RowSpan span = span_of(row);
    for (int64_t own = span.begin; own < span.end; ++own) {
      const int64_t at = sequence * rows_.sequence_stride + rows_.at(own, kv_head);
      visible.push_back({rows_.keys + at, rows_.values + at, bias_of(own)});
    }
    std::vector<float> query;
    for (int64_t e = 0; e < shape_.dim; ++e) query.push_back(query_.get(t, head * shape_.dim + e));
    const std::vector<Expected> expected = attend_with_sizes(query.data(), visible, shape_.dim);
    for (int64_t e = 0; e < shape_.dim; ++e) {
      const auto& [value, size] = expected[static_cast<size_t>(e)];
      // On CUDA every weight and then the result are rounded to f16, and weights below 2^-24 are lost. CPUs with pairs
      // round all factors to bf16; how far scores move depends on the signs of their terms.
      const double of_floats = attends_pairs(queue_) ? kPairError * size : 3e-6;
      const double tolerance = out.is_half() ? 0x1p-11 * (size + std::abs(value)) + 1e-4 : of_floats;
      CAPTURE(t);
      CAPTURE(head);
      CAPTURE(e);
      REQUIRE(std::abs(out.get(t, head * shape_.dim + e) - value) < tolerance);
    }
  }

  double bias_of(int64_t own) const { return shape_.biased ? static_cast<double>(bias_[static_cast<size_t>(own)]) : 0; }
  RowSpan span_of(int64_t row) const {
    if (shape_.listed != Listed::kNot) return spans_[static_cast<size_t>(row)];
    return {0, static_cast<int32_t>(shape_.causal ? shape_.first_row + row + 1 : shape_.row_count())};
  }

  RowsShape shape_;
  Queue& queue_;
  Random random_;
  Vector<RowSpan> spans_;
  Vector<float> bias_;
  std::vector<TestRun> stores_;
  Vector<KvRun> runs_;
  Vector<Half> store_;
  KvLayerRows rows_;
  Activations query_;
};

inline bool same_bits(const Activations& a, const Activations& b, const RowsShape& shape) {
  for (int64_t t = 0; t < shape.sequences * shape.rows; ++t) {
    for (int64_t i = 0; i < int64_t{shape.heads} * shape.dim; ++i) {
      const float x = a.get(t, i), y = b.get(t, i);
      if (std::memcmp(&x, &y, sizeof x) != 0) return false;
    }
  }
  return true;
}

}  // namespace ocellus::test
