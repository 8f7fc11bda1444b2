// BlockAllocator: malloc and free over one fixed region, for decoders that insist on allocating. First fit in
// address order, neighbours merged on release. It never touches the heap, and its bookkeeping lives in the region.
//
// Blocks are handed out zeroed: a decoder that reads what it forgot to write sees zeros, never an earlier picture.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/arena.h"
#include "platform/round_up.h"

namespace ocellus {

class BlockAllocator {
 public:
  static constexpr int64_t kAlignment = 16;
  /// Bytes a block occupies beyond its size (rounded up to kAlignment).
  static constexpr int64_t kHeaderBytes = 16;
  static constexpr int64_t block_bytes(int64_t size_bytes) { return kHeaderBytes + round_up(size_bytes, kAlignment); }

  /// The region must outlive the allocator; an unaligned start or end is trimmed.
  explicit BlockAllocator(Extent region);

  /// Zeroed, aligned to kAlignment; null if no hole is large enough.
  void* take(size_t size_bytes);
  /// Null is ignored.
  void give(void* block);

  bool empty() const { return used_bytes_ == 0; }
  int64_t used_bytes() const { return used_bytes_; }
  int64_t high_water_bytes() const { return high_water_bytes_; }
  /// Size of the first request that found no room, 0 if there was none.
  int64_t refused_bytes() const { return refused_bytes_; }

 private:
  // In front of every block, free or taken; `next` links free blocks in address order.
  struct Header {
    int64_t bytes;  // with this header
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
