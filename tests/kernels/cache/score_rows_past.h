// A past of runs of every kind for tests of score_rows, and its keys in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/base/kv_run.h"
#include "kernels/cache/score_rows.h"
#include "kernels/rows/rope.h"
#include "tests/support/kv_cache.h"
#include "tests/support/packed_codes.h"
#include "tests/support/random.h"

namespace ocellus::test {

struct RunShape {
  int32_t slots, capacity;
  bool calibrated = false;
  bool counted = false;  // heads have different numbers of live slots
  KvFormat format = KvFormat::kF16;
  int32_t shift = 0;
};

struct ScoreShape {
  int64_t rows, window;  // n, r
  int32_t heads, kv_heads, dim;
  std::vector<RunShape> runs = {};
  bool calibrates = false;
  RopePairing pairing = RopePairing::kHalves;
  Observers observers = Observers::kAll;
  bool adds_one = false;
  AttentionFact fact = AttentionFact::kNone;
  float decay = 1;
  bool some_read = false;  // only some queries are known: the others are zeros
  bool see_all = false;
};

/// A packed block with codes and scales of layer TestRun::kLayer; elsewhere they are not numbers.
class PackedRun {
 public:
  PackedRun(Random& random, int32_t heads, int32_t dim, const RunShape& shape) {
    const KvBlockLayout layout = KvBlockLayout::of(shape.format, dim, shape.capacity);
    const int64_t offset = offset_of(heads, dim);
    bytes_.assign(static_cast<size_t>(offset + heads * layout.padded_bytes), std::byte{0xFF});
    run_.data = bytes_.data();
    run_.slots = shape.slots;
    run_.capacity = shape.capacity;
    run_.packed = true;
    for (int32_t head = 0; head < heads; ++head) {
      std::byte* block = run_.data + offset + head * layout.padded_bytes;
      Half* scales = reinterpret_cast<Half*>(block);
      const float step = 4.0f / static_cast<float>((1 << key_bits(shape.format)) - 1);
      for (int32_t e = 0; e < dim; ++e) {
        scales[kKeyOffsets * dim + e] = float_to_half(random.uniform(-3.0f, -1.0f));
        scales[kKeySteps * dim + e] = float_to_half(step * random.uniform(0.5f, 1.0f));
      }
      for (int64_t i = 0; i < shape.slots * layout.key_row_bytes; ++i)
        block[layout.keys + i] = static_cast<std::byte>(random.bits());
    }
  }
  const KvRun& run() const { return run_; }
  /// Offset of the layer in all blocks.
  static int64_t offset_of(int32_t heads, int32_t dim) { return int64_t{48} * heads * dim; }

 private:
  Vector<std::byte> bytes_;
  KvRun run_;
};

/// Dead f16 slots are NaN.
class ScorePast {
 public:
  /// A slot as a query sees it.
  struct Slot {
    std::vector<double> key;
    bool calibrated;
  };

  ScorePast(int32_t kv_heads, int32_t dim, RopePairing pairing) : kv_heads_(kv_heads), dim_(dim) {
    rope_.pairing = pairing;
    rope_.rotated = dim / 4 * 2;
    rope_.position_scale = 0.5f;
  }

  void add(const RunShape& shape, bool tiled, Random& random) {
    KvRun run;
    if (is_packed(shape.format)) {
      layer_.format = shape.format;
      layer_.offset = PackedRun::offset_of(kv_heads_, dim_);
      packed_.emplace_back(random, kv_heads_, dim_, shape);
      run = packed_.back().run();
    } else {
      plain_.emplace_back(random, kv_heads_, dim_, shape.slots, shape.capacity);
      run = plain_.back().run();
    }
    run.calibrated = shape.calibrated;
    run.position_shift = shape.shift;
    if (shape.counted) count_slots(run, random);
    if (!tiled || shape.slots == 0) {
      runs_.push_back(run);
      return;
    }
    for (int32_t first = 0; first < shape.slots; first += kTileSlots)
      runs_.push_back(slice_run(run, first, std::min(kTileSlots, shape.slots - first), dim_));
  }

  const Vector<KvRun>& runs() const { return runs_; }
  const KvLayer& layer() const { return layer_; }
  const RopeParams& rope() const { return rope_; }

  std::vector<Slot> slots_of(int32_t kv_head) const {
    std::vector<Slot> past;
    for (const KvRun& run : runs_) {
      const int32_t live = live_slots(run, TestRun::kLayer, kv_heads_, kv_head);
      for (int64_t slot = 0; slot < live; ++slot) {
        past.push_back({key_of(run, kv_head, slot), run.calibrated});
        if (run.position_shift != 0) turn(past.back().key, run.position_shift);
      }
    }
    return past;
  }

 private:
  /// Gives every head a number of live slots; the others become NaN where they are f16.
  void count_slots(KvRun& run, Random& random) {
    counts_.emplace_back(static_cast<size_t>(TestRun::kLayers * kv_heads_), -1);
    run.counted_before = static_cast<int32_t>(random.integer(0, 9));
    run.counts = counts_.back().data();
    for (int32_t head = 0; head < kv_heads_; ++head) {
      const auto live = static_cast<int32_t>(random.integer(0, run.slots + 2));  // or more: of runs that follow
      counts_.back()[static_cast<size_t>(TestRun::kLayer * kv_heads_ + head)] = run.counted_before + live;
      if (run.packed) continue;
      Half* keys = run_keys(run, TestRun::kLayer, head);
      for (int64_t i = int64_t{live} * dim_; i < int64_t{run.slots} * dim_; ++i) keys[i] = kHalfNan;
    }
  }

  std::vector<double> key_of(const KvRun& run, int32_t kv_head, int64_t slot) const {
    std::vector<double> key;
    const auto number = [](Half half) { return static_cast<double>(half_to_float(half)); };
    for (int64_t e = 0; e < dim_; ++e) {
      if (!run.packed) {
        key.push_back(number(run_keys(run, TestRun::kLayer, kv_head)[slot * dim_ + e]));
        continue;
      }
      const PackedRows rows = packed_rows(run, layer_, kv_head, dim_);
      const auto* scales = reinterpret_cast<const Half*>(rows.block);
      const int32_t code = test::kv_code_at(rows.keys.row(slot), rows.keys.bits, e);
      key.push_back(number(scales[kKeyOffsets * dim_ + e]) + number(scales[kKeySteps * dim_ + e]) * code);
    }
    return key;
  }

  void turn(std::vector<double>& key, int32_t positions) const {
    const RopeParams& params = rope_;
    for (int32_t i = 0; i < params.rotated / 2; ++i) {
      const bool adjacent = params.pairing == RopePairing::kAdjacent;
      double& a = key[static_cast<size_t>(adjacent ? 2 * i : i)];
      double& b = key[static_cast<size_t>(adjacent ? 2 * i + 1 : i + params.rotated / 2)];
      const double angle = positions * static_cast<double>(params.position_scale) *
                           std::pow(static_cast<double>(params.base), -2.0 * i / params.rotated);
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = turned;
    }
  }

  int32_t kv_heads_, dim_;
  RopeParams rope_;
  KvLayer layer_{.index = TestRun::kLayer};  // packed runs are of one format
  std::vector<TestRun> plain_;
  std::vector<PackedRun> packed_;
  std::vector<Vector<int32_t>> counts_;
  Vector<KvRun> runs_;
};

}  // namespace ocellus::test
