// Devices of op tests: the CPU, and a GPU if there is one. Buffers are memory that both can read and write, so that
// one test serves both backends.
//
//   test::for_each_backend([&](Queue& queue) {
//     test::Activations out(queue, T, N);              // f32 on the CPU, f16 on CUDA
//     op({.output = out.view()}, queue);
//     REQUIRE(queue.finish().ok());
//     CHECK(out.intact());
//   });
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>

#include "platform/queue.h"
#include "quant/weight_format.h"
#include "tests/support/guard.h"
#include "tests/support/test_queue.h"
#include "tests/support/visible_memory.h"

namespace ocellus::test {

/// A queue on the first GPU, opened once; null if there is none.
Queue* cuda_queue();

/// Switches a setting of a queue on for a while.
template <void (Queue::*kSet)(bool)>
class WhileSet {
 public:
  explicit WhileSet(Queue& queue) : queue_(queue) { (queue_.*kSet)(true); }
  ~WhileSet() { (queue_.*kSet)(false); }
  WhileSet(const WhileSet&) = delete;
  WhileSet& operator=(const WhileSet&) = delete;

 private:
  Queue& queue_;
};
using Lean = WhileSet<&Queue::set_lean>;
using BatchInvariant = WhileSet<&Queue::set_batch_invariant>;

/// Calls body(queue) for the CPU and, where there is one, the GPU; in small runs for the GPU only, if there is one.
void for_each_backend(const std::function<void(Queue&)>& body);

/// As for_each_backend, with the CPU's kernels held to each vector target in turn.
void for_each_backend_and_target(const std::function<void(Queue&)>& body);

/// Maximum distance of an exact value from its f16 rounding: half a step.
inline double half_rounding(double value) {
  const int exponent = std::max(std::ilogb(std::max(std::abs(value), 1e-30)), -14);
  return std::ldexp(1.0, exponent - 11);
}

/// Activation rows of the queue's type, guarded.
class Activations {
 public:
  Activations(Queue& queue, int64_t rows, int64_t cols, int64_t stride)
      : is_half_(queue.traits().activations() == ActivationType::kF16),
        floats_(is_half_ ? 0 : rows, cols, stride),
        halves_(is_half_ ? rows : 0, cols, stride) {}
  Activations(Queue& queue, int64_t rows, int64_t cols) : Activations(queue, rows, cols, cols) {}

  bool is_half() const { return is_half_; }
  ActivationView view() { return is_half_ ? ActivationView(halves_.view()) : ActivationView(floats_.view()); }
  /// Stores the value as the type can hold it.
  void set(int64_t row, int64_t col, float value) {
    if (is_half_)
      halves_.at(row, col) = float_to_half(value);
    else
      floats_.at(row, col) = value;
  }
  float get(int64_t row, int64_t col) const {
    return is_half_ ? half_to_float(halves_.at(row, col)) : floats_.at(row, col);
  }
  /// Rounding error that the type adds to a stored value; the value stored for one that is too large.
  double rounding(double value) const { return is_half_ ? half_rounding(value) : 0.0; }
  double limited(double value) const { return is_half_ ? std::clamp(value, -65504.0, 65504.0) : value; }
  bool intact() const { return is_half_ ? halves_.intact() : floats_.intact(); }
  int64_t untouched_count() const { return is_half_ ? halves_.untouched_count() : floats_.untouched_count(); }

 private:
  bool is_half_;
  Guarded<float> floats_;  // the other one has no rows
  Guarded<Half> halves_;
};

}  // namespace ocellus::test
