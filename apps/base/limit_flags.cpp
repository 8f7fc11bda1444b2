#include "apps/base/limit_flags.h"

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
                                {"(evict)", "(--evict)"},
                                {"(compress_at)", "(--compress-at)"},
                                {"(evict, compress_at)", "(--evict, --compress-at)"},
                                {"(kv_scheme)", "(--kv-scheme)"},
                                {"(reuse)", "(--reuse)"},
                                {"(max_images)", "(--images)"},
                                {"(max_clip_frames)", "(--clip-frames)"},
                                {"(max_tiles)", "(--image-tiles)"},
                                {"(max_image_rows)", "(--image-rows)"},
                                {"(shared_images)", "(--shared-images)"},
                                {"(max_sessions)", "(--sessions)"},
                                {"(max_constraints)", "(--schema)"},
                                {"the memory of a constraint", "the memory of a constraint (--schema-size)"},
                                {"(draft_rows)", "(--draft)"},
                                {"(reduce)", "(--reduce)"},
                                {"(reduce_keep)", "(--reduce-keep)"},
                                {"(reduce_ms)", "(--reduce-ms)"},
                                {"(view_change)", "(--view-change)"},
                                {"(kept_views)", "(--kept-views)"},
                                {"(max_text_tokens)", "(--text-tokens)"},
                                {"plan more text tokens", "plan more text tokens (--text-tokens)"},
                                {"(max_image_pixels)", "(--image-pixels)"},
                                {"(max_whole_pixels)", "(--whole-pixels)"},
                                {"(max_image_side)", "(--image-side)"},
                                {"(max_prompt_rows)", "(--prompt-rows)"}};

}  // namespace

std::string name_flags(std::string sentence) {
  for (const LimitFlag& known : kFlags) {
    const std::string limit = known.limit;
    if (const size_t at = sentence.find(limit); at != std::string::npos) sentence.replace(at, limit.size(), known.flag);
  }
  return sentence;
}

}  // namespace ocellus::app
