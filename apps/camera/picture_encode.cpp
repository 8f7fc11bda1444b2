#include "apps/camera/picture_encode.h"

#define STBI_WRITE_NO_STDIO
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb_image_write.h>

namespace ocellus::app {
namespace {

void append_bytes(void* file, void* bytes, int count) {
  auto* out = static_cast<std::vector<uint8_t>*>(file);
  const auto* from = static_cast<const uint8_t*>(bytes);
  out->insert(out->end(), from, from + count);
}

}  // namespace

bool encode_jpeg(const uint8_t* pixels, int32_t width, int32_t height, int32_t quality, std::vector<uint8_t>* file) {
  file->clear();
  return stbi_write_jpg_to_func(&append_bytes, file, width, height, 3, pixels, quality) != 0;
}

bool encode_png(const uint8_t* pixels, int32_t width, int32_t height, std::vector<uint8_t>* file) {
  file->clear();
  return stbi_write_png_to_func(&append_bytes, file, width, height, 3, pixels, 3 * width) != 0;
}

}  // namespace ocellus::app
