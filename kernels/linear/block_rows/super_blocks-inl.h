// Formats whose blocks are 256 weights, decoded in registers. Included once per CPU target.
#if defined(OCELLUS_KERNELS_BLOCK_ROWS_SUPER_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_BLOCK_ROWS_SUPER_BLOCKS_INL_H_
#undef OCELLUS_KERNELS_BLOCK_ROWS_SUPER_BLOCKS_INL_H_
#else
#define OCELLUS_KERNELS_BLOCK_ROWS_SUPER_BLOCKS_INL_H_
#endif

#include "kernels/linear/block_rows/small_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <int kBlockBytes>
struct SuperBlocks : BlockFormat {
  static constexpr int kBytes = kBlockBytes, kElements = 256;
};

// Two bits to a byte each: in each half of 128 codes, code j of quarter q has bits 2q and 2q + 1 of byte j.
template <int kChunk>
HWY_INLINE Chunk quarter_bits(const uint8_t* source) {
  return mask_bytes(shift_halves<kChunk % 2 * 4, kChunk % 2 * 4 + 2>(load_twice(source + kChunk / 2 * 32)), 3);
}

// Bits 2 kChunk (first half) and 2 kChunk + 1 (second half) of the 32 bytes at `source`, as bit kTo of each code.
template <int kChunk, int kTo>
HWY_INLINE Chunk plane_bits(const uint8_t* source) {
  Chunk chunk = load_twice(source);
  if constexpr (2 * kChunk >= kTo) {
    chunk = shift_halves<2 * kChunk - kTo, 2 * kChunk + 1 - kTo>(chunk);
  } else {
    const hn::Repartition<uint16_t, ByteTag> d;
    for (Bytes& part : chunk.part) part = hn::BitCast(ByteTag(), hn::ShiftLeft<kTo - 2 * kChunk>(hn::BitCast(d, part)));
    chunk = shift_halves<0, 1>(chunk);
  }
  return mask_bytes(chunk, 1 << kTo);
}

// Q4_K and Q5_K: eight groups whose 6-bit scales and minimums share twelve bytes, each times one half.
template <int kBlockBytes>
struct SharedScales : SuperBlocks<kBlockBytes> {
  static constexpr int kMinimum = -1;
  static HWY_INLINE Floats<16> scales(const uint8_t* block) {
    constexpr uint32_t kSix = 0x3F3F3F3Fu, kFour = 0x0F0F0F0Fu, kTwo = 0x30303030u;
    const uint32_t first = read_word<uint32_t>(block + 4), second = read_word<uint32_t>(block + 8);
    const uint32_t third = read_word<uint32_t>(block + 12);
    const uint64_t low = first & kSix, high = (third & kFour) | (first >> 2 & kTwo);
    const uint64_t low_minimum = second & kSix, high_minimum = (third >> 4 & kFour) | (second >> 2 & kTwo);
    return append(scale_bytes<uint8_t>(low | high << 32, read_half_at(block)),
                  scale_bytes<uint8_t>(low_minimum | high_minimum << 32, read_half_at(block + 2)));
  }
};

// Products of bytes that are summed in 32 bits let codes stay in the upper bits of their bytes: the scales then are
// multiplied by a power of two.
struct ChunksQ4_K : SharedScales<144> {
  static constexpr bool kShifted = OCELLUS_VNNI;
  static constexpr float kFactors[8] = {1, 1 / 16.0f, 1, 1 / 16.0f, 1, 1 / 16.0f, 1, 1 / 16.0f};
  template <int kChunk, bool kInPlace = kShifted>
  HWY_INLINE Chunk codes(const uint8_t* block) const {
    const uint8_t* nibbles = block + 16 + 32 * kChunk;
    if constexpr (kInPlace) return mask_halves<0x0F, 0xF0>(load_twice(nibbles));
    return nibbles_of_32(nibbles);
  }
};

struct ChunksQ5_K : SharedScales<176> {
  template <int kChunk>
  HWY_INLINE Chunk codes(const uint8_t* block) const {
    return join_bits(nibbles_of_32(block + 48 + 32 * kChunk), plane_bits<kChunk, 4>(block + 16));
  }
};

