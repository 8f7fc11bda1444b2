#include "mm/views/image_hash.h"

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

XXH3_state_t* state_in(std::byte* bytes) { return reinterpret_cast<XXH3_state_t*>(bytes); }

}  // namespace

ImageHasher::ImageHasher(const PreprocessConfig& config, int32_t width, int32_t height, const Orientation& orientation)
    : row_bytes_(size_t{3} * static_cast<size_t>(orientation.transposed ? height : width)) {
  static_assert(sizeof(XXH3_state_t) <= sizeof state_ && alignof(XXH3_state_t) <= 64);
  XXH3_state_t* const state = state_in(state_);
  XXH3_INITSTATE(state);
  XXH3_128bits_reset(state);
  XXH3_128bits_update(state, config.rules->name, std::strlen(config.rules->name));
  for (const int32_t field : {config.image_size, config.view_rows, config.longest_edge, config.min_tiles,
                              config.max_tiles, config.tiled_size_count, width, height})
    hash_number(state, static_cast<uint32_t>(field));
  for (int32_t i = 0; i < config.tiled_size_count; ++i)
    for (const int32_t side : {config.tiled_sizes[i].width, config.tiled_sizes[i].height})
      hash_number(state, static_cast<uint32_t>(side));
  for (const float value : config.mean) hash_number(state, value);
  for (const float value : config.std) hash_number(state, value);
  const uint32_t turns = orientation.right_to_left * 1u + orientation.bottom_up * 2u + orientation.transposed * 4u;
  if (turns != 0) hash_number(state, turns);
}

void ImageHasher::take(const uint8_t* row) { XXH3_128bits_update(state_in(state_), row, row_bytes_); }

ImageHash ImageHasher::finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(reinterpret_cast<const XXH3_state_t*>(state_));
  return {hash.high64, hash.low64};
}

ImageHash pair_hash(const ImageHash& first, const ImageHash& second) {
  uint8_t bytes[32];
  size_t at = 0;
  for (const uint64_t half : {first.high, first.low, second.high, second.low})
    for (int shift = 0; shift < 64; shift += 8) bytes[at++] = static_cast<uint8_t>(half >> shift);
  const XXH128_hash_t hash = XXH3_128bits(bytes, sizeof bytes);
  return {hash.high64, hash.low64};
}

}  // namespace ocellus
