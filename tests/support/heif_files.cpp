#include "tests/support/heif_files.h"

#include <libheif/heif.h>

#include <cstring>

#ifdef __SANITIZE_ADDRESS__
/// libx265 3.5 keeps four blocks of memory when its encoder ends.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libx265"; }
#endif

namespace ocellus::testing {

Bytes encode_heif(const Bytes& pixels, int width, int height, bool has_alpha, HeifCoding coding) {
  Bytes out;
  heif_context* const context = heif_context_alloc();
  heif_encoder* encoder = nullptr;
  const heif_compression_format format = coding == HeifCoding::kAv1 ? heif_compression_AV1 : heif_compression_HEVC;
  if (heif_context_get_encoder_for_format(context, format, &encoder).code == heif_error_Ok) {
    heif_encoder_set_lossy_quality(encoder, 90);
    heif_image* image = nullptr;
    const int channels = has_alpha ? 4 : 3;
    heif_image_create(width, height, heif_colorspace_RGB,
                      has_alpha ? heif_chroma_interleaved_RGBA : heif_chroma_interleaved_RGB, &image);
    heif_image_add_plane(image, heif_channel_interleaved, width, height, 8);
    int stride = 0;
    uint8_t* const plane = heif_image_get_plane(image, heif_channel_interleaved, &stride);
    for (int y = 0; y < height; ++y)
      std::memcpy(plane + y * stride, pixels.data() + y * width * channels, static_cast<size_t>(width * channels));
    heif_image_handle* handle = nullptr;
    const bool is_encoded = heif_context_encode_image(context, image, encoder, nullptr, &handle).code == heif_error_Ok;
    heif_writer writer = {.writer_api_version = 1,
                          .write = [](heif_context*, const void* data, size_t bytes, void* to) {
                            const auto* const begin = static_cast<const uint8_t*>(data);
                            static_cast<Bytes*>(to)->assign(begin, begin + bytes);
                            return heif_error{heif_error_Ok, heif_suberror_Unspecified, ""};
                          }};
    if (is_encoded) heif_context_write(context, &writer, &out);
    if (handle != nullptr) heif_image_handle_release(handle);
    heif_image_release(image);
    heif_encoder_release(encoder);
  }
  heif_context_free(context);
  return out;
}

}  // namespace ocellus::testing
