// Plain references in double precision, written to be read, not to be run often.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/base/kv_run.h"
#include "quant/weight_format.h"

namespace ocellus::test {

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
inline double squared_relu(double x) { return x > 0 ? x * x : 0.0; }
inline double quick_gelu(double x) { return x * sigmoid(1.702 * x); }
inline double gelu_erf(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
inline double gelu_tanh(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

/// One visible slot: its key and value rows.
struct Slot {
  const Half* key;
  const Half* value;
  double bias = 0;  // added to the score
};

/// softmax(query . keys / sqrt(dim)) values. Tests call it often, so it is compiled as the library is.
std::vector<double> attend(const float* query, const std::vector<Slot>& slots, int64_t dim);

/// The live slots of some runs, for one layer and key/value head.
inline std::vector<Slot> live_slots(const KvRun* runs, int64_t run_count, int64_t layer, int64_t head, int64_t dim) {
  std::vector<Slot> slots;
  for (int64_t i = 0; i < run_count; ++i) {
    for (int64_t slot = 0; slot < runs[i].slots; ++slot) {
      slots.push_back({run_keys(runs[i], layer, head) + slot * dim, run_values(runs[i], layer, head) + slot * dim});
    }
  }
  return slots;
}

}  // namespace ocellus::test
