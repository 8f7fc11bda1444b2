// Formats whose blocks are 32 weights, decoded in registers. Included once per CPU target.
//
// A unit is 256 weights: one block of a K-quant, or eight of these. Each format, here and in super_blocks-inl.h, is a
// type with
//
//   codes           codes 64 c..64 c + 63 of a unit: unsigned (weight = scale * (code - kOffset) +- minimum), or signed
//   scales          the scales of a unit's groups and then, if the format has any, their minimums
//   scale, minimum  those of one block of 32, for the rest of a row that is shorter than a unit
#if defined(OCELLUS_KERNELS_BLOCK_ROWS_SMALL_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_BLOCK_ROWS_SMALL_BLOCKS_INL_H_
#undef OCELLUS_KERNELS_BLOCK_ROWS_SMALL_BLOCKS_INL_H_
#else
#define OCELLUS_KERNELS_BLOCK_ROWS_SMALL_BLOCKS_INL_H_
#endif

#include "kernels/linear/block_rows/floats-inl.h"
#include "quant/block_codes.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Most formats have groups of 32 whose codes are unsigned and whose blocks start with a scale.
struct BlockFormat {
  static constexpr int kGroup = 32;        // weights that share a scale
  static constexpr int kOffset = 0;        // subtracted from unsigned codes
  static constexpr bool kSigned = false;   // codes are signed
  static constexpr int kMinimum = 0;       // 1 if groups have a minimum that is added, -1 if it is subtracted
  static constexpr bool kShifted = false;  // codes are left where they are in their bytes, see kFactors
};

// Blocks of 32 weights, kBytes long, that start with a half-float scale and, where there are minimums, with a second
// half float.
template <int kBlockBytes, bool kHasMinimum>
struct SmallBlocks : BlockFormat {
  static constexpr int kBytes = kBlockBytes, kElements = 32, kMinimum = kHasMinimum ? 1 : 0;
  static HWY_INLINE auto scales(const uint8_t* unit) {
    const Floats<8> scales = gather_halves<kBytes>(unit);
    if constexpr (kHasMinimum) {
      return append(scales, gather_halves<kBytes>(unit + 2));
    } else {
      return scales;
    }
  }
  static HWY_INLINE float scale(const uint8_t* block) { return read_half_at(block); }
  static HWY_INLINE float minimum(const uint8_t* block) { return kHasMinimum ? read_half_at(block + 2) : 0.0f; }
};

struct ChunksQ8_0 : SmallBlocks<34, false> {
  static constexpr bool kSigned = true;
  HWY_INLINE Chunk codes(const uint8_t* first, const uint8_t* second) const {
    Chunk chunk;
#if OCELLUS_VNNI
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first + 2));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(second + 2));
    chunk.part[0].raw = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
#else
    for (int p = 0; p < kParts; ++p)
      chunk.part[p] = hn::LoadU(ByteTag(), (p < kParts / 2 ? first : second) + 2 + kPart * p % 32);
#endif
    return chunk;
  }
};

struct ChunksQ4_0 : SmallBlocks<18, false> {
  static constexpr int kOffset = 8;
  HWY_INLINE Chunk codes(const uint8_t* first, const uint8_t* second) const {
    return nibbles_of_16(first + 2, second + 2);
  }
};

struct ChunksQ4_1 : SmallBlocks<20, true> {
  HWY_INLINE Chunk codes(const uint8_t* first, const uint8_t* second) const {
    return nibbles_of_16(first + 4, second + 4);
  }
};

// Blocks with a fifth bit per element: bit j of the four bytes before the nibbles belongs to element j.
template <int kHigh>
HWY_INLINE Chunk five_bits(const uint8_t* first, const uint8_t* second) {
  const uint64_t low = read_word<uint32_t>(first + kHigh), high = read_word<uint32_t>(second + kHigh);
  return add_bits(nibbles_of_16(first + kHigh + 4, second + kHigh + 4), low | high << 32, 16);
}

struct ChunksQ5_0 : SmallBlocks<22, false> {
  static constexpr int kOffset = 16;
  HWY_INLINE Chunk codes(const uint8_t* first, const uint8_t* second) const { return five_bits<2>(first, second); }
};

struct ChunksQ5_1 : SmallBlocks<24, true> {
  HWY_INLINE Chunk codes(const uint8_t* first, const uint8_t* second) const { return five_bits<4>(first, second); }
};

// Nibbles that are indices of sixteen levels.
template <WeightFormat kFormat>
struct Levels {
  HWY_INLINE Levels()
      : table(hn::LoadDup128(ByteTag(), reinterpret_cast<const uint8_t*>(code_layout(kFormat).levels))) {}
  const Bytes table;
};

struct ChunksIQ4_NL : SmallBlocks<18, false>, Levels<WeightFormat::kIQ4_NL> {
  HWY_INLINE ChunksIQ4_NL() {}
  static constexpr bool kSigned = true;
  HWY_INLINE Chunk codes(const uint8_t* first, const uint8_t* second) const {
    return look_up(table, nibbles_of_16(first + 2, second + 2));
  }
};

// The scale is a power of two: its exponent, plus 128. The lowest two are subnormal.
struct ChunksMXFP4 : BlockFormat, Levels<WeightFormat::kMXFP4> {
  HWY_INLINE ChunksMXFP4() {}
  static constexpr int kBytes = 17, kElements = 32;
  static constexpr bool kSigned = true;
  HWY_INLINE Chunk codes(const uint8_t* first, const uint8_t* second) const {
    return look_up(table, nibbles_of_16(first + 1, second + 1));
  }
  static HWY_INLINE Floats<8> scales(const uint8_t* unit) {
    uint64_t word = 0;
    for (int i = 0; i < 8; ++i) word |= static_cast<uint64_t>(unit[kBytes * i]) << (8 * i);
    const Floats<8>::Tag d;
    const hn::RebindToSigned<decltype(d)> di;
    hn::Vec<decltype(di)> exponents[Floats<8>::kVectors];
    widen<uint8_t>(word, exponents);
    Floats<8> scales;
    for (int i = 0; i < Floats<8>::kVectors; ++i) {
      const auto exponent = exponents[i], normal = hn::ShiftLeft<23>(hn::Sub(exponent, hn::Set(di, 1)));
      const auto lowest =
          hn::IfThenElse(hn::Eq(exponent, hn::Zero(di)), hn::Set(di, 0x00200000), hn::Set(di, 0x00400000));
      scales.part[i] = hn::BitCast(d, hn::IfThenElse(hn::Lt(exponent, hn::Set(di, 2)), lowest, normal));
    }
    return scales;
  }
  static HWY_INLINE float scale(const uint8_t* block) { return mxfp4_scale(block[0]); }
  static HWY_INLINE float minimum(const uint8_t*) { return 0.0f; }
};

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();
#endif
