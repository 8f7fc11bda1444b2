#include "quant/block_codes.h"

#include <cstring>

namespace ocellus {
namespace {

// Levels of IQ4_NL and IQ4_XS (ggml-common.h of llama.cpp), and twice the 4-bit floats of MXFP4.
alignas(16) constexpr int8_t kNonLinearLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};
alignas(16) constexpr int8_t kFloatLevels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float read_half(const uint8_t* source) {
  Half value;
  std::memcpy(&value.bits, source, 2);
  return half_to_float(value);
}

// One type per format: block length, layout of its groups, and decoding of one block to codes.

struct Q8_0 {
  static constexpr int kBytes = 34, kElements = 32;
  static constexpr CodeLayout kLayout{32, false};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales, float*) {
    scales[0] = read_half(block);
    std::memcpy(codes, block + 2, 32);
  }
};

// Blocks of 32 nibbles: the low ones are elements 0..15, the high ones elements 16..31.
template <int kOffset>
void unpack_nibbles(const uint8_t* __restrict nibbles, int8_t* __restrict codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = static_cast<int8_t>((nibbles[j] & 15) - kOffset);
    codes[j + 16] = static_cast<int8_t>((nibbles[j] >> 4) - kOffset);
  }
}

struct Q4_0 {
  static constexpr int kBytes = 18, kElements = 32;
  static constexpr CodeLayout kLayout{32, false};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales, float*) {
    scales[0] = read_half(block);
    unpack_nibbles<8>(block + 2, codes);
  }
};

struct Q4_1 {
  static constexpr int kBytes = 20, kElements = 32;
  static constexpr CodeLayout kLayout{32, true};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict minimums) {
    scales[0] = read_half(block);
    minimums[0] = -read_half(block + 2);
    unpack_nibbles<0>(block + 4, codes);
  }
};

struct IQ4_NL {
  static constexpr int kBytes = 18, kElements = 32;
  static constexpr CodeLayout kLayout{32, false, kNonLinearLevels};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales, float*) {
    scales[0] = read_half(block);
    unpack_nibbles<0>(block + 2, codes);
  }
};

// Eight groups of 32 as in IQ4_NL; their 6-bit scales, stored plus 32, have the upper two bits before the lower four.
struct IQ4_XS {
  static constexpr int kBytes = 136, kElements = 256;
  static constexpr CodeLayout kLayout{32, false, kNonLinearLevels};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales, float*) {
    const float scale = read_half(block);
    for (int g = 0; g < 8; ++g) {
      const int lower = block[4 + g / 2] >> (g % 2 * 4) & 15, upper = block[2 + g / 4] >> (g % 4 * 2) & 3;
      scales[g] = scale * static_cast<float>((lower | upper << 4) - 32);
    }
    for (int g = 0; g < 8; ++g) unpack_nibbles<0>(block + 8 + 16 * g, codes + 32 * g);
  }
};

struct MXFP4 {
  static constexpr int kBytes = 17, kElements = 32;
  static constexpr CodeLayout kLayout{32, false, kFloatLevels};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales, float*) {
    scales[0] = mxfp4_scale(block[0]);
    unpack_nibbles<0>(block + 1, codes);
  }
};

// Returns eight bytes, 0x80 where the bit of the same number is set and 0 elsewhere.
uint64_t spread_bits(uint8_t bits) {
  const uint64_t own_bit = (bits * 0x0101010101010101u) & 0x8040201008040201u;
  return (own_bit + 0x7F7F7F7F7F7F7F7Fu) & 0x8080808080808080u;
}

// Q5_0 and Q5_1: as above with a fifth bit per element: bit j of the four bytes at `high` belongs to element j. Eight
// elements are decoded at a time in one word. With an offset of 16, an element whose fifth bit is clear is negative:
// its upper four bits are set.
template <bool kSigned>
void unpack_five_bits(const uint8_t* __restrict nibbles, const uint8_t* __restrict high, int8_t* __restrict codes) {
  for (int i = 0; i < 4; ++i) {
    uint64_t pairs;
    std::memcpy(&pairs, nibbles + 8 * (i & 1), 8);
    const uint64_t fifth = spread_bits(kSigned ? static_cast<uint8_t>(~high[i]) : high[i]) >> 3;
    const uint64_t word = ((pairs >> (i < 2 ? 0 : 4)) & 0x0F0F0F0F0F0F0F0Fu) | (kSigned ? 15 * fifth : fifth);
    std::memcpy(codes + 8 * i, &word, 8);
  }
}

