// Offsets and steps of a packed block as f16 numbers, for any form of scales. Compiled once per Highway target.
#if defined(OCELLUS_KERNELS_SCALE_ROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_SCALE_ROW_INL_H
#undef OCELLUS_KERNELS_SCALE_ROW_INL_H
#else
#define OCELLUS_KERNELS_SCALE_ROW_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/base/kv_run.h"
#include "kernels/base/vectors-inl.h"
#include "quant/kv_scales.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {

/// A row of a block's scales as f16 numbers: in place, or decoded.
class ScaleRow {
 public:
  ScaleRow() = default;
  ScaleRow(const PackedRows& rows, KvScaleRow row) { read(rows, row); }
  ScaleRow(const ScaleRow&) = delete;
  ScaleRow& operator=(const ScaleRow&) = delete;

  HWY_INLINE void read(const PackedRows& rows, KvScaleRow row) {
    data_ = reinterpret_cast<const Half*>(rows.block) + int64_t{row} * rows.head_dim;
    if (rows.scales == KvScaleForm::k6Bit) decode(rows, row);
  }
  /// Spreads the numbers of groups of channels: the first of `from`, the third, ...
  HWY_INLINE void spread(const Half* from, int32_t dim) {
    for (int32_t e = 0; e < dim; e += kValueGroup, from += 2) std::fill_n(decoded_ + e, kValueGroup, *from);
    data_ = decoded_;
  }
  const Half* data() const { return data_; }

 private:
  HWY_NOINLINE void decode(const PackedRows& rows, KvScaleRow row) {
    const int32_t dim = rows.head_dim;
    Half ends[2];
    std::memcpy(ends, rows.block + scale_ends_at(row), sizeof ends);
    const float least = half_to_float(ends[0]), place = half_to_float(ends[1]);
    data_ = decoded_;
    if (std::isnan(least)) return static_cast<void>(std::fill_n(decoded_, dim, ends[0]));
    const auto* from = reinterpret_cast<const uint8_t*>(rows.block + scale_codes_at(row, dim));
    HWY_ALIGN float values[kMaxHeadDim];
    for (int32_t e = 0; e < dim; e += 4, from += 3) {
      uint8_t codes[4];
      get_scale_codes(from, codes);
      for (int32_t i = 0; i < 4; ++i) values[e + i] = least + place * static_cast<float>(codes[i]);
    }
    round_to_halves(values, dim, decoded_);
  }

  const Half* data_ = nullptr;
  Half decoded_[kMaxHeadDim];
};

/// Offsets and steps of a packed run's values, which may differ by slot.
class ValueScales {
 public:
  ValueScales() = default;
  explicit ValueScales(const PackedRows& rows) { read(rows); }

  HWY_INLINE void read(const PackedRows& rows) {
    rows_ = rows;
    if (rows.by_token()) return;
    offsets_.read(rows, kValueOffsets);
    steps_.read(rows, kValueSteps);
  }
  /// Call it before a slot of the run is read.
  HWY_INLINE void turn_to(int64_t slot) {
    if (!rows_.by_token()) return;
    const Half* scales = rows_.token_scales(slot);
    offsets_.spread(scales, rows_.head_dim);
    steps_.spread(scales + 1, rows_.head_dim);
  }
  const Half* offsets() const { return offsets_.data(); }
  const Half* steps() const { return steps_.data(); }

 private:
  PackedRows rows_ = {};
  ScaleRow offsets_, steps_;
};

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#endif  // OCELLUS_KERNELS_SCALE_ROW_INL_H
