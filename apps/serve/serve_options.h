// Settings of `ocellus serve`, as its requests see them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/serve/asked_retrieval.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// Names that requests may give the model.
struct ServedNames {
  std::vector<std::string> listed;  // the first one stands in answers to requests without a name
  std::vector<std::string> others;
  bool any = false;  // and every other name

  bool has(const std::string& name) const {
    const auto is_in = [&name](const auto& names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    return any || is_in(listed) || is_in(others);
  }
};

struct ServeOptions {
  int32_t queue = 16;                            // maximum number of waiting requests; more get 429
  int32_t deadline_s = 60;                       // from arrival; then the answer ends, or 504 if it has not begun
  int32_t choices = 8;                           // maximum answers of one request
  int64_t cache_bytes = 1;                       // planned for the keys and values of all sessions
  bool sees = false;                             // the model has a vision part
  int32_t text_tokens = 1 << 20;                 // maximum per conversation
  int32_t images = 0;                            // maximum per conversation, besides `retrievals`
  int32_t clip_frames = 0;                       // maximum frames of videos per conversation
  int32_t retrievals = 0;                        // pictures that the model may ask for during an answer
  RetrievalForm form = {};                       // the way in which it asks
  bool strict = false;                           // refuse unknown fields instead of ignoring them
  ServedNames names = {};                        // the model's
  std::string fingerprint;                       // identifies the model and the settings that change answers
  ocellus_generate_params params;                // defaults of requests
  int32_t vocabulary = 0;                        // number of tokens
  int32_t thinking = OCELLUS_THINKS_NEVER;       // the model's ocellus_thinking
  int32_t calls_tools = OCELLUS_TOOLS_NONE;      // the form of tools in the model's chat template
  int32_t image_numbers = OCELLUS_NUMBERS_NONE;  // pictures that are numbered in the model's prompts
  std::string default_system;                    // the model's own, where a conversation has none
  int32_t forms = 0;                             // forms of answers that are compiled at once; 0: none
  bool shares = false;                           // sessions share pictures on the device
  bool keeps_beginnings = false;                 // sessions keep what they have read, for requests that begin alike
  bool same_bits = false;                        // whatever they have read: --batch-invariant
  std::string owner;                             // the user of requests without a key of their own
  std::function<void()> enter;                   // called first on the engine's thread; may be empty
  std::function<void(const std::string&)> note;  // takes a line for the log; may be empty
};

}  // namespace ocellus::app