struct Q5_0 {
  static constexpr int kBytes = 22, kElements = 32;
  static constexpr CodeLayout kLayout{32, false};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales, float*) {
    scales[0] = read_half(block);
    unpack_five_bits<true>(block + 6, block + 2, codes);
  }
};

struct Q5_1 {
  static constexpr int kBytes = 24, kElements = 32;
  static constexpr CodeLayout kLayout{32, true};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict minimums) {
    scales[0] = read_half(block);
    minimums[0] = -read_half(block + 2);
    unpack_five_bits<false>(block + 8, block + 4, codes);
  }
};

// Q4_K and Q5_K: eight groups whose 6-bit scales and minimums share twelve bytes, each times one half.
void unpack_group_scales(const uint8_t* block, float* scales, float* minimums) {
  const float scale = read_half(block), minimum = read_half(block + 2);
  const uint8_t* packed = block + 4;
  for (int g = 0; g < 4; ++g) {
    scales[g] = scale * static_cast<float>(packed[g] & 63);
    minimums[g] = minimum * static_cast<float>(packed[g + 4] & 63);
    scales[g + 4] = scale * static_cast<float>((packed[g + 8] & 15) | ((packed[g] >> 6) << 4));
    minimums[g + 4] = minimum * static_cast<float>((packed[g + 8] >> 4) | ((packed[g + 4] >> 6) << 4));
  }
}

struct Q4_K {
  static constexpr int kBytes = 144, kElements = 256;
  static constexpr CodeLayout kLayout{32, true};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict minimums) {
    unpack_group_scales(block, scales, minimums);
    for (int pair = 0; pair < 4; ++pair) {
      const uint8_t* nibbles = block + 16 + 32 * pair;
      for (int j = 0; j < 32; ++j) {
        codes[64 * pair + j] = static_cast<int8_t>(nibbles[j] & 15);
        codes[64 * pair + 32 + j] = static_cast<int8_t>(nibbles[j] >> 4);
      }
    }
  }
};

struct Q5_K {
  static constexpr int kBytes = 176, kElements = 256;
  static constexpr CodeLayout kLayout{32, true};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict minimums) {
    unpack_group_scales(block, scales, minimums);
    const uint8_t* high = block + 16;  // bit g of byte j: fifth bit of element j of group g
    for (int pair = 0; pair < 4; ++pair) {
      const uint8_t* nibbles = block + 48 + 32 * pair;
      for (int j = 0; j < 32; ++j) {
        codes[64 * pair + j] = static_cast<int8_t>((nibbles[j] & 15) | (((high[j] >> (2 * pair)) & 1) << 4));
        codes[64 * pair + 32 + j] = static_cast<int8_t>((nibbles[j] >> 4) | (((high[j] >> (2 * pair + 1)) & 1) << 4));
      }
    }
  }
};

// Q2_K and Q3_K: in each half of 128, element j of quarter q has bits 2q and 2q + 1 of byte j.
struct Q2_K {
  static constexpr int kBytes = 84, kElements = 256;
  static constexpr CodeLayout kLayout{16, true};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict minimums) {
    const float scale = read_half(block + 80), minimum = read_half(block + 82);
    for (int g = 0; g < 16; ++g) {
      scales[g] = scale * static_cast<float>(block[g] & 15);
      minimums[g] = minimum * static_cast<float>(block[g] >> 4);
    }
    for (int quarter = 0; quarter < 8; ++quarter, codes += 32) {
      const uint8_t* bits = block + 16 + 32 * (quarter / 4);
      for (int j = 0; j < 32; ++j) codes[j] = static_cast<int8_t>((bits[j] >> (quarter % 4 * 2)) & 3);
    }
  }
};

