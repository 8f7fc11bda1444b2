// HEIC and AVIF files by their first bytes.
#pragma once

#include <cstdint>
#include <cstring>

namespace ocellus {

/// Returns "a HEIC", "an AVIF" or "a HEIF" if the bytes begin like one, by the first brand of the file; else null.
inline const char* heif_kind(const uint8_t* bytes, int64_t size_bytes) {
  if (size_bytes < 12 || std::memcmp(bytes + 4, "ftyp", 4) != 0) return nullptr;
  struct Brand {
    char name[5];
    const char* kind;
  };
  constexpr Brand kBrands[] = {{"heic", "a HEIC"}, {"heix", "a HEIC"},  {"heim", "a HEIC"},  {"heis", "a HEIC"},
                               {"hevc", "a HEIC"}, {"avif", "an AVIF"}, {"avis", "an AVIF"}, {"mif1", "a HEIF"},
                               {"msf1", "a HEIF"}, {"heif", "a HEIF"}};
  for (const Brand& brand : kBrands)
    if (std::memcmp(bytes + 8, brand.name, 4) == 0) return brand.kind;
  return nullptr;
}

}  // namespace ocellus
