#include <algorithm>
#include <cmath>

#include "kernels/backends.h"
#include "kernels/sampling/top_tokens.h"

namespace ocellus {
namespace {

/// Fills the tokens of `top`, `most` at most and one at least if there is any, and leaves their logits in its
/// log-probabilities.
void select_top(const float* logits, int64_t vocabulary, int32_t most, TopTokens& top) {
  top.count = 0;
  float* const best = top.log_probabilities;
  for (int64_t i = 0; i < vocabulary; ++i) {
    const float logit = logits[i];
    if (std::isnan(logit) || (top.count == most && !(logit > best[most - 1]))) continue;
    int32_t at = std::min(top.count, most - 1);
    for (; at > 0 && logit > best[at - 1]; --at) {
      best[at] = best[at - 1];
      top.tokens[at] = top.tokens[at - 1];
    }
    best[at] = logit;
    top.tokens[at] = static_cast<int32_t>(i);
    top.count = std::min(top.count + 1, most);
  }
}

}  // namespace

void cpu::list_top_tokens(const TopTokensArgs& args, Queue& queue) {
  const int64_t vocabulary = args.logits.cols;
  queue.parallel(args.logits.rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b) {
      const StepRow& row = args.steps[b];
      const int32_t wanted = row.sampler.top_tokens;
      if (row.active == 0 || wanted < 0) continue;
      const float* const logits = args.logits.row(b);
      TopTokens& top = args.tops[row.step % kResultSteps * args.top_stride + b];
      select_top(logits, vocabulary, std::max(wanted, 1), top);
      LogitNotes& notes = args.notes[b];
      for (int32_t i = 0; i < std::max(kMostLogitBiases, kRecentTokens); ++i)
        note_logits(row, logits, vocabulary, i, notes);
      if (top.count > 0) {
        notes.largest = top.log_probabilities[0];
        notes.log_total = log_total_of(logits, vocabulary, notes.largest);
      }
      for (int32_t i = 0; i < top.count; ++i)
        top.log_probabilities[i] = log_share(top.log_probabilities[i], notes.largest, notes.log_total);
      top.count = std::min(top.count, wanted);
    }
  });
}

}  // namespace ocellus
