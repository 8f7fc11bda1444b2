// Caches for attention tests: f16 and packed runs, moved runs, and runs whose heads kept different numbers of slots.
//
//   PackedCache cache(random, heads, dim, {{.slots = 40}, {.format = KvFormat::k2Bit, .slots = 100, .shift = 7}});
//   attend to cache.runs(); compare with attend_packed(query, cache.slots(head), ...)
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/base/kv_run.h"
#include "quant/weight_format.h"
#include "tests/support/packed_reference.h"
#include "tests/support/random.h"
#include "tests/support/visible_memory.h"

namespace ocellus::test {

struct CachePart {
  KvFormat format = KvFormat::kF16;
  int32_t slots = 1;
  int32_t room = 0;  // room of the block after its last slot
  int32_t shift = 0;
  bool calibrated = false;           // though it is f16
  std::vector<int32_t> counts = {};  // by head, of a list where this block follows `counted_before` slots
  int32_t counted_before = 0;
  uint16_t visible_from = 0;  // row of a prompt
};

class PackedCache {
 public:
  static constexpr int32_t kLayers = 2;
  static constexpr int32_t kLayer = 1;  // the one filled with numbers; the other holds NaN

  /// Packed parts are all of one format.
  PackedCache(Random& random, int32_t heads, int32_t dim, const std::vector<CachePart>& parts,
              KvScaleForm scales = KvScaleForm::kF16)
      : heads_(heads), dim_(dim), parts_(parts) {
    for (const CachePart& part : parts)
      if (is_packed(part.format)) layer_ = packed_layer(heads, dim, part.format, scales);
    for (const CachePart& part : parts) add(part, random);
    read_all_slots();
  }
  /// After a test has changed what the runs hold: slots() as they are now.
  void read_all_slots() {
    slots_.clear();
    for (int32_t head = 0; head < heads_; ++head) slots_.push_back(read_slots(head));
  }

  /// kLayer of packed runs. What lies before it takes as many bytes in all caches, as if it had other bits.
  static KvLayer packed_layer(int32_t heads, int32_t dim, KvFormat format, KvScaleForm scales = KvScaleForm::kF16) {
    return {kLayer, format, scales, int64_t{48} * heads * dim};
  }
  const KvLayer& layer() const { return layer_; }

  const std::vector<KvRun>& runs() const { return runs_; }
  /// The runs in pieces as CUDA wants them, or of `most` slots if that is less.
  std::vector<KvRun> tiles(int32_t most) const {
    std::vector<KvRun> tiles;
    for (const KvRun& run : runs_) {
      const int32_t step = std::min(most, run.packed ? packed_tile_slots(layer_.scales) : kTileSlots);
      for (int32_t first = 0; first < run.slots; first += step)
        tiles.push_back(slice_run(run, first, std::min(step, run.slots - first), dim_));
    }
    return tiles;
  }
  int32_t live(size_t part, int32_t head) const {
    const CachePart& from = parts_[part];
    if (from.counts.empty()) return from.slots;
    return std::clamp(from.counts[static_cast<size_t>(head)] - from.counted_before, 0, from.slots);
  }
  const std::vector<RealSlot>& slots(int32_t head) const { return slots_[static_cast<size_t>(head)]; }

 private:
  std::vector<RealSlot> read_slots(int32_t head) const {
    std::vector<RealSlot> all;
    for (size_t i = 0; i < parts_.size(); ++i)
      for (int32_t slot = 0; slot < live(i, head); ++slot) all.push_back(read_slot(runs_[i], layer_, head, slot, dim_));
    return all;
  }

  void add(const CachePart& part, Random& random) {
    const int32_t capacity = part.slots + part.room;
    KvRun run;
    run.packed = is_packed(part.format);
    const KvBlockLayout layout = KvBlockLayout::of(part.format, dim_, capacity, layer_.scales);
    const int64_t bytes = heads_ * layout.padded_bytes;
    blocks_.emplace_back(static_cast<size_t>(run.packed ? layer_.offset + bytes : kLayers * bytes));
    run.data = blocks_.back().data();
    if (!run.packed) {
      run.layer_stride = bytes;
      run.head_stride = layout.padded_bytes;
      run.value_offset = layout.values - layout.keys;
    }
    run.slots = part.slots;
    run.capacity = capacity;
    run.position_shift = part.shift;
    run.calibrated = part.calibrated;
    run.visible_from = part.visible_from;
    std::vector<Half> nans(blocks_.back().size() / 2, Half{0x7FFF});
    std::memcpy(run.data, nans.data(), nans.size() * 2);
    for (int32_t head = 0; head < heads_; ++head)
      run.packed ? fill_packed(run, layout, head, random) : fill_plain(run, head, random);
    if (!part.counts.empty()) {
      counts_.emplace_back(static_cast<size_t>(kLayers * heads_), 1 << 20);
      for (int32_t head = 0; head < heads_; ++head)
        counts_.back()[static_cast<size_t>(kLayer * heads_ + head)] = part.counts[static_cast<size_t>(head)];
      run.counts = counts_.back().data();
      run.counted_before = part.counted_before;
    }
    runs_.push_back(run);
  }

