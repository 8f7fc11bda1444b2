#include "runtime/branches/library/library_words.h"

#include "runtime/branches/library/image_library.h"

namespace ocellus {
namespace {

// SQLite takes a zero byte for the end, even inside a phrase.
bool ends_word(char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F; }

Status refuse() {
  return OCELLUS_FAIL(Code::kBadArgument, "a search of captions takes 1 to %d words, of at most %d bytes in all",
                      kMaxSearchWords, kMaxSearchBytes);
}

Status append(std::string_view text, Buffer<char>* out) {
  for (const char c : text) OCELLUS_TRY(out->push(c));
  return {};
}

}  // namespace

Status quote_words(std::string_view words, Buffer<char>* out) {
  *out = {};
  if (words.size() > kMaxSearchBytes) return refuse();
  int32_t count = 0;
  for (size_t at = 0; at < words.size();) {
    if (ends_word(words[at])) {
      ++at;
      continue;
    }
    if (++count > kMaxSearchWords) return refuse();
    OCELLUS_TRY(append(count > 1 ? " OR \"" : "\"", out));
    for (; at < words.size() && !ends_word(words[at]); ++at)
      OCELLUS_TRY(append(words[at] == '"' ? "\"\"" : words.substr(at, 1), out));
    OCELLUS_TRY(out->push('"'));
  }
  return count > 0 ? Status() : refuse();
}

}  // namespace ocellus
