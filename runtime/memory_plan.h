// The memory plan: the table of every byte, its totals, the verdict, and what would make it fit.
#pragma once

#include "runtime/engine_memory.h"
#include "runtime/ocellus.h"

namespace ocellus {

/// Records rows instead of taking memory. Rows of the same name and phase (one per session) become one, with their
/// bytes added up and their number as the third dimension.
class PlanRecorder : public RowSink {
 public:
  Status take(const RowSpec& row, std::byte** out) override;

  int64_t lifetime_bytes(Lifetime lifetime) const;
  /// Phases share their bytes: the scratch of the plan is that of the largest phase.
  int64_t phase_bytes(Phase phase) const { return phase_bytes_[static_cast<int>(phase)]; }
  int64_t total_bytes() const;
  int row_count() const { return row_count_; }
  const RowSpec& row(int i) const { return rows_[i]; }

 private:
  RowSpec rows_[OCELLUS_PLAN_MAX_ROWS];
  int row_count_ = 0;
  int64_t lifetime_bytes_[kLifetimeCount] = {};
  int64_t phase_bytes_[kPhaseCount] = {};
};

/// Exactly what an engine with these limits allocates, and if that is over the budget, advice. Loads no weights. Ok
/// also when the plan does not fit: see out->fits.
Status plan_memory(const Model& model, const ocellus_limits& limits, ocellus_plan* out);

}  // namespace ocellus
