#include "apps/camera/picture_decode.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "apps/camera/huffman_tables.h"
#include "apps/camera/pixel_convert.h"

namespace ocellus::app {
namespace {

// The largest block that the decode on this thread may take: a small PNG can inflate to gigabytes.
thread_local size_t most_block_bytes = 0;

void* take_block(size_t bytes) { return bytes > most_block_bytes ? nullptr : std::malloc(bytes); }
void* resize_block(void* block, size_t bytes) {
  return bytes > most_block_bytes ? nullptr : std::realloc(block, bytes);
}

}  // namespace
}  // namespace ocellus::app

// Asserts would end the program; what they guard is checked by ocellus_image_probe before.
#define STBI_ASSERT(condition) ((void)sizeof(condition))
#define STBI_MALLOC(bytes) ::ocellus::app::take_block(bytes)
#define STBI_REALLOC(block, bytes) ::ocellus::app::resize_block(block, bytes)
#define STBI_FREE(block) std::free(block)
#define STBI_MAX_DIMENSIONS 8192
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#if defined(__aarch64__)
#define STBI_NEON
#endif
#include <stb_image.h>

namespace ocellus::app {
namespace {

constexpr uint8_t kPngSignature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

using Pixels = std::unique_ptr<uint8_t, decltype(&std::free)>;

// The picture in `channels` bytes a pixel, or nothing. The frame's size was checked by the walk through its file.
Pixels decode_file(const Frame& frame, int channels, int32_t* width, int32_t* height) {
  int32_t probed_width = 0, probed_height = 0;
  const auto size = static_cast<int64_t>(frame.bytes.size());
  if (size > kMostEncodedBytes ||
      ocellus_image_probe(frame.bytes.data(), size, &probed_width, &probed_height) != OCELLUS_OK ||
      probed_width > kMostSide || probed_height > kMostSide) {
    return {nullptr, &std::free};
  }
  // 16-bit RGBA with its filter bytes takes 8 bytes a pixel, and inflating doubles its block when that is full.
  most_block_bytes = size_t{16} * static_cast<size_t>(probed_width) * static_cast<size_t>(probed_height) + (1u << 20);
  int in_file = 0;
  Pixels pixels(stbi_load_from_memory(frame.bytes.data(), static_cast<int>(size), width, height, &in_file, channels),
                &std::free);
  if (pixels != nullptr && (*width != probed_width || *height != probed_height)) pixels.reset();
  return pixels;
}

bool has_alpha(const Frame& frame) {
  int width = 0, height = 0, channels = 0;
  most_block_bytes = 1 << 20;
  return is_png(frame.bytes) &&
         stbi_info_from_memory(frame.bytes.data(), static_cast<int>(frame.bytes.size()), &width, &height, &channels) !=
             0 &&
         (channels == 2 || channels == 4);
}

}  // namespace

bool is_jpeg(const std::vector<uint8_t>& bytes) {
  return bytes.size() >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF;
}

bool is_png(const std::vector<uint8_t>& bytes) {
  return bytes.size() >= sizeof kPngSignature && std::memcmp(bytes.data(), kPngSignature, sizeof kPngSignature) == 0;
}

std::string finish_encoded(Frame* frame) {
  frame->kind = FrameKind::kEncoded;
  if (frame->bytes.empty()) return "A frame has no bytes.";
  if (static_cast<int64_t>(frame->bytes.size()) > kMostEncodedBytes) return "A frame has more than 32 MiB.";
  if (is_jpeg(frame->bytes)) insert_huffman_tables(&frame->bytes);
  const ocellus_status status = ocellus_image_probe(frame->bytes.data(), static_cast<int64_t>(frame->bytes.size()),
                                                    &frame->width, &frame->height);
  if (status == OCELLUS_OK) return {};
  std::string sentence = ocellus_last_error()->sentence;
  if (!sentence.empty() && sentence[0] >= 'a' && sentence[0] <= 'z') sentence[0] = static_cast<char>(sentence[0] - 32);
  if (sentence.empty() || sentence.back() != '.') sentence += '.';
  return sentence;
}

bool decode_rgb(const Frame& frame, Picture* picture) {
  if (frame.kind == FrameKind::kPixels) {
    const int64_t needed = pixel_bytes(frame.pixel_format, frame.width, frame.height);
    if (needed == 0 || static_cast<int64_t>(frame.bytes.size()) < needed) return false;
    picture->width = frame.width;
    picture->height = frame.height;
    picture->pixels.resize(static_cast<size_t>(pixel_bytes(OCELLUS_RGB8, frame.width, frame.height)));
    convert_to_rgb(frame, picture->pixels.data());
    return true;
  }
  const bool blended = has_alpha(frame);
  const Pixels pixels = decode_file(frame, blended ? 4 : 3, &picture->width, &picture->height);
  if (pixels == nullptr) return false;
  const size_t count = static_cast<size_t>(picture->width) * static_cast<size_t>(picture->height);
  picture->pixels.resize(3 * count);
  if (!blended) {
    std::memcpy(picture->pixels.data(), pixels.get(), 3 * count);
    return true;
  }
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* from = pixels.get() + 4 * i;
    for (size_t c = 0; c < 3; ++c) {
      picture->pixels[3 * i + c] = static_cast<uint8_t>((from[c] * from[3] + 255 * (255 - from[3]) + 127) / 255);
    }
  }
  return true;
}

bool decode_grey(const Frame& frame, Picture* picture) {
  const Pixels pixels = decode_file(frame, 1, &picture->width, &picture->height);
  if (pixels == nullptr) return false;
  picture->pixels.assign(pixels.get(),
                         pixels.get() + static_cast<size_t>(picture->width) * static_cast<size_t>(picture->height));
  return true;
}

}  // namespace ocellus::app
