// Storage of keys and values in the cache: f16, or as min/max codes of 8, 4, 2 or 1 bits (CalibQuant, KIVI).
//
// A packed block holds the visual slots of one image for one layer and one key/value head. Every channel of its keys
// has an offset and a step, and so has every channel of its values; a value x is stored as the integer code
//
//   code = clamp(round((x - offset) / step), 0, 2^b - 1),   read as offset + step * code
//
// Round is to nearest, ties to even. Offset and step are f16, and codes are made with their rounded values. The bytes:
//
//   scales   [4, E] f16: key offsets, key steps, value offsets, value steps; or small ones (kv_scales.h)
//   keys     [capacity, E b / 8]   codes; a row holds one slot, so that rows can be dropped or read alone
//   values   [capacity, E b / 8]   their b may differ from that of keys (KVTuner, Li et al. 2025): then on 16 bytes
//
// Codes of a row follow each other from the most significant bits of the first byte on (CalibQuant's public code).
//
// KIVI (Liu et al. 2024) scales keys in the same way, over the tokens of a block, but values token by token, in groups
// of 32 channels. Its public code puts a row's first code into the least significant bits, and keys' codes side by side
// along tokens; that order is all that differs.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "platform/everywhere.h"
#include "platform/views.h"

namespace ocellus {

/// Bits of keys and of values: 16 >> n of the lower and of the upper four bits n. Those with unequal bits have no name;
/// kv_format_of makes them.
enum class KvFormat : uint8_t { kF16 = 0x00, k8Bit = 0x11, k4Bit = 0x22, k2Bit = 0x33, k1Bit = 0x44 };

/// Bits of one key or value: 16, 8, 4, 2 or 1.
OCELLUS_EVERYWHERE constexpr int32_t key_bits(KvFormat format) { return 16 >> (static_cast<int>(format) & 15); }
OCELLUS_EVERYWHERE constexpr int32_t value_bits(KvFormat format) { return 16 >> (static_cast<int>(format) >> 4); }
/// The larger of both.
OCELLUS_EVERYWHERE constexpr int32_t most_bits(KvFormat format) {
  return key_bits(format) > value_bits(format) ? key_bits(format) : value_bits(format);
}
OCELLUS_EVERYWHERE constexpr bool is_packed(KvFormat format) { return format != KvFormat::kF16; }
constexpr bool has_kv_format(int32_t bits) { return bits == 16 || bits == 8 || bits == 4 || bits == 2 || bits == 1; }
/// True if keys and values can have these bits: equal ones, or of 8, 4, 2 and 1 two of which one is at most four times
/// the other.
constexpr bool has_kv_format(int32_t keys, int32_t values) {
  if (!has_kv_format(keys) || !has_kv_format(values)) return false;
  return keys == values || (keys < 16 && values < 16 && keys <= 4 * values && values <= 4 * keys);
}
/// Returns the format with the given bits; requires has_kv_format(keys, values).
constexpr KvFormat kv_format_of(int32_t keys, int32_t values) {
  int code = 0;
  for (int32_t bits = 16; bits > keys; bits /= 2) code += 0x01;
  for (int32_t bits = 16; bits > values; bits /= 2) code += 0x10;
  return static_cast<KvFormat>(code);
}
constexpr KvFormat kv_format_of(int32_t bits) { return kv_format_of(bits, bits); }

/// Rows of scales before the codes of a packed block.
enum KvScaleRow { kKeyOffsets = 0, kKeySteps, kValueOffsets, kValueSteps, kKvScaleRows };

/// Storage of offsets and steps.
enum class KvScaleForm : uint8_t {
  kF16 = 0,  // as f16
  k6Bit,     // 6 bits each, relative to the range of their row
  kByToken   // f16; values have them by slot and group of channels, [capacity, E / 32, 2], after those of keys (KIVI)
};

/// Channels of a value that share an offset and a step with KvScaleForm::kByToken. E is a multiple of it.
inline constexpr int32_t kValueGroup = 32;

/// Offsets of the parts of a block, in bytes from its start. E is a multiple of 8, so that a row is whole bytes.
struct KvBlockLayout {
  int64_t key_row_bytes = 0;  // bytes of one slot's keys, and of its values
  int64_t value_row_bytes = 0;
  int64_t keys = 0;          // after the scales, on 16 bytes; 0 for f16
  int64_t values = 0;        // after the keys of all slots; if bits differ, on 16 bytes
  int64_t bytes = 0;         // bytes of the whole block
  int64_t padded_bytes = 0;  // rounded up so that the next block starts on 16 bytes

  /// Bytes of a slot's keys and values.
  OCELLUS_EVERYWHERE constexpr int64_t slot_bytes() const { return key_row_bytes + value_row_bytes; }
  OCELLUS_EVERYWHERE static constexpr KvBlockLayout of(KvFormat format, int32_t head_dim, int64_t capacity,
                                                       KvScaleForm scales = KvScaleForm::kF16) {
    KvBlockLayout layout;
    layout.key_row_bytes = int64_t{head_dim} * key_bits(format) / 8;
    layout.value_row_bytes = int64_t{head_dim} * value_bits(format) / 8;
    layout.keys = is_packed(format) ? scale_bytes(head_dim, capacity, scales) : 0;
    layout.values = layout.keys + capacity * layout.key_row_bytes;
    if (key_bits(format) != value_bits(format)) layout.values = (layout.values + 15) / 16 * 16;
    layout.bytes = layout.values + capacity * layout.value_row_bytes;
    layout.padded_bytes = (layout.bytes + 15) / 16 * 16;
    return layout;
  }
  /// Bytes of a packed block's scales. 6 bits: the ends of all rows, 4 bytes each, then the rows, 4 codes in 3 bytes.
  OCELLUS_EVERYWHERE static constexpr int64_t scale_bytes(int32_t head_dim, int64_t capacity, KvScaleForm scales) {
    switch (scales) {
      case KvScaleForm::kF16: break;
      case KvScaleForm::k6Bit: return (kKvScaleRows * (4 + int64_t{3} * head_dim / 4) + 15) / 16 * 16;
      case KvScaleForm::kByToken:
        return (token_scales_at(head_dim) + capacity * token_scale_bytes(head_dim) + 15) / 16 * 16;
    }
    return int64_t{2} * kKvScaleRows * head_dim;
  }
  /// Scales by token: offset of the values' scales in a block, and their bytes per slot.
  OCELLUS_EVERYWHERE static constexpr int64_t token_scales_at(int32_t head_dim) { return int64_t{4} * head_dim; }
  OCELLUS_EVERYWHERE static constexpr int64_t token_scale_bytes(int32_t head_dim) {
    return int64_t{4} * (head_dim / kValueGroup);
  }
};

/// Offset and step of a channel whose values lie in [least, greatest]; both still to be rounded to f16, which can hold
/// them. The step is never zero: a constant channel has code 0 everywhere, which decodes to the constant. A `range`
/// below 1 shrinks the ends towards zero, as the code published with CalibQuant does for 1 bit (0.5 for keys, 0.3 for
/// values).
struct KvScale {
  float offset = 0;
  float step = 1;

  OCELLUS_EVERYWHERE static KvScale of(float least, float greatest, float range, int32_t bits) {
    // No product is added to anything, so compilers that fuse multiply-adds give the same bits. Adding 0 maps -0 to +0.
    const float low = range * (least + 0.0f);
    const float step = range * (greatest - least) / static_cast<float>((1 << bits) - 1);
    return {low, std::fmin(std::fmax(step, 1e-6f * std::fmax(1.0f, std::fabs(low))), 65504.0f)};
  }
};

}  // namespace ocellus
