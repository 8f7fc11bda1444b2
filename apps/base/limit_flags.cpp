#include "apps/base/limit_flags.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace ocellus::app {
namespace {

const std::map<std::string_view, const char*> kFlags = {{"lean", "--lean"},
                                                        {"kv_bits", "--kv-bits"},
                                                        {"keep", "--keep"},
                                                        {"evict", "--evict"},
                                                        {"compress_at", "--compress-at"},
                                                        {"kv_scheme", "--kv-scheme"},
                                                        {"reuse", "--reuse"},
                                                        {"max_images", "--images"},
                                                        {"max_clip_frames", "--clip-frames"},
                                                        {"max_tiles", "--image-tiles"},
                                                        {"max_image_rows", "--image-rows"},
                                                        {"shared_images", "--shared-images"},
                                                        {"max_sessions", "--sessions"},
                                                        {"max_constraints", "--schema"},
                                                        {"draft_rows", "--draft"},
                                                        {"reduce", "--reduce"},
                                                        {"reduce_keep", "--reduce-keep"},
                                                        {"reduce_ms", "--reduce-ms"},
                                                        {"view_change", "--view-change"},
                                                        {"kept_views", "--kept-views"},
                                                        {"max_text_tokens", "--text-tokens"},
                                                        {"max_image_pixels", "--image-pixels"},
                                                        {"max_whole_pixels", "--whole-pixels"},
                                                        {"max_image_side", "--image-side"},
                                                        {"max_prompt_rows", "--prompt-rows"}};
// Sentences whose limits have no name in them.
constexpr const char* kMore[][2] = {{"the memory of a constraint", " (--schema-size)"},
                                    {"plan more text tokens", " (--text-tokens)"}};

// Returns "--evict, --keep" for "evict, keep"; an empty text if one of the names is no limit's.
std::string flags_of(std::string_view limits) {
  std::string flags;
  for (size_t begin = 0, end = 0; end < limits.size(); begin = end + 2) {
    end = std::min(limits.find(", ", begin), limits.size());
    const auto known = kFlags.find(limits.substr(begin, end - begin));
    if (known == kFlags.end()) return "";
    flags += (flags.empty() ? "" : ", ") + std::string(known->second);
  }
  return flags;
}

}  // namespace

std::string name_flags(std::string sentence) {
  for (size_t begin = sentence.find('('); begin != std::string::npos; begin = sentence.find('(', begin + 1)) {
    const size_t end = sentence.find(')', begin);
    if (end == std::string::npos) break;
    const std::string flags = flags_of(std::string_view(sentence).substr(begin + 1, end - begin - 1));
    if (!flags.empty()) sentence.replace(begin + 1, end - begin - 1, flags);
  }
  for (const auto& [words, flag] : kMore)
    if (const size_t at = sentence.find(words); at != std::string::npos)
      sentence.insert(at + std::string_view(words).size(), flag);
  return sentence;
}

}  // namespace ocellus::app
