// Block weights as panels of sixteen interleaved rows, by the same decoders as products of few input rows. Included
// once per CPU target.
#if defined(OCELLUS_KERNELS_BLOCK_ROWS_FILL_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_BLOCK_ROWS_FILL_PANEL_INL_H_
#undef OCELLUS_KERNELS_BLOCK_ROWS_FILL_PANEL_INL_H_
#else
#define OCELLUS_KERNELS_BLOCK_ROWS_FILL_PANEL_INL_H_
#endif

#include "kernels/linear/block_rows/super_blocks-inl.h"
#include "kernels/linear/interleave-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Panels in memory: codes for whole chunks of 64, of which the last may be half empty.
struct PanelMemory {
  uint8_t* codes;
  float *scales, *minimums;
};

template <class Format>
class PanelFiller {
 public:
  HWY_INLINE PanelFiller(const uint8_t* const* rows, uint8_t bias, const PanelMemory& panel)
      : bias_(hn::Set(ByteTag(), static_cast<uint8_t>(bias - Format::kOffset))), rows_(rows), panel_(panel) {}

  // Fetches the weights that are `ahead` bytes further meanwhile: the CPU's prefetchers do not follow sixteen rows.
  HWY_INLINE void fill(int64_t cols, int64_t ahead) {
    const int64_t units = cols / kUnit, groups = cols / 32;
    for (int64_t unit = 0; unit < units; ++unit) fill_unit(unit, ahead);
    if constexpr (Format::kElements < kUnit)
      for (int64_t g = 8 * units; g < groups; g += 2) fill_two_blocks(g, std::min<int64_t>(2, groups - g));
  }

 private:
  static constexpr int kGroups = kUnit / Format::kGroup, kEntries = kGroups * (Format::kMinimum == 0 ? 1 : 2);
  static constexpr int64_t kUnitBytes = kUnit / Format::kElements * Format::kBytes;
  static constexpr uint32_t kMinimumFlip = Format::kMinimum > 0 ? 0x80000000u : 0;  // panels subtract minimums

  HWY_INLINE void fill_unit(int64_t unit, int64_t ahead) {
    HWY_ALIGN uint8_t codes[kPanelRows][kUnit];
    HWY_ALIGN float scales[kPanelRows][kEntries + 8];  // 8 more may be read
    for (int r = 0; r < kPanelRows; ++r) {
      const uint8_t* at = rows_[r] + unit * kUnitBytes;
      fetch_weights(at + ahead, kUnitBytes);
      const auto entries = Format::scales(at);
      for (int v = 0; v < entries.kVectors; ++v)
        hn::StoreU(entries.part[v], typename Floats<kEntries>::Tag(), scales[r] + v * entries.kLanes);
      store_chunk<0>(at, codes[r]);
      store_chunk<1>(at, codes[r]);
      store_chunk<2>(at, codes[r]);
      store_chunk<3>(at, codes[r]);
    }
    interleave(codes[0], kUnit, kUnit / 4, panel_.codes + kPanelRows * kUnit * unit);
    const int64_t at = kPanelRows * kGroups * unit;
    interleave(scales[0], kEntries + 8, kGroups, panel_.scales + at);
    if constexpr (Format::kMinimum != 0)
      interleave(scales[0] + kGroups, kEntries + 8, kGroups, panel_.minimums + at, kMinimumFlip);
  }

  // Blocks g and g + 1 of a row. If there is no second, the first stands in for it: the room after the end is not read.
  HWY_INLINE void fill_two_blocks(int64_t g, int64_t count) {
    HWY_ALIGN uint8_t codes[kPanelRows][64];
    for (int r = 0; r < kPanelRows; ++r) {
      const uint8_t* blocks[2] = {rows_[r] + g * Format::kBytes, rows_[r] + (g + count - 1) * Format::kBytes};
      store(format_.codes(blocks[0], blocks[1]), codes[r]);
      for (int64_t b = 0; b < count; ++b) {
        const int64_t at = kPanelRows * (g + b) + r;
        panel_.scales[at] = Format::scale(blocks[b]);
        if constexpr (Format::kMinimum != 0) panel_.minimums[at] = -Format::kMinimum * Format::minimum(blocks[b]);
      }
    }
    interleave(codes[0], 64, 16, panel_.codes + kPanelRows * 32 * g);
  }

  template <int kChunk>
  HWY_INLINE void store_chunk(const uint8_t* unit, uint8_t* codes) const {
    if constexpr (Format::kElements < kUnit) {
      const uint8_t* at = unit + 2 * kChunk * Format::kBytes;
      store(format_.codes(at, at + Format::kBytes), codes + 64 * kChunk);
    } else if constexpr (Format::kShifted) {
      store(format_.template codes<kChunk, false>(unit), codes + 64 * kChunk);
    } else {
      store(format_.template codes<kChunk>(unit), codes + 64 * kChunk);
    }
  }
  HWY_INLINE void store(const Chunk& chunk, uint8_t* codes) const {
    for (int p = 0; p < kParts; ++p) hn::StoreU(hn::Add(chunk.part[p], bias_), ByteTag(), codes + kPart * p);
  }

  template <class T>
  static HWY_INLINE void interleave(const T* rows, int64_t stride, int64_t units, T* out, uint32_t flip = 0) {
    interleave_sixteen(reinterpret_cast<const uint32_t*>(rows), stride * static_cast<int64_t>(sizeof(T)) / 4, units,
                       reinterpret_cast<uint32_t*>(out), flip);
  }

  const Format format_{};
  const Bytes bias_;
  const uint8_t* const* rows_;
  const PanelMemory panel_;
};

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();
#endif
