// The memory plan: the table of all buffers, its totals, the verdict, and the changes that would make it fit.
#pragma once

#include "runtime/engine/engine_memory.h"
#include "runtime/ocellus.h"

namespace ocellus {

/// Records rows instead of taking memory. Rows of the same name and phase (one per session) are merged, with their
/// bytes added and their number as the third dimension.
class PlanRecorder : public RowSink {
 public:
  explicit PlanRecorder(const DeviceTraits& device = {}) : device_(device) {}
  bool shares_host_memory() const override { return device_.shares_memory; }
  Status take(const RowSpec& row, std::byte** out) override;

  int64_t lifetime_bytes(Lifetime lifetime) const;
  /// The kind of memory that the row counts as: host rows of a GPU's engine are staging, whatever their lifetime.
  Lifetime counted_as(const RowSpec& row) const {
    return device_.is_cuda() && row.place == Place::kHost ? Lifetime::kStaging : row.lifetime;
  }
  int64_t total_bytes() const;
  int row_count() const { return row_count_; }
  const RowSpec& row(int i) const { return rows_[i]; }

 private:
  struct PhaseBytes {
    Phase phase;
    int64_t bytes[kPlaceCount] = {};  // [0]: the device's, or all where there is one memory
  };
  static constexpr int kMaxPhases = 8;

  /// Adds to the bytes of the phase. kInternal if it is one phase too many.
  Status add_to_phase(Phase phase, int place, int64_t bytes);
  /// Phases share their bytes: the scratch of the plan is that of the largest phase.
  int64_t largest_phase(int place) const;

  DeviceTraits device_;
  RowSpec rows_[OCELLUS_PLAN_MAX_ROWS];
  int row_count_ = 0;
  int64_t lifetime_bytes_[kLifetimeCount] = {};  // without phases
  PhaseBytes phases_[kMaxPhases];
  int phase_count_ = 0;
};

/// Computes exactly what an engine with these limits allocates, and if that is over the budget, advice. Loads no
/// weights. Ok also if the plan does not fit: see out->fits.
Status plan_memory(const Model& model, const ocellus_limits& limits, ocellus_plan* out);

}  // namespace ocellus
