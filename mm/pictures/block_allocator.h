// BlockAllocator: malloc and free over one fixed region, for decoders that must allocate. First fit in address order,
// neighbours merged on release. It never touches the heap, and its bookkeeping is in the region.
//
// Blocks are zeroed: a decoder that reads memory that it did not write sees zeros, never an earlier picture.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/arena.h"
#include "platform/round_up.h"

namespace ocellus {

class BlockAllocator {
 public:
  static constexpr int64_t kAlignment = 16;
  /// Overhead of a block beyond its size (rounded up to kAlignment).
  static constexpr int64_t kHeaderBytes = 16;
  static constexpr int64_t block_bytes(int64_t size_bytes) { return kHeaderBytes + round_up(size_bytes, kAlignment); }

  /// The region must outlive the allocator; an unaligned start or end is trimmed.
  explicit BlockAllocator(Extent region);

  /// Returns a zeroed block, aligned to kAlignment; null if no hole is large enough.
  void* take(size_t size_bytes);
  /// Releases a block; null is ignored.
  void give(void* block);

  bool empty() const { return used_bytes_ == 0; }
  int64_t used_bytes() const { return used_bytes_; }
  int64_t high_water_bytes() const { return high_water_bytes_; }
  /// Size of the first refused request, 0 if there was none.
  int64_t refused_bytes() const { return refused_bytes_; }

 private:
  // Before every block, free or taken; `next` links free blocks in address order.
  struct Header {
    int64_t bytes;  // includes this header
    Header* next;
  };
  static_assert(sizeof(Header) <= kHeaderBytes);

  static std::byte* end_of(Header* header) { return reinterpret_cast<std::byte*>(header) + header->bytes; }
  void absorb_next(Header* header);

  Header* free_ = nullptr;
  int64_t capacity_bytes_ = 0;
  int64_t used_bytes_ = 0;
  int64_t high_water_bytes_ = 0;
  int64_t refused_bytes_ = 0;
};

}  // namespace ocellus
