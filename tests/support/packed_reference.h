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
};

inline double as_double(Half half) { return static_cast<double>(half_to_float(half)); }

/// Reads slot `slot` of a block; shares no code with the ops but the order of the codes.
inline RealSlot read_slot(const KvRun& run, int64_t layer, int64_t head, int64_t slot, int32_t dim) {
  RealSlot real;
  real.shift = run.position_shift;
  real.calibrated = run.calibrated || is_packed(run.format);
  const std::byte* block = run.data + layer * run.layer_stride + head * run.head_stride;
  const int32_t bits = kv_bits(run.format);
  const auto* scales = reinterpret_cast<const Half*>(block);
  const std::byte* key = block + (is_packed(run.format) ? 8 * dim : 0) + (run.first + slot) * dim * bits / 8;
  for (int64_t e = 0; e < dim; ++e) {
    if (!is_packed(run.format)) {
      const auto* halves = reinterpret_cast<const Half*>(block) + slot * dim;
      real.key.push_back(as_double(halves[e]));
      real.value.push_back(as_double(halves[run.value_offset / 2 + e]));
      continue;
    }
    const auto* codes = reinterpret_cast<const uint8_t*>(key);
    real.key.push_back(as_double(scales[e]) + as_double(scales[dim + e]) * kv_code_at(codes, bits, e));
    real.value.push_back(as_double(scales[2 * dim + e]) +
                         as_double(scales[3 * dim + e]) * kv_code_at(codes + run.value_offset, bits, e));
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
