#include "apps/camera/jpeg.h"

#include <algorithm>
#include <cstring>

#include "apps/camera/jpeg_repair.h"
#include "apps/camera/picture_decode.h"
#include "apps/camera/picture_encode.h"

namespace ocellus::app {
namespace {

constexpr int kQuality = 80;

// Averages the pixels that each output pixel covers.
void shrink(const Picture& from, int32_t width, int32_t height, std::vector<uint8_t>* pixels) {
  pixels->resize(size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(height));
  uint8_t* out = pixels->data();
  for (int32_t y = 0; y < height; ++y) {
    const int64_t top = int64_t{y} * from.height / height;
    const int64_t bottom = std::max(top + 1, (y + int64_t{1}) * from.height / height);
    for (int32_t x = 0; x < width; ++x, out += 3) {
      const int64_t left = int64_t{x} * from.width / width;
      const int64_t right = std::max(left + 1, (x + int64_t{1}) * from.width / width);
      int64_t sum[3] = {};
      for (int64_t row = top; row < bottom; ++row) {
        const uint8_t* at = from.pixels.data() + 3 * (row * from.width + left);
        for (int64_t i = left; i < right; ++i, at += 3) {
          for (int c = 0; c < 3; ++c) sum[c] += at[c];
        }
      }
      const int64_t count = (bottom - top) * (right - left);
      for (int c = 0; c < 3; ++c) out[c] = static_cast<uint8_t>((sum[c] + count / 2) / count);
    }
  }
}

}  // namespace

bool make_jpeg(const Frame& frame, int32_t most_side, std::vector<uint8_t>* jpeg) {
  const int32_t side = std::max(frame.width, frame.height);
  const bool smaller = most_side > 0 && side > most_side;
  if (frame.kind == FrameKind::kEncoded && is_jpeg(frame.bytes) && !smaller) {
    jpeg->assign(frame.bytes.begin(), frame.bytes.end());
    return true;
  }
  // One per thread, so that its memory is reused from frame to frame.
  thread_local Picture picture;
  thread_local std::vector<uint8_t> shrunk;
  if (!decode_rgb(frame, &picture)) return false;
  int32_t width = picture.width, height = picture.height;
  const uint8_t* pixels = picture.pixels.data();
  if (smaller) {
    width = std::max(1, static_cast<int32_t>((int64_t{width} * most_side + side / 2) / side));
    height = std::max(1, static_cast<int32_t>((int64_t{height} * most_side + side / 2) / side));
    shrink(picture, width, height, &shrunk);
    pixels = shrunk.data();
  }
  return encode_jpeg(pixels, width, height, kQuality, jpeg);
}

}  // namespace ocellus::app
