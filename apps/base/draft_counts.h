// DraftCounts: decode steps and guessed tokens of all answers, for /metrics.
#pragma once

#include "apps/base/prometheus.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

struct DraftCounts {
  int64_t steps = 0, drafted = 0, accepted = 0;

  void add(const ocellus_generate_stats& stats) {
    steps += stats.decode_steps;
    drafted += stats.drafted_tokens;
    accepted += stats.accepted_tokens;
  }
  void write(PrometheusText* out) const {
    out->add_counter("ocellus_decode_steps_total", "Steps that gave the tokens after the first.",
                     static_cast<double>(steps));
    out->add_counter("ocellus_draft_tokens_total", "Guessed tokens that were tried.", static_cast<double>(drafted));
    out->add_counter("ocellus_draft_accepted_tokens_total", "Guessed tokens that were right.",
                     static_cast<double>(accepted));
  }
};

}  // namespace ocellus::app
