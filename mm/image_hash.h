// The identity of an image span: a 128-bit hash of what the vision tower sees, so that the same picture under the same
// preprocessing is recognised again. Not a cryptographic hash: keyed, owner-scoped names are made above this.
#pragma once

#include <cstdint>

#include "mm/preprocess.h"
#include "mm/rgb_image.h"

namespace ocellus {

struct ImageHash {
  uint64_t high = 0;
  uint64_t low = 0;
  friend constexpr bool operator==(const ImageHash&, const ImageHash&) = default;
};

/// XXH3-128 over size, RGB rows (never the bytes between rows) and every field of the configuration that changes
/// pixels; max_views does not. The same on every machine.
ImageHash hash_image(const RgbImage& image, const PreprocessConfig& config);

}  // namespace ocellus
