#include "runtime/branches/library/library_cache.h"

#include <cstring>
#include <mutex>
#include <new>

#include "platform/clock.h"
#include "runtime/engine/shared_images.h"

namespace ocellus {
namespace {

bool is_same_image(const CachedEntry& entry, uint64_t library, const OwnerName& owner, const EntryFacts& facts) {
  return entry.library == library && entry.facts == facts && entry.owner == owner;
}

}  // namespace

void LibraryCache::attach(HostView<std::byte> entries, HostView<std::byte> records) {
  entries_ = entries;
  records_ = records;
  for (int64_t i = 0; i < records.rows; ++i) new (records.row(i)) CachedEntry;
}

int32_t LibraryCache::find(const EntryWish& wish, CachedEntry* found, bool* is_due) {
  const std::lock_guard lock(monitor_);
  for (int64_t i = 0; i < entries_.rows; ++i) {
    CachedEntry& entry = record(i);
    if (entry.library == 0 || !is_same_image(entry, wish.library->serial(), wish.owner, wish.facts)) continue;
    if (!wish.library->is_current(entry.stamp)) {
      entry.library = 0;
      return -1;
    }
    entry.last_used = ++uses_;
    ++entry.pins;
    *found = entry;
    *is_due = is_use_due(&entry.noted_ns);
    return static_cast<int32_t>(i);
  }
  return -1;
}

void LibraryCache::release(int32_t number) {
  const std::lock_guard lock(monitor_);
  --record(number).pins;
}

/// Returns its present place, else a free one, else that of the least recently used; -1: all are pinned.
int32_t LibraryCache::choose_place(const CachedEntry& entry) {
  int32_t best = -1;
  for (int64_t i = 0; i < entries_.rows; ++i) {
    CachedEntry& other = record(i);
    const bool is_old = is_same_image(other, entry.library, entry.owner, entry.facts);
    if (is_old) other.library = 0;  // readers of its bytes continue
    if (other.pins > 0) continue;
    if (is_old) return static_cast<int32_t>(i);
    const auto age = [&](int64_t n) { return record(n).library == 0 ? -1 : record(n).last_used; };
    if (best < 0 || age(i) < age(best)) best = static_cast<int32_t>(i);
  }
  return best;
}

int32_t LibraryCache::begin_fill(const CachedEntry& entry) {
  const std::lock_guard lock(monitor_);
  const int32_t place = choose_place(entry);
  if (place < 0) return -1;
  record(place).library = 0;
  record(place).pins = 1;
  return place;
}

void LibraryCache::end_fill(int32_t number, const CachedEntry* entry) {
  if (entry == nullptr) return;
  const std::lock_guard lock(monitor_);
  CachedEntry& filled = record(number);
  const int32_t pins = filled.pins;
  filled = *entry;
  filled.pins = pins;
  filled.noted_ns = now_ns();
  filled.last_used = ++uses_;
}

void LibraryCache::insert(const CachedEntry& entry, const std::byte* bytes) {
  const int32_t number = begin_fill(entry);
  if (number < 0) return;
  std::memcpy(place(number), bytes, static_cast<size_t>(entry.bytes));
  end_fill(number, &entry);
  release(number);
}

}  // namespace ocellus
