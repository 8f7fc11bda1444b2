#include "tests/support/packed_reference.h"

#include <algorithm>
#include <cmath>

#include "tests/support/packed_codes.h"

namespace ocellus::test {

double RealBlock::scale(int32_t row, int64_t e, int64_t slot) const {
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

double RealBlock::element(int64_t slot, int64_t e, bool of_values) const {
  const uint8_t* row = codes(of_values) + slot * row_bytes(of_values);
  return scale(of_values ? 2 : 0, e, slot) +
         scale(of_values ? 3 : 1, e, slot) * test::kv_code_at(row, bits[of_values], e);
}

RealSlot read_slot(const KvRun& run, const KvLayer& layer, int64_t head, int64_t slot, int32_t dim) {
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

std::vector<double> rotated(std::vector<double> x, const RopeParams& rope, int32_t positions) {
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

std::vector<double> packed_scores(const std::vector<double>& query, const std::vector<RealSlot>& slots,
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

std::vector<double> attend_packed(const std::vector<double>& query, const std::vector<RealSlot>& slots,
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
