#include "runtime/branches/draft/step_times.h"

#include <algorithm>

namespace ocellus {

void StepTimes::note(int64_t rows, float ms) {
  if (rows > kMostDraftRows) return;
  constexpr float kNewest = 0.125f, kForgotten = 0.0005f;
  for (float& other : ms_) other *= 1 - kForgotten;
  float& own = ms_[rows];
  own = own == 0 ? ms : own + kNewest * (ms - own);
}

float StepTimes::of(int64_t rows) const {
  rows = std::min<int64_t>(rows, kMostDraftRows);
  while (rows > 0 && ms_[rows] == 0) --rows;
  return ms_[rows];
}

}  // namespace ocellus
