#include "mm/pictures/block_allocator.h"

#include <algorithm>
#include <cstring>

namespace ocellus {

BlockAllocator::BlockAllocator(Extent region) {
  const auto address = reinterpret_cast<uintptr_t>(region.data);
  const int64_t skipped = static_cast<int64_t>((kAlignment - address % kAlignment) % kAlignment);
  const int64_t bytes = (region.bytes - skipped) / kAlignment * kAlignment;
  if (region.data == nullptr || bytes <= kHeaderBytes) return;
  free_ = reinterpret_cast<Header*>(region.data + skipped);
  *free_ = {bytes, nullptr};
  capacity_bytes_ = bytes;
}

void* BlockAllocator::take(size_t size_bytes) {
  // A request larger than the region is refused before any arithmetic on it.
  if (size_bytes > static_cast<size_t>(capacity_bytes_)) {
    if (refused_bytes_ == 0) refused_bytes_ = static_cast<int64_t>(std::min<size_t>(size_bytes, INT64_MAX));
    return nullptr;
  }
  const int64_t bytes = block_bytes(static_cast<int64_t>(size_bytes));
  Header** link = &free_;
  while (*link != nullptr && (*link)->bytes < bytes) link = &(*link)->next;
  Header* block = *link;
  if (block == nullptr) {
    if (refused_bytes_ == 0) refused_bytes_ = static_cast<int64_t>(size_bytes);
    return nullptr;
  }
  if (block->bytes - bytes > kHeaderBytes) {
    Header* rest = reinterpret_cast<Header*>(reinterpret_cast<std::byte*>(block) + bytes);
    *rest = {block->bytes - bytes, block->next};
    *link = rest;
    block->bytes = bytes;
  } else {
    *link = block->next;
  }
  used_bytes_ += block->bytes;
  high_water_bytes_ = std::max(high_water_bytes_, used_bytes_);
  void* contents = reinterpret_cast<std::byte*>(block) + kHeaderBytes;
  std::memset(contents, 0, static_cast<size_t>(block->bytes - kHeaderBytes));
  return contents;
}

void BlockAllocator::absorb_next(Header* header) {
  if (reinterpret_cast<std::byte*>(header->next) != end_of(header)) return;
  header->bytes += header->next->bytes;
  header->next = header->next->next;
}

void BlockAllocator::give(void* block) {
  if (block == nullptr) return;
  Header* header = reinterpret_cast<Header*>(static_cast<std::byte*>(block) - kHeaderBytes);
  used_bytes_ -= header->bytes;
  Header* before = nullptr;
  Header* after = free_;
  while (after != nullptr && after < header) {
    before = after;
    after = after->next;
  }
  header->next = after;
  absorb_next(header);
  if (before == nullptr) {
    free_ = header;
  } else {
    before->next = header;
    absorb_next(before);
  }
}

}  // namespace ocellus