  // NaN is in the other layer and in dead slots, or as near to it as codes come: the largest. Every part has channels
  // with ends of its own, so that taking another part's scales shows.
  void fill_plain(const KvRun& run, int32_t head, Random& random) {
    auto* const keys = reinterpret_cast<Half*>(run.data + kLayer * run.layer_stride + head * run.head_stride);
    for (int32_t e = 0; e < dim_; ++e) {
      const float key_offset = random.normal(0.4f), value_offset = random.normal(0.8f);
      for (int32_t slot = 0; slot < run.slots; ++slot) {
        keys[slot * dim_ + e] = float_to_half(key_offset + random.normal());
        keys[run.value_offset / 2 + slot * dim_ + e] = float_to_half(value_offset + random.normal());
      }
    }
  }
  void fill_packed(const KvRun& run, const KvBlockLayout& layout, int32_t head, Random& random) {
    std::byte* const block = run.data + layer_.offset + head * layout.padded_bytes;
    auto* const halves = reinterpret_cast<Half*>(block);
    const auto levels_of = [](int32_t bits) { return static_cast<float>((1 << bits) - 1); };
    const float key_levels = levels_of(key_bits(layer_.format)), value_levels = levels_of(value_bits(layer_.format));
    if (layer_.scales != KvScaleForm::k6Bit) {
      for (int32_t e = 0; e < dim_; ++e) {
        halves[e] = float_to_half(random.normal(0.4f) - 1.7f);
        halves[dim_ + e] = float_to_half(random.uniform(2.4f, 4.0f) / key_levels);
        if (layer_.scales == KvScaleForm::kByToken) continue;
        halves[2 * dim_ + e] = float_to_half(random.normal(0.8f) - 1.7f);
        halves[3 * dim_ + e] = float_to_half(random.uniform(2.4f, 4.0f) / value_levels);
      }
      if (layer_.scales == KvScaleForm::kByToken) fill_token_scales(run, block, value_levels, random);
    } else {
      for (int64_t i = 0; i < layout.keys; ++i) block[i] = static_cast<std::byte>(random.bits());
      for (const int32_t row : {kKeyOffsets, kValueOffsets}) {
        const float levels = row == kKeyOffsets ? key_levels : value_levels;
        halves[2 * row] = float_to_half(random.uniform(-3.5f, -2.0f));
        halves[2 * row + 1] = float_to_half(random.uniform(0.01f, 0.04f));
        halves[2 * (row + 1)] = float_to_half(random.uniform(2.0f, 2.5f) / levels);
        halves[2 * (row + 1) + 1] = float_to_half(random.uniform(0.01f, 0.025f) / levels);
      }
    }
    auto* const bytes = reinterpret_cast<uint8_t*>(block);
    for (int64_t i = layout.keys; i < layout.bytes; ++i) {
      const bool is_live = i < layout.values ? i < layout.keys + run.slots * layout.key_row_bytes
                                             : i < layout.values + run.slots * layout.value_row_bytes;
      bytes[i] = is_live ? static_cast<uint8_t>(random.bits()) : uint8_t{0xFF};
    }
  }

  void fill_token_scales(const KvRun& run, std::byte* block, float levels, Random& random) {
    auto* const scales = reinterpret_cast<Half*>(block + 4 * dim_);
    for (int64_t i = 0; i < int64_t{run.capacity} * dim_ / 32; ++i) {
      const bool is_live = i < int64_t{run.slots} * dim_ / 32;
      scales[2 * i] = is_live ? float_to_half(random.normal(0.8f) - 1.7f) : Half{0x7FFF};
      scales[2 * i + 1] = is_live ? float_to_half(random.uniform(2.4f, 4.0f) / levels) : Half{0x7FFF};
    }
  }

  int32_t heads_, dim_;
  std::vector<CachePart> parts_;
  KvLayer layer_{.index = kLayer};
  std::vector<Vector<std::byte>> blocks_;
  std::vector<Vector<int32_t>> counts_;
  std::vector<KvRun> runs_;
  std::vector<std::vector<RealSlot>> slots_;  // by head
};

}  // namespace ocellus::test
