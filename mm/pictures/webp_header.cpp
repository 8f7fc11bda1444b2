#include "mm/pictures/webp_header.h"

#include <algorithm>
#include <cstring>

namespace ocellus {
namespace {

constexpr int64_t kChunkHeaderBytes = 8;
constexpr int64_t kExtendedBytes = 10;  // size of a VP8X chunk

// Flags of a VP8X chunk.
constexpr int kAnimated = 0x02;
constexpr int kHasExif = 0x08;

uint32_t read_le(const uint8_t* at, int count) {
  uint32_t value = 0;
  for (int i = 0; i < count; ++i) value |= uint32_t{at[i]} << (8 * i);
  return value;
}

struct Chunk {
  const uint8_t* type = nullptr;  // four letters
  const uint8_t* data = nullptr;
  int64_t bytes = 0;
  bool is(const char* name) const { return std::memcmp(type, name, 4) == 0; }
};

class WebpWalker {
 public:
  WebpWalker(const uint8_t* bytes, int64_t riff_bytes, const ImageLimits& limits, WebpFacts* facts)
      : cursor_(bytes + kRiffHeaderBytes), end_(bytes + riff_bytes), limits_(limits), facts_(*facts) {}

  Status walk() {
    Chunk chunk;
    OCELLUS_TRY(next(&chunk));
    if (chunk.is("VP8X")) {
      OCELLUS_TRY(read_extended(chunk));
    } else {
      OCELLUS_TRY(read_picture(chunk));
    }
    while (end_ - cursor_ >= kChunkHeaderBytes) {
      OCELLUS_TRY(next(&chunk));
      OCELLUS_TRY(read_optional(chunk));
    }
    if (!has_picture_) return OCELLUS_FAIL(Code::kBadImage, "the WebP has no picture: it is damaged");
    return {};
  }

 private:
  Status next(Chunk* chunk) {
    if (end_ - cursor_ < kChunkHeaderBytes || end_ - cursor_ - kChunkHeaderBytes < read_le(cursor_ + 4, 4))
      return OCELLUS_FAIL(Code::kBadImage, "the WebP has a chunk that is cut short: the file is truncated or damaged");
    *chunk = {cursor_, cursor_ + kChunkHeaderBytes, read_le(cursor_ + 4, 4)};
    cursor_ = chunk->data + chunk->bytes;
    if (chunk->bytes % 2 != 0 && cursor_ < end_) ++cursor_;  // padded to whole words
    return {};
  }

  Status read_extended(const Chunk& chunk) {
    if (chunk.bytes != kExtendedBytes)
      return OCELLUS_FAIL(Code::kBadImage, "the WebP has a header of %lld bytes instead of 10: it is damaged",
                          static_cast<long long>(chunk.bytes));
    is_extended_ = true;
    flags_ = chunk.data[0];
    if ((flags_ & kAnimated) != 0)
      return OCELLUS_FAIL(Code::kUnsupported, "the WebP is animated: save one of its pictures as WebP, JPEG or PNG");
    canvas_width_ = int64_t{1} + read_le(chunk.data + 4, 3);
    canvas_height_ = int64_t{1} + read_le(chunk.data + 7, 3);
    return check_image_size(limits_, "WebP", canvas_width_, canvas_height_);
  }

  Status read_optional(const Chunk& chunk) {
    if (chunk.is("VP8 ") || chunk.is("VP8L")) return has_picture_ ? Status() : read_picture(chunk);
    if (chunk.is("ALPH") && is_extended_ && !has_picture_) has_alpha_chunk_ = true;
    if (chunk.is("EXIF") && (flags_ & kHasExif) != 0 && !has_exif_) {
      facts_.orientation = read_exif_orientation(chunk.data, chunk.bytes);
      has_exif_ = true;
    }
    return {};
  }

  Status read_picture(const Chunk& chunk) {
    int64_t width = 0, height = 0;
    if (chunk.is("VP8L")) {
      if (chunk.bytes < 5 || chunk.data[0] != 0x2F || chunk.data[4] >> 5 != 0) return damaged_picture();
      const uint32_t sizes = read_le(chunk.data + 1, 4);
      width = 1 + (sizes & 0x3FFF);
      height = 1 + (sizes >> 14 & 0x3FFF);
      facts_.lossless = true;
      facts_.has_alpha = (sizes >> 28 & 1) != 0;
    } else if (chunk.is("VP8 ")) {
      // Accepts a shown key frame of a known profile whose first partition is inside the chunk.
      if (chunk.bytes < 10 || std::memcmp(chunk.data + 3, "\x9D\x01\x2A", 3) != 0) return damaged_picture();
      const uint32_t tag = read_le(chunk.data, 3);
      if ((tag & 1) != 0 || (tag >> 1 & 7) > 3 || (tag >> 4 & 1) == 0 || tag >> 5 >= chunk.bytes)
        return damaged_picture();
      width = read_le(chunk.data + 6, 2) & 0x3FFF;
      height = read_le(chunk.data + 8, 2) & 0x3FFF;
      facts_.has_alpha = has_alpha_chunk_;
    } else {
      return OCELLUS_FAIL(Code::kBadImage, "the WebP does not start with a picture or a header: it is damaged");
    }
    has_picture_ = true;
    OCELLUS_TRY(check_image_size(limits_, "WebP", width, height));
    if (is_extended_ && (width != canvas_width_ || height != canvas_height_))
      return OCELLUS_FAIL(Code::kBadImage, "the WebP's header says %lld x %lld pixels, its picture has %lld x %lld",
                          static_cast<long long>(canvas_width_), static_cast<long long>(canvas_height_),
                          static_cast<long long>(width), static_cast<long long>(height));
    facts_.width = static_cast<int32_t>(width);
    facts_.height = static_cast<int32_t>(height);
    return {};
  }

  static Status damaged_picture() { return OCELLUS_FAIL(Code::kBadImage, "the WebP's picture has a damaged header"); }

  const uint8_t* cursor_;
  const uint8_t* end_;
  const ImageLimits& limits_;
  WebpFacts& facts_;
  bool is_extended_ = false;
  bool has_alpha_chunk_ = false;
  bool has_picture_ = false;
  bool has_exif_ = false;
  int flags_ = 0;
  int64_t canvas_width_ = 0, canvas_height_ = 0;
};

}  // namespace

Status read_webp_header(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, WebpFacts* facts) {
  *facts = WebpFacts();
  facts->riff_bytes = int64_t{8} + read_le(bytes + 4, 4);
  if (facts->riff_bytes > size_bytes || facts->riff_bytes < kRiffHeaderBytes)
    return OCELLUS_FAIL(Code::kBadImage,
                        "the WebP says that it has %lld bytes, but the file has %lld: it is truncated or damaged",
                        static_cast<long long>(facts->riff_bytes), static_cast<long long>(size_bytes));
  return WebpWalker(bytes, facts->riff_bytes, limits, facts).walk();
}

}  // namespace ocellus
