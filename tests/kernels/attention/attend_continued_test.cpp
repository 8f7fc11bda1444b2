// Rows of a decode step that continue each other, as guessed tokens do.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "kernels/attention/attend_step.h"
#include "kernels/attention/step/plan.h"
#include "tests/kernels/attention/attend_step_shape.h"
#include "tests/support/device.h"
#include "tests/support/kv_cache.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using step_test::Scratch;
using test::Activations;
using test::Guarded;
using test::Random;

/// Rows that continue each other over a cache of f16 pages, in one list of tiles: row b's token is the b-th new one.
class ContinuedRows {
 public:
  ContinuedRows(Queue& queue, int64_t rows, int64_t past, uint64_t seed)
      : queue_(queue),
        rows_(rows),
        tiles_per_row_(divide_up(past + rows, int64_t{kTileSlots}) + 1),
        query_(queue, rows, kHeads * kDim),
        key_(queue, rows, kKvHeads * kDim),
        value_(queue, rows, kKvHeads * kDim),
        out_(queue, rows, kHeads * kDim),
        angles_(rows, kDim, kDim),
        steps_(static_cast<size_t>(rows)) {
    Random random(seed);
    const int64_t head = 2 * kTileSlots * kDim;
    cells_.assign(static_cast<size_t>(tiles_per_row_ * kKvHeads * head), test::kHalfNan);
    for (int64_t i = 0; i < tiles_per_row_; ++i) {
      KvRun tile{
          reinterpret_cast<std::byte*>(cells_.data() + i * kKvHeads * head), 0, head * 2, head, kTileSlots, kTileSlots};
      for (int32_t g = 0; g < kKvHeads; ++g)
        for (int64_t k = 0; k < std::min<int64_t>(past - i * kTileSlots, kTileSlots) * kDim; ++k) {
          run_keys(tile, 0, g)[k] = float_to_half(random.normal());
          run_values(tile, 0, g)[k] = float_to_half(random.normal());
        }
      one_list_.push_back(tile);
    }
    for (int64_t b = 0; b < rows; ++b) {
      tiles_.insert(tiles_.end(), one_list_.begin(), one_list_.end());
      StepRow& step = steps_[static_cast<size_t>(b)];
      step.active = 1;
      step.new_tile = static_cast<int32_t>((past + b) / kTileSlots);
      step.new_slot = static_cast<int32_t>((past + b) % kTileSlots);
      for (int64_t i = 0; i < kHeads * kDim; ++i) query_.set(b, i, random.normal());
      for (int64_t i = 0; i < kKvHeads * kDim; ++i) {
        key_.set(b, i, random.normal());
        value_.set(b, i, random.normal());
      }
      for (int32_t i = 0; i < kDim; i += 2) {
        const float angle = random.uniform(-3, 3);
        angles_.at(b, i) = std::cos(angle);
        angles_.at(b, i + 1) = std::sin(angle);
      }
    }
    at_first_ = cells_;
    copy(query_, given_[0], kHeads * kDim);
    copy(key_, given_[1], kKvHeads * kDim);
  }

  /// Outputs and the cache's bits after rows [0, rows) were attended to, `together` at a time.
  std::vector<float> run(int64_t together) {
    cells_ = at_first_;
    paste(given_[0], query_, kHeads * kDim);
    paste(given_[1], key_, kKvHeads * kDim);
    for (int64_t first = 0; first < rows_; first += together) attend(first, std::min(together, rows_ - first));
    REQUIRE_MESSAGE(queue_.finish().ok(), last_failure().sentence);
    CHECK(out_.intact());
    std::vector<float> all;
    copy(out_, all, kHeads * kDim);
    for (const Half& cell : cells_) all.push_back(static_cast<float>(cell.bits));
    return all;
  }

 private:
  static constexpr int32_t kHeads = 6, kKvHeads = 2, kDim = 64;

  void attend(int64_t first, int64_t count) {
    const AttendStepPlan plan =
        plan_attend_step(count, tiles_per_row_, kHeads, kKvHeads, kDim, 1, KvFormat::kF16, true);
    Scratch scratch(attend_step_scratch_bytes(count, tiles_per_row_ * kTileSlots, tiles_per_row_, kHeads, kKvHeads,
                                              kDim, KvFormat::kF16, queue_.traits()),
                    plan.groups(count, kKvHeads), queue_);
    attend_step({.query = query_.view().slice_rows(first, count),
                 .key = key_.view().slice_rows(first, count),
                 .value = value_.view().slice_rows(first, count),
                 .heads = {kHeads, kKvHeads, kDim},
                 .rope = {.pairing = RopePairing::kHalves, .rotated = kDim},
                 .angles = angles_.view().slice_rows(first, count),
                 .tiles = {.steps = steps_.data() + first,
                           .runs = tiles_.data(),
                           .per_row = tiles_per_row_,
                           .most = tiles_per_row_,
                           .together = true},
                 .output = out_.view().slice_rows(first, count),
                 .scratch = scratch.view()},
                queue_);
    REQUIRE_MESSAGE(queue_.finish().ok(), last_failure().sentence);
    CHECK(scratch.intact());
  }
  void copy(Activations& from, std::vector<float>& to, int64_t cols) const {
    for (int64_t b = 0; b < rows_; ++b)
      for (int64_t i = 0; i < cols; ++i) to.push_back(from.get(b, i));
  }
  void paste(const std::vector<float>& from, Activations& to, int64_t cols) const {
    for (int64_t b = 0; b < rows_; ++b)
      for (int64_t i = 0; i < cols; ++i) to.set(b, i, from[static_cast<size_t>(b * cols + i)]);
  }

  Queue& queue_;
  int64_t rows_, tiles_per_row_;
  Activations query_, key_, value_, out_;
  Guarded<float> angles_;
  test::Vector<StepRow> steps_;
  test::Vector<Half> cells_, at_first_;
  std::vector<KvRun> one_list_;
  test::Vector<KvRun> tiles_;
  std::vector<float> given_[2];
};

TEST_CASE("rows that continue each other see what each stores, with the bits that they have one by one") {
  test::for_each_backend([&](Queue& queue) {
    const test::BatchInvariant invariant(queue);
    uint64_t seed = 0;
    for (const int64_t past : {0, 13, 250, 263, 1200, 10000})
      for (const int64_t rows : {2, 7, 8}) {
        if (test::skip(++seed)) continue;
        CAPTURE(past);
        CAPTURE(rows);
        ContinuedRows instance(queue, rows, past, seed);
        const std::vector<float> one_by_one = instance.run(1);
        for (const float value : one_by_one) REQUIRE(value == value);
        CHECK(instance.run(rows) == one_by_one);
        CHECK(instance.run(3) == one_by_one);
      }
  });
}

}  // namespace
}  // namespace ocellus
