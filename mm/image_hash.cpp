#include "mm/image_hash.h"

#include <cstring>
#include <initializer_list>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ocellus {
namespace {

// Little-endian bytes, so that the hash does not depend on the machine or on padding.
void hash_number(XXH3_state_t* state, uint32_t value) {
  const uint8_t bytes[4] = {static_cast<uint8_t>(value), static_cast<uint8_t>(value >> 8),
                            static_cast<uint8_t>(value >> 16), static_cast<uint8_t>(value >> 24)};
  XXH3_128bits_update(state, bytes, sizeof(bytes));
}

void hash_number(XXH3_state_t* state, float value) {
  uint32_t bits = 0;
  static_assert(sizeof(bits) == sizeof(value));
  std::memcpy(&bits, &value, sizeof(bits));
  hash_number(state, bits);
}

}  // namespace

ImageHash hash_image(const RgbImage& image, const PreprocessConfig& config) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_128bits_reset(&state);
  for (const int32_t field :
       {config.image_size, config.longest_edge, static_cast<int32_t>(config.flavour), image.width, image.height}) {
    hash_number(&state, static_cast<uint32_t>(field));
  }
  for (const float value : config.mean) hash_number(&state, value);
  for (const float value : config.std) hash_number(&state, value);
  for (int32_t y = 0; y < image.height; ++y) {
    XXH3_128bits_update(&state, image.row(y), static_cast<size_t>(image.width) * 3);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {hash.high64, hash.low64};
}

}  // namespace ocellus
