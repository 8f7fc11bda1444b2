#include "mm/stb_codecs.h"

#include <cstddef>

namespace ocellus {
namespace {

// The allocator of the decode that runs on this thread. stb_image knows only malloc and free.
thread_local BlockAllocator* current_allocator = nullptr;

void* take_block(size_t bytes) { return current_allocator == nullptr ? nullptr : current_allocator->take(bytes); }
void* resize_block(void* block, size_t bytes) {
  return current_allocator == nullptr ? nullptr : current_allocator->resize(block, bytes);
}
void give_block(void* block) {
  if (current_allocator != nullptr) current_allocator->give(block);
}

}  // namespace
}  // namespace ocellus

// Asserts would abort the host; what they guard is checked by read_jpeg_header or harmless in zeroed memory.
#define STBI_ASSERT(condition) ((void)sizeof(condition))
#define STBI_MALLOC(bytes) ::ocellus::take_block(bytes)
#define STBI_REALLOC(block, bytes) ::ocellus::resize_block(block, bytes)
#define STBI_FREE(block) ::ocellus::give_block(block)
#define STBI_MAX_DIMENSIONS 65535
#define STBI_ONLY_JPEG
#define STBI_SUPPORT_ZLIB
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#if defined(__aarch64__)
#define STBI_NEON
#endif
#include <stb_image.h>

namespace ocellus {

int64_t jpeg_state_bytes() { return sizeof(stbi__jpeg); }

uint8_t* decode_jpeg_rgb(const uint8_t* bytes, int64_t size_bytes, BlockAllocator& allocator, int32_t* width,
                         int32_t* height, const char** reason) {
  current_allocator = &allocator;
  int channels = 0;
  uint8_t* pixels = stbi_load_from_memory(bytes, static_cast<int>(size_bytes), width, height, &channels, 3);
  current_allocator = nullptr;
  const char* failure = stbi_failure_reason();
  *reason = failure == nullptr ? "no reason given" : failure;
  return pixels;
}

int64_t inflate_zlib(const uint8_t* bytes, int64_t size_bytes, uint8_t* output, int64_t output_bytes) {
  return stbi_zlib_decode_buffer(reinterpret_cast<char*>(output), static_cast<int>(output_bytes),
                                 reinterpret_cast<const char*>(bytes), static_cast<int>(size_bytes));
}

}  // namespace ocellus
