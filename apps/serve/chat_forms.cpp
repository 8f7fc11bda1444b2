// ChatScheduler: what forms of answers cost goes to the request that has them, not to those beside it.
#include <algorithm>

#include "apps/base/clock.h"
#include "apps/serve/chat_job.h"
#include "apps/serve/chat_scheduler.h"

namespace ocellus::app {

// False while the job waits for its form. A job may leave then, but not while its session ends the compiling.
bool ChatScheduler::take_form(const Job& job) {
  job->constraint = forms_.take(*job->request.form, job->session, !must_stop(job));
  job->waits_for_form = job->constraint == nullptr;
  if (!job->waits_for_form || forms_.compiles_for(job->session)) return !job->waits_for_form;
  if (must_stop(job)) {
    drop(job);
  } else if (monotonic_ns() > job->deadline_ns) {
    fail(job, RequestError(504, "The request took longer than its deadline.", "", "deadline_exceeded"));
  }
  return false;
}

// All answers of a batch wait for the masks of one. An answer whose masks took more than its share of a slice sits out
// until the others had as much time without it.
void ChatScheduler::charge_masks(const std::vector<Job>& jobs, const std::vector<ocellus_generate_stats>& stats,
                                 double slice_ms) {
  for (const Job& job : running_) job->owed_ms = std::max(job->owed_ms - slice_ms, 0.0);
  const double share_ms = slice_ms / static_cast<double>(jobs.size());
  for (size_t i = 0; i < jobs.size() && jobs.size() > 1; ++i) {
    const double over_ms = stats[i].constraint_ms - share_ms;
    if (over_ms > 0) jobs[i]->owed_ms = over_ms * static_cast<double>(jobs.size());
  }
}

}  // namespace ocellus::app
