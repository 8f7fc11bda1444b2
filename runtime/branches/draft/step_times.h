// StepTimes: how long decode steps take, for the choice of how much of a draft is tried.
#pragma once

#include <cstdint>

namespace ocellus {

/// Maximum rows of one session in a step: its newest token and guessed ones.
inline constexpr int32_t kMostDraftRows = 16;

/// Milliseconds of a step by its number of rows. Sizes that were not tried lately are taken for faster than they were,
/// so that they are tried again.
class StepTimes {
 public:
  void note(int64_t rows, float ms);
  /// Returns an estimate; that of fewer rows, if there is none. 0: no step was timed.
  float of(int64_t rows) const;

 private:
  float ms_[kMostDraftRows + 1] = {};
};

}  // namespace ocellus
