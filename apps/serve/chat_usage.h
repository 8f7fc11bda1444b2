// Tokens of a request, over all of its answers.
#pragma once

#include <cstdint>

namespace ocellus::app {

struct ChatUsage {
  int32_t prompt_tokens = 0;      // pictures included
  int32_t cached_tokens = 0;      // the part of them that a session had read before
  int32_t completion_tokens = 0;  // thought and its marks included
  int32_t reasoning_tokens = 0;   // the thought's, without its marks
};

}  // namespace ocellus::app
