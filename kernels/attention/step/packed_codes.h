// Positions of the codes of packed rows in the words that attend_step multiplies on CUDA, and their values there.
//
// A row is read in halves of 16 bits, little-endian, and a word holds two of them: two neighbours of one slot (keys),
// or the same half of two slots (values). Code i of a half is the one in its bits [i b, i b + b). The codes i of both
// halves become two f16 numbers without any conversion. Compiled for the device too.
#pragma once

#include <cstdint>

#include "quant/kv_format.h"

namespace ocellus {

/// Codes become f16 numbers in place: masked in the lowest 10 bits of a half (higher ones: in the word shifted down
/// once), which f16 reads as subnormal numbers, code * 2^(place - 24); products use them exactly. Shifting every code
/// to the top of the mantissa of 1 instead was measured: up to 1.4 times slower (tools/bench/notes/packed_speed.md).
template <int kBits>
struct PackedCodes {
  static_assert(kBits == 1 || kBits == 2 || kBits == 4 || kBits == 8);
  static constexpr int kPerHalf = 16 / kBits;
  static constexpr int kPerByte = 8 / kBits;
  static constexpr int kMantissa = 10;            // bits of an f16 number's mantissa
  static constexpr int kMove = 6;                 // shift of the word for codes beyond the mantissa
  static constexpr uint32_t kOnes = 0x3C003C00u;  // two ones in f16
  static constexpr uint32_t kBothHalves = 0x00010001u;
  static constexpr uint32_t kCode = ((1u << kBits) - 1) * kBothHalves;

  /// The channel of code i, counted from the first of the half: a byte's first code is in its upper bits.
  OCELLUS_EVERYWHERE static constexpr int channel(int i) {
    return i / kPerByte * kPerByte + (kPerByte - 1 - i % kPerByte);
  }
  OCELLUS_EVERYWHERE static constexpr bool is_moved(int i) { return kBits * (i + 1) > kMantissa; }
  /// Position of the code's lowest bit when it is masked.
  OCELLUS_EVERYWHERE static constexpr int place(int i) { return kBits * i - (is_moved(i) ? kMove : 0); }

  OCELLUS_EVERYWHERE static constexpr uint32_t moved(uint32_t word) { return word >> kMove; }
  /// Code i of both halves of `word` as f16 numbers; `moved_word` is moved(word).
  OCELLUS_EVERYWHERE static constexpr uint32_t numbers(uint32_t word, uint32_t moved_word, int i) {
    return (is_moved(i) ? moved_word : word) & (kCode << place(i));
  }

  // number = code * 2^number_exponent. Queries are multiplied by the channel's step and by 2^query_exponent, so that
  // query * number * 2^kScoreExponent is a channel's part of the score. kScoreExponent keeps both the products of large
  // queries with the lowest places and those of small ones with the highest within f16: q * step may reach 1023, 511,
  // 255 and 127 for 1, 2, 4 and 8 bits, and is rounded to multiples of 2^-21 or less.
  static constexpr int kLift = kBits == 1 ? 6 : kBits == 2 ? 7 : kBits == 4 ? 8 : 9;
  static constexpr int kScoreExponent = 24 - kLift;
  OCELLUS_EVERYWHERE static constexpr int number_exponent(int i) { return place(i) - 24; }
  OCELLUS_EVERYWHERE static constexpr int query_exponent(int i) { return -kScoreExponent - number_exponent(i); }
};

/// Two bytes of a row whose codes have kBits / 2 bits, with the same codes in kBits: four bytes, of a little-endian
/// word.
template <int kBits>
OCELLUS_EVERYWHERE constexpr uint32_t widened(uint32_t bytes) {
  static_assert(kBits == 2 || kBits == 4 || kBits == 8);
  // The upper half of a byte comes first.
  uint32_t word = (bytes >> 4 & 15) | (bytes & 15) << 8 | (bytes >> 12 & 15) << 16 | (bytes >> 8 & 15) << 24;
  if (kBits <= 4) word = (word & 0x0C0C0C0Cu) << 2 | (word & 0x03030303u);
  if (kBits == 2) word = (word & 0x22222222u) << 1 | (word & 0x11111111u);
  return word;
}
/// The same for the codes of one unit of kBits, which have kBits / 2 bits (`halvings` 1, both words) or kBits / 4 (2,
/// the first word).
template <int kBits>
OCELLUS_EVERYWHERE constexpr void widen_unit(int halvings, const uint32_t (&from)[2], uint32_t (&to)[4]) {
  uint32_t half[2] = {from[0], from[1]};
  if constexpr (kBits >= 4) {
    if (halvings == 2) {
      half[0] = widened<kBits / 2>(from[0]);
      half[1] = widened<kBits / 2>(from[0] >> 16);
    }
  }
  for (int i = 0; i < 4; ++i) to[i] = widened<kBits>(half[i / 2] >> (16 * (i % 2)));
}

/// 2^exponent as the bits of an f16 and of an f32 number, for exponents that need no subnormal numbers.
OCELLUS_EVERYWHERE constexpr uint32_t half_power_bits(int exponent) {
  return static_cast<uint32_t>(exponent + 15) << 10;
}
OCELLUS_EVERYWHERE constexpr uint32_t float_power_bits(int exponent) {
  return static_cast<uint32_t>(exponent + 127) << 23;
}

/// Division of the tiles of one format and size on CUDA. Rows are taken in units of 16 bytes; the last may be partly
/// beyond the row's end. E up to 64 kChunks.
template <int kFormatBits, int kFormatChunks>
struct PackedShape {
  using Codes = PackedCodes<kFormatBits>;
  static constexpr int kBits = kFormatBits;
  static constexpr int kChunks = kFormatChunks;
  static constexpr int kUnits = 64 * kChunks * kBits / 128;                // per row
  static constexpr int kSlots = kUnits <= 2 ? 64 : kUnits <= 4 ? 32 : 16;  // slots processed at a time
  static constexpr int kSteps = kSlots / 16;                               // matrix products take 16 slots
  static constexpr int kPerHalf = Codes::kPerHalf;
  static constexpr int kWordChannels = 2 * kPerHalf;
  static constexpr int kPartBytes = 16 * kUnits * kSlots;  // keys or values of kSlots slots
  static_assert(kUnits >= 1 && 64 * kChunks == kUnits * 8 * kPerHalf, "1 bit: kChunks is even");

  /// The first channel of a half of a row: `half` of the eight of `unit`.
  OCELLUS_EVERYWHERE static constexpr int first_channel(int unit, int half) { return (8 * unit + half) * kPerHalf; }
};

}  // namespace ocellus
