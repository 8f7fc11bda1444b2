// Expected attention over packed, shifted and calibrated slots, in double precision.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/base/kv_run.h"
#include "kernels/rows/rope.h"
#include "quant/weight_format.h"

namespace ocellus::test {

/// One live slot as numbers.
struct RealSlot {
  std::vector<double> key, value;
  int32_t shift = 0;
  bool calibrated = false;
  int32_t visible_from = 0;  // row of a prompt
};

inline double as_double(Half half) { return static_cast<double>(half_to_float(half)); }

/// One head's part of a packed block; shares no code with the ops but the order of the elements' codes.
struct RealBlock {
  const std::byte* data;
  int32_t dim, bits[2];  // bits: of keys, of values
  int64_t capacity;
  KvScaleForm form;

  RealBlock(const KvRun& run, const KvLayer& layer, int64_t head, int32_t head_dim)
      : dim(head_dim),
        bits{key_bits(layer.format), value_bits(layer.format)},
        capacity(run.first + run.capacity),
        form(layer.scales) {
    const int64_t bytes = scale_bytes() + key_bytes() + capacity * row_bytes(true);
    data = run.data + layer.offset + head * ((bytes + 15) / 16 * 16);
  }
  int64_t row_bytes(bool of_values) const { return dim * bits[of_values] / 8; }
  int64_t scale_bytes() const {
    if (form == KvScaleForm::kF16) return 8 * dim;
    return ((form == KvScaleForm::k6Bit ? 16 + 3 * dim : 4 * dim + capacity * (dim / 32) * 4) + 15) / 16 * 16;
  }
  int64_t key_bytes() const {
    const int64_t bytes = capacity * row_bytes(false);
    return bits[0] == bits[1] ? bytes : (bytes + 15) / 16 * 16;
  }
  const uint8_t* codes(bool of_values) const {
    return reinterpret_cast<const uint8_t*>(data + scale_bytes() + (of_values ? key_bytes() : 0));
  }
  /// Row 0 to 3: key offsets, key steps, value offsets, value steps; by token, of the block's slot `slot`.
  double scale(int32_t row, int64_t e, int64_t slot = 0) const;
  double element(int64_t slot, int64_t e, bool of_values) const;
};

/// Reads slot `slot` of a run.
RealSlot read_slot(const KvRun& run, const KvLayer& layer, int64_t head, int64_t slot, int32_t dim);

/// Rotates a head by `positions` positions.
std::vector<double> rotated(std::vector<double> x, const RopeParams& rope, int32_t positions);

/// q . k / sqrt(E) of every slot, calibrated as kv_run.h says.
std::vector<double> packed_scores(const std::vector<double>& query, const std::vector<RealSlot>& slots,
                                  const RopeParams& rope, const KvCalibration& calibration);

/// softmax(scores) values; zeros without slots.
std::vector<double> attend_packed(const std::vector<double>& query, const std::vector<RealSlot>& slots,
                                  const RopeParams& rope, const KvCalibration& calibration);

}  // namespace ocellus::test
