#include "apps/setup/plan_advice.h"

#include <algorithm>
#include <iterator>

namespace ocellus::app {
namespace {

struct LimitFlag {
  const char* limit;
  const char* flag;
};
constexpr LimitFlag kFlags[] = {{"(lean)", "(--lean)"},
                                {"(kv_bits)", "(--kv-bits)"},
                                {"(keep)", "(--keep)"},
                                {"(evict, keep)", "(--evict, --keep)"},
                                {"(max_images)", "(--images)"},
                                {"(max_tiles)", "(--image-tiles)"},
                                {"(max_sessions)", "(--sessions)"},
                                {"(max_text_tokens)", "(--text-tokens)"},
                                {"(max_image_pixels)", "(--image-pixels)"},
                                {"(max_whole_pixels)", "(--whole-pixels)"},
                                {"(max_prompt_rows)", "(--prompt-rows)"}};

}  // namespace

std::string advice_in_flags(const std::string& advice) {
  const size_t open = advice.find('('), close = advice.find(')', open);
  if (close == std::string::npos) return advice;
  const std::string limit = advice.substr(open, close + 1 - open);
  const auto* const known = std::find_if(std::begin(kFlags), std::end(kFlags),
                                         [&limit](const LimitFlag& flag) { return limit == flag.limit; });
  if (known == std::end(kFlags)) return advice;
  return advice.substr(0, open) + known->flag + advice.substr(close + 1);
}

}  // namespace ocellus::app
