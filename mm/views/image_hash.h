// The identity of an image span: a 128-bit hash of what the vision tower sees, so that the same picture under the same
// preprocessing is recognised again. Not a cryptographic hash: keyed, owner-scoped names are made above this.
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
/// on every machine. Of a picture that is turned, over how it is turned and its rows as they are stored.
class ImageHasher final : public RowConsumer {
 public:
  /// Width and height are those of what is seen.
  ImageHasher(const PreprocessConfig& config, int32_t width, int32_t height, const Orientation& orientation);
  void take(const uint8_t* row) override;
  ImageHash finish() const;

 private:
  alignas(64) std::byte state_[640];  // of xxHash
  size_t row_bytes_;
};

}  // namespace ocellus
