// CopiedRuns: the list of runs that expand_kv puts at given rows.
#pragma once

#include "platform/arena.h"
#include "runtime/cache/kv_pools.h"

namespace ocellus {

class CopiedRuns {
 public:
  /// `runs` and `first_rows` have room for all pieces that runs are cut into.
  CopiedRuns(const HostView<KvRun>& runs, const HostView<int32_t>& first_rows, int64_t head_dim)
      : runs_(runs), first_rows_(first_rows), dim_(static_cast<int32_t>(head_dim)) {}

  /// Adds a run whose slots become the rows from `row` on.
  void add(const KvRun& whole, int64_t row) {
    visit_pieces(whole, TileLimits::of_copies(), dim_, [&](const KvRun& run) {
      runs_.data[count_] = run;
      first_rows_.data[count_++] = static_cast<int32_t>(row);
      row += run.slots;
    });
  }
  int64_t count() const { return count_; }

 private:
  HostView<KvRun> runs_;
  HostView<int32_t> first_rows_;
  int32_t dim_;
  int64_t count_ = 0;
};

}  // namespace ocellus