struct ChunksQ6_K : SuperBlocks<210> {
  static constexpr int kGroup = 16, kOffset = 32;
  template <int kChunk>
  HWY_INLINE Chunk codes(const uint8_t* block) const {
    const Chunk low = load_chunk(block + kChunk / 2 * 64);
    Chunk high = load_twice(block + 128 + kChunk / 2 * 32);
    if constexpr (kChunk % 2 == 0) {
      const hn::Repartition<uint16_t, ByteTag> d;
      for (Bytes& part : high.part) part = hn::BitCast(ByteTag(), hn::ShiftLeft<4>(hn::BitCast(d, part)));
    }
    return join_bits(mask_bytes(shift_halves<kChunk % 2 * 4, kChunk % 2 * 4>(low), 15),
                     mask_bytes(shift_halves<0, 2>(high), 0x30));
  }
  static HWY_INLINE Floats<16> scales(const uint8_t* block) {
    const float scale = read_half_at(block + 208);
    return append(scale_bytes<int8_t>(read_word(block + 192), scale),
                  scale_bytes<int8_t>(read_word(block + 200), scale));
  }
};

struct ChunksQ2_K : SuperBlocks<84> {
  static constexpr int kGroup = 16, kMinimum = -1;
  static constexpr bool kShifted = OCELLUS_VNNI;
  static constexpr float kFactors[16] = {1, 1, .25f, .25f, .0625f, .0625f, .015625f, .015625f,
                                         1, 1, .25f, .25f, .0625f, .0625f, .015625f, .015625f};
  template <int kChunk, bool kInPlace = kShifted>
  HWY_INLINE Chunk codes(const uint8_t* block) const {
    if constexpr (kInPlace)
      return mask_halves < kChunk % 2 == 0 ? 0x03 : 0x30,
             kChunk % 2 == 0 ? 0x0C : 0xC0 > (load_twice(block + 16 + kChunk / 2 * 32));
    return quarter_bits<kChunk>(block + 16);
  }
  static HWY_INLINE Floats<32> scales(const uint8_t* block) {
    const uint64_t first = read_word(block), second = read_word(block + 8);
    const float scale = read_half_at(block + 80), minimum = read_half_at(block + 82);
    constexpr uint64_t kFour = 0x0F0F0F0F0F0F0F0Fu;
    return append(
        append(scale_bytes<uint8_t>(first & kFour, scale), scale_bytes<uint8_t>(second & kFour, scale)),
        append(scale_bytes<uint8_t>(first >> 4 & kFour, minimum), scale_bytes<uint8_t>(second >> 4 & kFour, minimum)));
  }
};

// Scales are stored plus 32: lower four bits of all, then upper two.
struct ChunksQ3_K : SuperBlocks<110> {
  static constexpr int kGroup = 16, kOffset = 4;
  template <int kChunk>
  HWY_INLINE Chunk codes(const uint8_t* block) const {
    return join_bits(quarter_bits<kChunk>(block + 32), plane_bits<kChunk, 2>(block));
  }
  static HWY_INLINE Floats<16> scales(const uint8_t* block) {
    const uint64_t lower = read_word(block + 96), bits = read_word<uint32_t>(block + 104);
    const uint64_t upper = bits | bits << 30;  // groups 0 to 3 and 4 to 7 have theirs at the same bits of their bytes
    constexpr uint64_t kFour = 0x0F0F0F0F0F0F0F0Fu, kTwo = 0x3030303030303030u;
    const float scale = read_half_at(block + 108);
    return append(scale_bytes<uint8_t>((lower & kFour) | (upper << 4 & kTwo), scale, 32),
                  scale_bytes<uint8_t>((lower >> 4 & kFour) | (upper & kTwo), scale, 32));
  }
};

// Eight groups of 32 as in IQ4_NL; their 6-bit scales, stored plus 32, have the upper two bits before the lower four.
struct ChunksIQ4_XS : SuperBlocks<136>, Levels<WeightFormat::kIQ4_XS> {
  HWY_INLINE ChunksIQ4_XS() {}
  static constexpr bool kSigned = true;
  template <int kChunk>
  HWY_INLINE Chunk codes(const uint8_t* block) const {
    const uint8_t* nibbles = block + 8 + 32 * kChunk;
    return look_up(table, nibbles_of_16(nibbles, nibbles + 16));
  }
  static HWY_INLINE Floats<8> scales(const uint8_t* block) {
    uint64_t lower = read_word<uint32_t>(block + 4),
             upper = read_word<uint16_t>(block + 2);  // spread to a byte a group
    lower = (lower | lower << 16) & 0x0000FFFF0000FFFFu;
    lower = (lower | lower << 8) & 0x00FF00FF00FF00FFu;
    lower = (lower | lower << 4) & 0x0F0F0F0F0F0F0F0Fu;
    upper = (upper | upper << 24) & 0x000000FF000000FFu;
    upper = (upper | upper << 12) & 0x000F000F000F000Fu;
    upper = (upper | upper << 6) & 0x0303030303030303u;
    return scale_bytes<uint8_t>(lower | upper << 4, read_half_at(block), 32);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();
#endif
