// The number of tokens that a model wrote.
#pragma once

#include <cstdint>

#include "runtime/ocellus.h"

namespace ocellus::app {

// Counts the tokens of an answer, of the thought before it, and of the marks around that.
inline int32_t written_tokens(const ocellus_generate_stats& stats) {
  return stats.generated_tokens + stats.thought_tokens + stats.thought_mark_tokens;
}

}  // namespace ocellus::app
