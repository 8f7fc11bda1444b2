// stb_image's JPEG decoder, for builds without libjpeg-turbo. It decodes the whole picture in planned memory; rows are
// then passed on.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "mm/pictures/block_allocator.h"
#include "mm/pictures/jpeg_decoder.h"
#include "mm/pictures/jpeg_markers.h"

namespace ocellus {
namespace {

// The allocator of the current decode on this thread. stb_image knows only malloc and free.
thread_local BlockAllocator* current_allocator = nullptr;

void* take_block(size_t bytes) { return current_allocator == nullptr ? nullptr : current_allocator->take(bytes); }
void give_block(void* block) {
  if (current_allocator != nullptr) current_allocator->give(block);
}

}  // namespace
}  // namespace ocellus

// Asserts would abort the host; their conditions are checked by read_jpeg_header or harmless in zeroed memory.
#define STBI_ASSERT(condition) ((void)sizeof(condition))
#define STBI_MALLOC(bytes) ::ocellus::take_block(bytes)
#define STBI_REALLOC(block, bytes) nullptr  // the JPEG decoder grows no block
#define STBI_FREE(block) ::ocellus::give_block(block)
#define STBI_MAX_DIMENSIONS 65535
#define STBI_ONLY_JPEG
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#if defined(__aarch64__)
#define STBI_NEON
#endif
#include <stb_image.h>
#define STBI_WRITE_NO_STDIO
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb_image_write.h>

namespace ocellus {
namespace {

/// The segment with the tables of ITU-T T.81, annex K.3, from a file of stb_image's own encoder: it uses no others.
class StandardTables {
 public:
  StandardTables() {
    const uint8_t pixel[3] = {};
    stbi_write_jpg_to_func(
        [](void* tables, void* bytes, int count) {
          auto* const to = static_cast<StandardTables*>(tables);
          std::memcpy(to->file_ + to->file_bytes_, bytes, static_cast<size_t>(count));
          to->file_bytes_ += count;
        },
        this, 1, 1, 3, pixel, 90);
  }
  Extent segment() {
    const uint8_t start[] = {0xFF, jpeg::kDht};
    uint8_t* const at = std::search(file_, file_ + file_bytes_, start, start + 2);
    return {reinterpret_cast<std::byte*>(at), 2 + (at[2] << 8 | at[3])};
  }

 private:
  uint8_t file_[1024];
  int64_t file_bytes_ = 0;
};

/// A file with the tables that it lacks, in one after another of three pieces.
struct TabledFile {
  Extent pieces[3];
  int current = 0;

  TabledFile(const uint8_t* bytes, int64_t size_bytes, int64_t place) {
    auto* const first = reinterpret_cast<std::byte*>(const_cast<uint8_t*>(bytes));
    static StandardTables tables;
    pieces[0] = {first, place};
    pieces[1] = tables.segment();
    pieces[2] = {first + place, size_bytes - place};
  }
  Extent& piece() {
    while (current < 2 && pieces[current].bytes == 0) ++current;
    return pieces[current];
  }
  int read(char* out, int count) {
    Extent& from = piece();
    const int64_t taken = std::min<int64_t>(count, from.bytes);
    std::memcpy(out, from.data, static_cast<size_t>(taken));
    from = {from.data + taken, from.bytes - taken};
    return static_cast<int>(taken);
  }
};

constexpr stbi_io_callbacks kTabledFile = {
    .read = [](void* file, char* out, int count) { return static_cast<TabledFile*>(file)->read(out, count); },
    .skip =
        [](void* file, int count) {
          char passed[64];
          for (auto* const of = static_cast<TabledFile*>(file); count > 0;) {
            const int done = of->read(passed, std::min<int>(count, sizeof passed));
            if (done == 0) return;
            count -= done;
          }
        },
    .eof = [](void* file) { return static_cast<TabledFile*>(file)->piece().bytes == 0 ? 1 : 0; }};

}  // namespace

struct JpegDecoder::State {};

JpegDecoder::~JpegDecoder() = default;

Status JpegDecoder::open() { return {}; }

Status JpegDecoder::decode_rows(const uint8_t* bytes, int64_t size_bytes, const JpegFacts& facts, Extent scratch,
                                RowConsumer& rows) {
  BlockAllocator allocator(scratch);
  int width = 0, height = 0, channels = 0;
  current_allocator = &allocator;
  const uint8_t* pixels = nullptr;
  if (facts.lacks_tables_at >= 0) {
    TabledFile file(bytes, size_bytes, facts.lacks_tables_at);
    pixels = stbi_load_from_callbacks(&kTabledFile, &file, &width, &height, &channels, 3);
  } else {
    pixels = stbi_load_from_memory(bytes, static_cast<int>(size_bytes), &width, &height, &channels, 3);
  }
  current_allocator = nullptr;
  if (pixels == nullptr && allocator.refused_bytes() != 0) {
    return OCELLUS_FAIL(Code::kFull,
                        "decoding the %d x %d JPEG ran out of its %lld bytes of scratch: plan for more pixels",
                        facts.width, facts.height, static_cast<long long>(scratch.bytes));
  }
  if (pixels == nullptr) {
    const char* reason = stbi_failure_reason();
    return OCELLUS_FAIL(Code::kBadImage, "the JPEG cannot be decoded (%s): it is damaged or truncated",
                        reason == nullptr ? "no reason given" : reason);
  }
  if (width != facts.width || height != facts.height) {
    return OCELLUS_FAIL(Code::kInternal, "the JPEG decoder returned %d x %d pixels instead of %d x %d", width, height,
                        facts.width, facts.height);
  }
  feed_rows({pixels, width, height, int64_t{3} * width}, rows);
  return {};
}

int64_t jpeg_rows_scratch_bytes(const JpegFacts& facts) {
  // The decoder's blocks: its state; samples and coefficients; a line and an alignment pad for each component; the
  // picture. The last term covers block rounding and the ends of an unaligned region.
  const int64_t samples = jpeg_sample_count(facts) * (facts.progressive ? 3 : 1);
  const int64_t lines = facts.component_count * (int64_t{facts.width} + 3 + 2 * 15);
  const int64_t picture = int64_t{3} * facts.width * facts.height + 1;
  return static_cast<int64_t>(sizeof(stbi__jpeg)) + samples + lines + picture + 16 * BlockAllocator::block_bytes(1);
}

int64_t jpeg_rows_scratch_bound(const ImageLimits& limits, int64_t) {
  // Bytes of planes and coefficients per pixel, and padding of a side in pixels.
  struct Layout {
    int64_t bytes_per_2_pixels;
    int64_t pad;
  };
  constexpr Layout kLayouts[] = {
      {18, 7},   // 4:4:4 progressive: 3 samples and 3 coefficients a pixel
      {12, 15},  // 4:2:2 and 4:2:0, progressive
      {9, 31},   // 4:1:1 and grey, progressive
      {8, 7},    // CMYK, baseline
  };
  const int64_t sides = max_side_sum(limits);
  int64_t planes = 0;
  for (const Layout& layout : kLayouts) {
    const int64_t padded = limits.max_pixels + layout.pad * sides + layout.pad * layout.pad;
    const int64_t bytes = (padded * layout.bytes_per_2_pixels + 1) / 2;
    planes = bytes > planes ? bytes : planes;
  }
  const int64_t lines = 4 * (int64_t{limits.max_side} + 33);
  return static_cast<int64_t>(sizeof(stbi__jpeg)) + planes + lines + 3 * limits.max_pixels +
         16 * BlockAllocator::block_bytes(1);
}

}  // namespace ocellus
