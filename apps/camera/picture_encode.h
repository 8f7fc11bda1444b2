// Encodes pixels as JPEG and PNG files.
#pragma once

#include <cstdint>
#include <vector>

namespace ocellus::app {

// RGB pixels, rows without padding. Both replace *file; false if there is no memory.
bool encode_jpeg(const uint8_t* pixels, int32_t width, int32_t height, int32_t quality, std::vector<uint8_t>* file);
bool encode_png(const uint8_t* pixels, int32_t width, int32_t height, std::vector<uint8_t>* file);

}  // namespace ocellus::app
