// The identity of an image: a 128-bit hash of the vision tower's input, so that the same picture under the same
// preprocessing is recognised again. Not a cryptographic hash: keys by owner are derived from it elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mm/pictures/row_consumer.h"
#include "mm/views/preprocess.h"

namespace ocellus {

struct ImageHash {
  uint64_t high = 0;
  uint64_t low = 0;
  friend constexpr bool operator==(const ImageHash&, const ImageHash&) = default;
};

/// XXH3-128 over size, RGB rows and every field of the configuration that changes pixels; max_views does not. The same
/// on every machine. For a rotated picture, over its orientation and its rows as stored.
class ImageHasher final : public RowConsumer {
 public:
  /// Width and height are those after rotation.
  ImageHasher(const PreprocessConfig& config, int32_t width, int32_t height, const Orientation& orientation);
  void take(const uint8_t* row) override;
  ImageHash finish() const;

 private:
  alignas(64) std::byte state_[640];  // state of xxHash
  size_t row_bytes_;
};

/// Identity of a pair of frames, in this order.
ImageHash pair_hash(const ImageHash& first, const ImageHash& second);

}  // namespace ocellus
