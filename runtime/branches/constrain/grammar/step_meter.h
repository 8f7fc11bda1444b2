// StepMeter: how much work a constraint may take, counted in steps and so the same on every machine, and the stop that
// is looked at meanwhile.
#pragma once

#include <algorithm>

#include "platform/queue.h"
#include "platform/status.h"

namespace ocellus {

/// Steps of compiling a constraint, and of the mask of one token: each a few instructions on memory that is mostly
/// cached, so that they take under a second and under 50 ms on a slow core
/// (tools/bench/results/hostile_constraints_cpu).
inline constexpr int64_t kMostCompileSteps = int64_t{100} << 20;
inline constexpr int64_t kMostMaskSteps = int64_t{4} << 20;

class StepMeter {
 public:
  /// Without a bound.
  StepMeter() = default;
  /// `what` stands in the sentence of the refusal, a string literal. `stop`: looked at every so often; null: none.
  StepMeter(const char* what, int64_t most, const StopSignal* stop) : what_(what), most_(most), stop_(stop) {}

  /// False once more than all steps were taken, or the work is to stop; status() says which.
  bool spend(int64_t steps) {
    taken_ += steps;
    return taken_ < look_at_ || look();
  }
  const StopSignal* stop() const { return stop_; }
  int64_t taken() const { return taken_; }
  int64_t left() const { return std::max<int64_t>(most_ - taken_, 0); }
  /// kUnsupported after too many steps, kCancelled and kDeadline after a stop.
  Status status() const { return status_; }

 private:
  static constexpr int64_t kLookEvery = int64_t{1} << 16;  // steps: under a millisecond

  bool look() {
    if (!status_.ok()) return false;
    if (taken_ > most_)
      status_ = OCELLUS_FAIL(Code::kUnsupported,
                             "%s takes more than %lld steps: make it simpler, with fewer counts and "
                             "choices inside each other",
                             what_, static_cast<long long>(most_));
    else if (stop_ != nullptr)
      status_ = stop_->check();
    look_at_ = status_.ok() ? std::min(taken_ + kLookEvery, most_ + 1) : 0;
    return status_.ok();
  }

  const char* what_ = "the constraint";
  int64_t most_ = INT64_MAX - 1;
  const StopSignal* stop_ = nullptr;
  int64_t taken_ = 0;
  int64_t look_at_ = 0;  // steps after which is looked
  Status status_;
};

}  // namespace ocellus
