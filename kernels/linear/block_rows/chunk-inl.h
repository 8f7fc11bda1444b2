// 64 codes of a weight row in registers. Included once per CPU target.
#if defined(OCELLUS_KERNELS_BLOCK_ROWS_CHUNK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_BLOCK_ROWS_CHUNK_INL_H_
#undef OCELLUS_KERNELS_BLOCK_ROWS_CHUNK_INL_H_
#else
#define OCELLUS_KERNELS_BLOCK_ROWS_CHUNK_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "kernels/linear/matmul_codes.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Integer products of AVX-512 (VNNI) take 64 bytes at a time; what else x86 has takes 32.
using ByteTag = hn::CappedTag<uint8_t, OCELLUS_VNNI ? 64 : 32>;
using Bytes = hn::Vec<ByteTag>;
inline constexpr int kPart = static_cast<int>(hn::MaxLanes(ByteTag())), kParts = 64 / kPart;
static_assert(kPart >= 16);

// 64 codes, in 1, 2 or 4 vectors. GCC for Arm needs constructors of types with vectors spelt out, for their attributes.
struct Chunk {
  HWY_INLINE Chunk() {}
  Bytes part[kParts];
};

inline constexpr int64_t kUnit = 256;

template <class Word = uint64_t>
HWY_INLINE Word read_word(const uint8_t* source) {
  Word word;
  std::memcpy(&word, source, sizeof(Word));
  return word;
}

HWY_INLINE Chunk load_chunk(const void* source) {
  Chunk chunk;
  for (int p = 0; p < kParts; ++p)
    chunk.part[p] = hn::LoadU(ByteTag(), static_cast<const uint8_t*>(source) + kPart * p);
  return chunk;
}

// The 32 bytes at `source`, twice.
HWY_INLINE Chunk load_twice(const uint8_t* source) {
  Chunk chunk;
#if OCELLUS_VNNI
  chunk.part[0].raw = _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
#else
  for (int p = 0; p < kParts; ++p) chunk.part[p] = hn::LoadU(ByteTag(), source + kPart * p % 32);
#endif
  return chunk;
}

// The 16 bytes at `first`, twice, then those at `second`, twice.
HWY_INLINE Chunk load_pairs(const uint8_t* first, const uint8_t* second) {
  Chunk chunk;
#if OCELLUS_VNNI
  const __m512i low = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(first)));
  chunk.part[0].raw =
      _mm512_mask_broadcast_i32x4(low, 0xFF00, _mm_loadu_si128(reinterpret_cast<const __m128i*>(second)));
#else
  for (int p = 0; p < kParts; ++p) {
    HWY_ALIGN uint8_t bytes[16];
    std::memcpy(bytes, p < kParts / 2 ? first : second, 16);
    chunk.part[p] = hn::LoadDup128(ByteTag(), bytes);
  }
#endif
  return chunk;
}

template <int kBits>
HWY_INLINE Bytes shift_right(Bytes bytes) {
  if constexpr (kBits == 0) return bytes;
  const hn::Repartition<uint16_t, ByteTag> d;
  return hn::BitCast(ByteTag(), hn::ShiftRight<kBits>(hn::BitCast(d, bytes)));
}

// Shifts the first 32 bytes by kFirst and the others by kSecond. Bits cross from byte to byte: callers mask.
template <int kFirst, int kSecond>
HWY_INLINE Chunk shift_halves(Chunk chunk) {
  if constexpr (kParts == 1) {
    const hn::Repartition<uint64_t, ByteTag> d;
    HWY_ALIGN static constexpr uint64_t kCounts[8] = {kFirst,  kFirst,  kFirst,  kFirst,
                                                      kSecond, kSecond, kSecond, kSecond};
    chunk.part[0] = hn::BitCast(ByteTag(), hn::Shr(hn::BitCast(d, chunk.part[0]), hn::Load(d, kCounts)));
  } else {
    for (int p = 0; p < kParts / 2; ++p) chunk.part[p] = shift_right<kFirst>(chunk.part[p]);
    for (int p = kParts / 2; p < kParts; ++p) chunk.part[p] = shift_right<kSecond>(chunk.part[p]);
  }
  return chunk;
}

HWY_INLINE Chunk mask_bytes(Chunk chunk, uint8_t mask) {
  for (Bytes& part : chunk.part) part = hn::And(part, hn::Set(ByteTag(), mask));
  return chunk;
}

// Masks the first 32 bytes by kFirst and the others by kSecond.
template <uint8_t kFirst, uint8_t kSecond>
HWY_INLINE Chunk mask_halves(Chunk chunk) {
  const ByteTag d;
  if constexpr (kParts == 1) {
    chunk.part[0] = hn::And(chunk.part[0], hn::IfThenElse(hn::FirstN(d, 32), hn::Set(d, kFirst), hn::Set(d, kSecond)));
  } else {
    for (int p = 0; p < kParts; ++p)
      chunk.part[p] = hn::And(chunk.part[p], hn::Set(d, p < kParts / 2 ? kFirst : kSecond));
  }
  return chunk;
}

HWY_INLINE Chunk join_bits(Chunk low, const Chunk& high) {
  for (int p = 0; p < kParts; ++p) low.part[p] = hn::Or(low.part[p], high.part[p]);
  return low;
}

// 32 bytes whose low nibbles are codes 0..31 and whose high ones are codes 32..63.
HWY_INLINE Chunk nibbles_of_32(const uint8_t* source) { return mask_bytes(shift_halves<0, 4>(load_twice(source)), 15); }

// Twice 16 bytes whose low nibbles are codes 0..15 and whose high ones are codes 16..31.
HWY_INLINE Chunk nibbles_of_16(const uint8_t* first, const uint8_t* second) {
  Chunk chunk = load_pairs(first, second);
  if constexpr (kParts == 4) {
    for (const int p : {1, 3}) chunk.part[p] = shift_right<4>(chunk.part[p]);
  } else {
    const hn::Repartition<uint64_t, ByteTag> d;
    HWY_ALIGN static constexpr uint64_t kCounts[8] = {0, 0, 4, 4, 0, 0, 4, 4};
    for (Bytes& part : chunk.part) part = hn::BitCast(ByteTag(), hn::Shr(hn::BitCast(d, part), hn::Load(d, kCounts)));
  }
  return mask_bytes(chunk, 15);
}

// Adds `value` to the codes whose bit in `bits` is set: bit j belongs to code j.
HWY_INLINE Chunk add_bits(Chunk chunk, uint64_t bits, uint8_t value) {
  uint8_t bytes[16] = {};  // the widest mask that is loaded has eight
  std::memcpy(bytes, &bits, 8);
  for (int p = 0; p < kParts; ++p)
    chunk.part[p] = hn::Or(chunk.part[p], hn::IfThenElseZero(hn::LoadMaskBits(ByteTag(), bytes + kPart / 8 * p),
                                                             hn::Set(ByteTag(), value)));
  return chunk;
}

HWY_INLINE Chunk look_up(Bytes table, Chunk chunk) {
  for (Bytes& part : chunk.part) part = hn::TableLookupBytes(table, part);
  return chunk;
}

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();
#endif
