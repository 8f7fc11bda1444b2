#include "tests/support/webp_files.h"

#include <webp/decode.h>
#include <webp/encode.h>

#include <memory>

namespace ocellus::testing {

Bytes encode_webp(const Bytes& pixels, int width, int height, bool has_alpha, const WebpRecipe& recipe) {
  WebPConfig config;
  WebPPicture picture;
  if (!WebPConfigInit(&config) || !WebPPictureInit(&picture)) return {};
  config.lossless = recipe.lossless;
  config.quality = recipe.quality;
  config.method = recipe.method;
  config.filter_strength = recipe.filter_strength;
  config.partitions = recipe.partitions;
  config.alpha_compression = recipe.alpha_compression;
  config.alpha_filtering = recipe.alpha_filtering;
  config.near_lossless = recipe.near_lossless;
  config.exact = 1;  // colours under alpha 0, too
  picture.use_argb = 1;
  picture.width = width;
  picture.height = height;
  Bytes file;
  picture.custom_ptr = &file;
  picture.writer = [](const uint8_t* data, size_t count, const WebPPicture* self) {
    Bytes& out = *static_cast<Bytes*>(self->custom_ptr);
    out.insert(out.end(), data, data + count);
    return 1;
  };
  const int stride = (has_alpha ? 4 : 3) * width;
  const bool is_made =
      (has_alpha ? WebPPictureImportRGBA : WebPPictureImportRGB)(&picture, pixels.data(), stride) != 0 &&
      WebPEncode(&config, &picture) != 0;
  WebPPictureFree(&picture);
  return is_made ? file : Bytes();
}

Bytes decode_by_libwebp(const Bytes& file) {
  int width = 0, height = 0;
  const std::unique_ptr<uint8_t, void (*)(void*)> rgba(WebPDecodeRGBA(file.data(), file.size(), &width, &height),
                                                       WebPFree);
  Bytes out;
  for (int64_t i = 0; rgba != nullptr && i < int64_t{width} * height; ++i) {
    const uint8_t* const pixel = rgba.get() + 4 * i;
    for (int c = 0; c < 3; ++c)
      out.push_back(static_cast<uint8_t>((2 * (pixel[c] * pixel[3] + 255 * (255 - pixel[3])) + 255) / 510));
  }
  return out;
}

}  // namespace ocellus::testing
