// What attention over packed, moved and calibrated slots must give, in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/kv_run.h"
#include "kernels/rope.h"
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
  int32_t dim, bits;
  int64_t capacity;
  KvScaleForm form;

  RealBlock(const KvRun& run, const KvLayer& layer, int64_t head, int32_t head_dim)
      : dim(head_dim), bits(kv_bits(layer.format)), capacity(run.first + run.capacity), form(layer.scales) {
    data = run.data + layer.offset + head * ((scale_bytes() + 2 * value_bytes() + 15) / 16 * 16);
  }
  int64_t scale_bytes() const {
    if (form == KvScaleForm::kF16) return 8 * dim;
    return ((form == KvScaleForm::k6Bit ? 16 + 3 * dim : 4 * dim + capacity * (dim / 32) * 4) + 15) / 16 * 16;
  }
  int64_t value_bytes() const { return capacity * dim * bits / 8; }
  const uint8_t* codes(bool of_values) const {
    return reinterpret_cast<const uint8_t*>(data + scale_bytes() + (of_values ? value_bytes() : 0));
  }
  /// Row 0 to 3: key offsets, key steps, value offsets, value steps; by token, of the block's slot `slot`.
  double scale(int32_t row, int64_t e, int64_t slot = 0) const {
    const auto* halves = reinterpret_cast<const Half*>(data);
    if (form == KvScaleForm::kByToken && row >= 2)
      return as_double(halves[2 * dim + (slot * (dim / 32) + e / 32) * 2 + row - 2]);
    if (form != KvScaleForm::k6Bit) return as_double(halves[row * dim + e]);
    int32_t code = 0;
    for (int64_t bit = 0; bit < 6; ++bit) {
      const int64_t at = 6 * e + bit;
      const auto byte = static_cast<int32_t>(data[16 + row * dim * 3 / 4 + at / 8]);
      code |= (byte >> at % 8 & 1) << bit;
    }
    const double value = as_double(halves[2 * row]) + as_double(halves[2 * row + 1]) * code;
    return as_double(float_to_half(static_cast<float>(value)));
  }
  double element(int64_t slot, int64_t e, bool of_values) const {
    const uint8_t* row = codes(of_values) + slot * dim * bits / 8;
    return scale(of_values ? 2 : 0, e, slot) + scale(of_values ? 3 : 1, e, slot) * kv_code_at(row, bits, e);
  }
};

/// Reads slot `slot` of a run.
inline RealSlot read_slot(const KvRun& run, const KvLayer& layer, int64_t head, int64_t slot, int32_t dim) {
  RealSlot real;
  real.shift = run.position_shift;
  real.calibrated = run.calibrated || run.packed;
  real.visible_from = run.visible_from;
  for (int64_t e = 0; e < dim; ++e) {
    if (run.packed) {
      const RealBlock block(run, layer, head, dim);
      real.key.push_back(block.element(run.first + slot, e, false));
      real.value.push_back(block.element(run.first + slot, e, true));
      continue;
    }
    const std::byte* keys = run.data + layer.index * run.layer_stride + head * run.head_stride;
    const auto* halves = reinterpret_cast<const Half*>(keys) + slot * dim;
    real.key.push_back(as_double(halves[e]));
    real.value.push_back(as_double(halves[run.value_offset / 2 + e]));
  }
  return real;
}

/// A head rotated by so many positions.
inline std::vector<double> rotated(std::vector<double> x, const RopeParams& rope, int32_t positions) {
  for (int32_t i = 0; i < rope.rotated / 2; ++i) {
    const double exponent = -2.0 * i / rope.rotated;
    double angle =
        positions * static_cast<double>(rope.position_scale) * std::pow(static_cast<double>(rope.base), exponent);
    if (rope.factors != nullptr) angle /= static_cast<double>(rope.factors[i]);
    const bool halves = rope.pairing == RopePairing::kHalves;
    double& a = x[static_cast<size_t>(halves ? i : 2 * i)];
    double& b = x[static_cast<size_t>(halves ? i + rope.rotated / 2 : 2 * i + 1)];
    const double turned = a * std::cos(angle) - b * std::sin(angle);
    b = a * std::sin(angle) + b * std::cos(angle);
    a = turned;
  }
  return x;
}

/// q . k / sqrt(E) of every slot, calibrated as kv_run.h says.
inline std::vector<double> packed_scores(const std::vector<double>& query, const std::vector<RealSlot>& slots,
                                         const RopeParams& rope, const KvCalibration& calibration) {
  std::vector<double> scores;
  double low = INFINITY, high = -INFINITY;
  int32_t calibrated = 0, shift = 0;
  std::vector<double> turned = query;
  for (const RealSlot& slot : slots) {
    if (slot.shift != shift) turned = rotated(query, rope, -slot.shift);
    shift = slot.shift;
    double score = 0;
    for (size_t e = 0; e < query.size(); ++e) score += turned[e] * slot.key[e];
    scores.push_back(score / std::sqrt(static_cast<double>(query.size())));
    if (!slot.calibrated) continue;
    ++calibrated;
    low = std::min(low, scores.back());
    high = std::max(high, scores.back());
  }
  if (!calibration.on || calibrated < 2) return scores;
  const double tau_low = static_cast<double>(calibration.tau_low), tau_high = static_cast<double>(calibration.tau_high);
  const double slope = std::max(0.0, (high - low + tau_low - tau_high) / (high - low + 1e-8));
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i].calibrated) scores[i] = low - tau_low + slope * (scores[i] - low);
  return scores;
}

/// softmax(scores) values; zeros without slots.
inline std::vector<double> attend_packed(const std::vector<double>& query, const std::vector<RealSlot>& slots,
                                         const RopeParams& rope, const KvCalibration& calibration) {
  std::vector<double> out(query.size());
  if (slots.empty()) return out;
  const std::vector<double> scores = packed_scores(query, slots, rope, calibration);
  const double maximum = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    const double weight = std::exp(scores[i] - maximum);
    sum += weight;
    for (size_t e = 0; e < out.size(); ++e) out[e] += weight * slots[i].value[e];
  }
  for (double& value : out) value /= sum;
  return out;
}

}  // namespace ocellus::test
