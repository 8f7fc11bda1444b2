#include "mm/pictures/webp_decoder.h"

#include <webp/decode.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "mm/pictures/block_allocator.h"
#include "platform/round_up.h"

namespace ocellus {
namespace {

// The allocator of the current decode on this thread. libwebp knows only malloc, calloc and free.
thread_local BlockAllocator* current_allocator = nullptr;

void* take_block(size_t bytes) { return current_allocator == nullptr ? nullptr : current_allocator->take(bytes); }

}  // namespace
}  // namespace ocellus

// libwebp's functions under the names from tools/cmake/webp.cmake, and ours that it calls instead of the heap's.
// Hidden, so that a shared library linked from our archive does not export them.
#pragma GCC visibility push(hidden)
extern "C" {
VP8StatusCode ocellus_webp_decode(const uint8_t* data, size_t bytes, WebPDecoderConfig* config);
int ocellus_webp_init_config(WebPDecoderConfig* config, int version);

void* ocellus_webp_malloc(size_t bytes) { return ocellus::take_block(bytes); }
void* ocellus_webp_calloc(size_t count, size_t bytes) {
  if (bytes != 0 && count > SIZE_MAX / bytes) return nullptr;
  return ocellus::take_block(count * bytes);  // blocks are zeroed
}
void ocellus_webp_free(void* block) {
  if (ocellus::current_allocator != nullptr) ocellus::current_allocator->give(block);
}
}
#pragma GCC visibility pop

namespace ocellus {
namespace {

int64_t pixel_bytes(const WebpFacts& facts) { return facts.has_alpha ? 4 : 3; }

/// Bytes of libwebp's output, up to where its own blocks may start.
int64_t output_bytes(const WebpFacts& facts) {
  const int64_t bytes = pixel_bytes(facts) * facts.width * facts.height;
  return round_up(bytes, BlockAllocator::kAlignment);
}

const char* name_damage(VP8StatusCode code) {
  switch (code) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED: return "its data end too early";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "it uses an unknown feature";
    default: return "its data are invalid";
  }
}

VP8StatusCode decode_into(const uint8_t* bytes, const WebpFacts& facts, uint8_t* pixels, BlockAllocator* allocator) {
  WebPDecoderConfig config;
  if (ocellus_webp_init_config(&config, WEBP_DECODER_ABI_VERSION) == 0) return VP8_STATUS_INVALID_PARAM;
  const int64_t stride = pixel_bytes(facts) * facts.width;
  config.output.colorspace = facts.has_alpha ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = pixels;
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = static_cast<size_t>(stride * facts.height);
  current_allocator = allocator;
  const VP8StatusCode code = ocellus_webp_decode(bytes, static_cast<size_t>(facts.riff_bytes), &config);
  current_allocator = nullptr;
  return code;
}

}  // namespace

Status decode_webp_rows(const uint8_t* bytes, int64_t size_bytes, const WebpFacts& facts, Extent scratch,
                        RowConsumer& rows) {
  const int64_t held = output_bytes(facts);
  if (facts.riff_bytes > size_bytes || held > scratch.bytes)
    return OCELLUS_FAIL(Code::kInternal, "a WebP of %lld bytes was given %lld bytes and %lld of scratch",
                        static_cast<long long>(facts.riff_bytes), static_cast<long long>(size_bytes),
                        static_cast<long long>(scratch.bytes));
  auto* const pixels = reinterpret_cast<uint8_t*>(scratch.data);
  BlockAllocator allocator({scratch.data + held, scratch.bytes - held});
  const VP8StatusCode code = decode_into(bytes, facts, pixels, &allocator);
  // libwebp reports some of these as damage.
  if (code != VP8_STATUS_OK && allocator.refused_bytes() != 0)
    return OCELLUS_FAIL(
        Code::kFull,
        "decoding the %d x %d WebP ran out of its %lld bytes of scratch: plan for more pixels, or save it "
        "as baseline JPEG or as PNG",
        facts.width, facts.height, static_cast<long long>(scratch.bytes));
  if (code == VP8_STATUS_INVALID_PARAM) return OCELLUS_FAIL(Code::kInternal, "libwebp refused its parameters");
  if (code != VP8_STATUS_OK) return OCELLUS_FAIL(Code::kBadImage, "the WebP is damaged (%s)", name_damage(code));
  for (int32_t y = 0; y < facts.height; ++y) {
    uint8_t* const row = pixels + y * pixel_bytes(facts) * facts.width;
    if (facts.has_alpha) to_rgb_on_white(row, facts.width);
    rows.take(row);
  }
  return {};
}

int64_t webp_rows_scratch_bytes(const WebpFacts& facts) {
  constexpr int64_t kStateBytes = 16 << 10;  // structures of all kinds, and the headers of blocks
  const int64_t width = facts.width, pixels = width * facts.height;
  int64_t bytes = output_bytes(facts) + kStateBytes;
  if (!facts.lossless) {
    bytes += 2200 * divide_up(width, 16);       // rows of blocks: samples, coefficients, and filter state
    bytes += facts.has_alpha ? 2 * pixels : 0;  // libwebp holds alpha twice
  }
  if (facts.lossless || facts.has_alpha) {
    // Colours and their newest rows; three pictures of a sixteenth of the size, of predictors, colour transforms and
    // table numbers; the tables, whose number grows with the variety of the picture.
    bytes += 4 * (pixels + 17 * width) + 3 * 4 * divide_up(width, 4) * divide_up(facts.height, 4);
    bytes += (32 << 10) +
             (facts.lossless ? std::min<int64_t>(5 * pixels, 480 << 10) : std::min<int64_t>(2 * pixels, 224 << 10));
  }
  return bytes;
}

int64_t webp_rows_scratch_bound(const ImageLimits& limits) {
  WebpFacts facts;
  const double longest = 2 * std::sqrt(static_cast<double>(limits.max_pixels));
  facts.width = static_cast<int32_t>(std::min<double>(limits.max_side, std::ceil(longest)));
  facts.height = static_cast<int32_t>(divide_up(limits.max_pixels, facts.width));
  facts.has_alpha = true;
  const int64_t lossy = webp_rows_scratch_bytes(facts);
  facts.lossless = true;
  return std::max(lossy, webp_rows_scratch_bytes(facts));
}

}  // namespace ocellus
