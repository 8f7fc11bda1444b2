#include "quant/block_codes.h"

#include <cstring>

namespace ocellus {
namespace {

// The levels of IQ4_NL, from ggml-common.h of llama.cpp.
constexpr int8_t kNonLinearLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

template <class T>
T read(const uint8_t* source) {
  T value;
  std::memcpy(&value, source, sizeof value);
  return value;
}

float read_half(const uint8_t* source) { return half_to_float(read<Half>(source)); }

// One type per format: how long a block is, how its groups look, and how one block becomes codes.

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
  static constexpr CodeLayout kLayout{32, false};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales, float*) {
    scales[0] = read_half(block);
    for (int j = 0; j < 16; ++j) {
      codes[j] = kNonLinearLevels[block[2 + j] & 15];
      codes[j + 16] = kNonLinearLevels[block[2 + j] >> 4];
    }
  }
};

// As above with a fifth bit per element: bit j of `high` belongs to element j.
template <int kOffset>
void unpack_five_bits(const uint8_t* __restrict nibbles, uint32_t high, int8_t* __restrict codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = static_cast<int8_t>(((nibbles[j] & 15) | (((high >> j) & 1) << 4)) - kOffset);
    codes[j + 16] = static_cast<int8_t>(((nibbles[j] >> 4) | (((high >> (j + 16)) & 1) << 4)) - kOffset);
  }
}

struct Q5_0 {
  static constexpr int kBytes = 22, kElements = 32;
  static constexpr CodeLayout kLayout{32, false};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales, float*) {
    scales[0] = read_half(block);
    unpack_five_bits<16>(block + 6, read<uint32_t>(block + 2), codes);
  }
};

struct Q5_1 {
  static constexpr int kBytes = 24, kElements = 32;
  static constexpr CodeLayout kLayout{32, true};
  static void decode(const uint8_t* __restrict block, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict minimums) {
    scales[0] = read_half(block);
    minimums[0] = -read_half(block + 2);
    unpack_five_bits<0>(block + 8, read<uint32_t>(block + 4), codes);
  }
};

// Q4_K and Q5_K: eight groups whose 6-bit scales and minimums share twelve bytes, times one half each.
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

// In the order of WeightFormat; the plain formats have no codes.
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