struct Q3_K {
  static constexpr int kBytes = 110, kElements = 256;
  static constexpr CodeLayout kLayout{16, false};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales, float*) {
    const float scale = read_half(block + 108);
    const uint8_t* packed = block + 96;  // 6-bit scales plus 32: lower four bits of all, then upper two
    for (int g = 0; g < 16; ++g) {
      const int lower = packed[g % 8] >> (g / 8 * 4) & 15, upper = packed[8 + g % 4] >> (g / 4 * 2) & 3;
      scales[g] = scale * static_cast<float>((lower | upper << 4) - 32);
    }
    for (int quarter = 0; quarter < 8; ++quarter, codes += 32) {
      const uint8_t* bits = block + 32 + 32 * (quarter / 4);
      const auto third = static_cast<uint8_t>(1 << quarter);  // bit of byte j that belongs to element j
      for (int j = 0; j < 32; ++j)
        codes[j] = static_cast<int8_t>(((bits[j] >> (quarter % 4 * 2)) & 3) | ((block[j] & third) == 0 ? -4 : 0));
    }
  }
};

struct Q6_K {
  static constexpr int kBytes = 210, kElements = 256;
  static constexpr CodeLayout kLayout{16, false};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales, float*) {
    const float scale = read_half(block + 208);
    for (int g = 0; g < 16; ++g) scales[g] = scale * static_cast<float>(static_cast<int8_t>(block[192 + g]));
    for (int half = 0; half < 2; ++half, codes += 128) {
      const uint8_t* low = block + 64 * half;
      const uint8_t* high = block + 128 + 32 * half;
      for (int j = 0; j < 32; ++j) {
        codes[j] = static_cast<int8_t>(((low[j] & 15) | ((high[j] & 3) << 4)) - 32);
        codes[j + 32] = static_cast<int8_t>(((low[j + 32] & 15) | (((high[j] >> 2) & 3) << 4)) - 32);
        codes[j + 64] = static_cast<int8_t>(((low[j] >> 4) | (((high[j] >> 4) & 3) << 4)) - 32);
        codes[j + 96] = static_cast<int8_t>(((low[j + 32] >> 4) | ((high[j] >> 6) << 4)) - 32);
      }
    }
  }
};

template <class Format>
void decode_blocks(const uint8_t* source, int64_t cols, int8_t* codes, float* scales, float* minimums) {
  constexpr int kGroups = Format::kElements / Format::kLayout.group_elements;
  for (int64_t block = 0; block < cols / Format::kElements; ++block) {
    Format::decode(source, codes, scales, minimums);
    source += Format::kBytes;
    codes += Format::kElements;
    scales += kGroups;
    if constexpr (Format::kLayout.has_minimum) minimums += kGroups;
  }
}

struct Decoder {
  CodeLayout layout;
  void (*decode)(const uint8_t* source, int64_t cols, int8_t* codes, float* scales, float* minimums);
};

template <class Format>
constexpr Decoder kDecoderOf = {Format::kLayout, decode_blocks<Format>};

// Decoders in the order of WeightFormat; the plain formats have no codes.
constexpr Decoder kDecoders[kWeightFormatCount] = {
    {},
    {},
    {},
    kDecoderOf<Q8_0>,
    kDecoderOf<Q4_0>,
    kDecoderOf<Q4_1>,
    kDecoderOf<Q5_0>,
    kDecoderOf<Q5_1>,
    kDecoderOf<Q4_K>,
    kDecoderOf<Q5_K>,
    kDecoderOf<Q6_K>,
    kDecoderOf<IQ4_NL>,
    kDecoderOf<Q2_K>,
    kDecoderOf<Q3_K>,
    kDecoderOf<IQ4_XS>,
    kDecoderOf<MXFP4>,
};

const Decoder& decoder(WeightFormat format) { return kDecoders[static_cast<int>(format)]; }

}  // namespace

bool is_block_format(WeightFormat format) { return decoder(format).decode != nullptr; }

CodeLayout code_layout(WeightFormat format) { return decoder(format).layout; }

void decode_codes(WeightFormat format, const uint8_t* source, int64_t cols, int8_t* codes, float* scales,
                  float* minimums) {
  decoder(format).decode(source, cols, codes, scales, minimums);
}

}  // namespace ocellus
