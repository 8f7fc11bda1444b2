#include "apps/camera/picture_decode.h"

#include <cstddef>
#include <cstring>

#include "apps/camera/huffman_tables.h"

namespace ocellus::app {
namespace {

constexpr uint8_t kPngSignature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

// Decodes as for the model: rotated by EXIF, on white.
bool decode_file(const Frame& frame, Picture* picture) {
  const auto size = static_cast<int64_t>(frame.bytes.size());
  ocellus_image_facts facts;
  if (ocellus_image_probe(frame.bytes.data(), size, &facts) != OCELLUS_OK) return false;
  picture->pixels.resize(static_cast<size_t>(facts.decode_bytes));
  if (ocellus_image_decode_depth(frame.bytes.data(), size, frame.depth.near, frame.depth.far, picture->pixels.data(),
                                 facts.decode_bytes) != OCELLUS_OK) {
    return false;
  }
  picture->width = facts.width;
  picture->height = facts.height;
  picture->pixels.resize(static_cast<size_t>(pixel_bytes(OCELLUS_RGB8, facts.width, facts.height)));
  return true;
}

}  // namespace

bool is_jpeg(const std::vector<uint8_t>& bytes) {
  return bytes.size() >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF;
}

bool is_png(const std::vector<uint8_t>& bytes) {
  return bytes.size() >= sizeof kPngSignature && std::memcmp(bytes.data(), kPngSignature, sizeof kPngSignature) == 0;
}

bool is_webp(const std::vector<uint8_t>& bytes) {
  return bytes.size() >= 12 && std::memcmp(bytes.data(), "RIFF", 4) == 0 &&
         std::memcmp(bytes.data() + 8, "WEBP", 4) == 0;
}

std::string finish_encoded(Frame* frame) {
  frame->kind = FrameKind::kEncoded;
  if (frame->bytes.empty()) return "A frame has no bytes.";
  if (static_cast<int64_t>(frame->bytes.size()) > kMaxEncodedBytes) return "A frame has more than 32 MiB.";
  if (is_jpeg(frame->bytes)) insert_huffman_tables(&frame->bytes);
  ocellus_image_facts facts;
  if (ocellus_image_probe(frame->bytes.data(), static_cast<int64_t>(frame->bytes.size()), &facts) == OCELLUS_OK) {
    frame->width = facts.width;
    frame->height = facts.height;
    return {};
  }
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
    const ocellus_frame view = frame.view();
    return ocellus_frame_convert(&view, picture->pixels.data(), std::ssize(picture->pixels)) == OCELLUS_OK;
  }
  return decode_file(frame, picture);
}

}  // namespace ocellus::app
