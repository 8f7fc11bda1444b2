#include "runtime/engine/picture_identity.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ocellus {

uint64_t hash64(const void* bytes, int64_t count) { return XXH3_64bits(bytes, static_cast<size_t>(count)); }

uint64_t prefix_of(uint64_t before, uint64_t part) {
  const uint64_t both[2] = {before, part};
  return hash64(both, sizeof both);
}

bool is_owner_name(std::string_view name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  if (name.empty() || name.size() > kMaxOwnerBytes || name[0] == '.') return false;
  for (const char c : name)
    if (!is_allowed(c)) return false;
  return true;
}

}  // namespace ocellus
