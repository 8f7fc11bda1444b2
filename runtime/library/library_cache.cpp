#include "runtime/library/library_cache.h"

#include <cstring>
#include <mutex>
#include <new>

#include "platform/clock.h"

namespace ocellus {
namespace {

bool is_same(const CachedEntry& a, uint64_t library, const OwnerName& owner, const EntryFacts& facts) {
  return a.library == library && a.facts == facts && a.owner == owner;
}

}  // namespace

void LibraryCache::attach(HostView<std::byte> entries, HostView<std::byte> records) {
  entries_ = entries;
  records_ = records;
  for (int64_t i = 0; i < records.rows; ++i) new (records.row(i)) CachedEntry;
}

int32_t LibraryCache::find(const EntryWish& wish, CachedEntry* found, bool* is_due) {
  constexpr int64_t kMinute = int64_t{60} * 1000000000;
  const std::lock_guard lock(monitor_);
  for (int64_t i = 0; i < entries_.rows; ++i) {
    CachedEntry& entry = record(i);
    if (entry.library == 0 || !is_same(entry, wish.library->serial(), wish.owner, wish.facts)) continue;
    if (!wish.library->is_current(entry.stamp)) {
      entry.library = 0;
      return -1;
    }
    entry.last_used = ++uses_;
    ++entry.pins;
    *found = entry;
    *is_due = now_ns() - entry.noted_ns >= kMinute;
    if (*is_due) entry.noted_ns = now_ns();
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
    const bool is_old = is_same(other, entry.library, entry.owner, entry.facts);
    if (is_old) other.library = 0;  // readers of its bytes continue
    if (other.pins > 0) continue;
    if (is_old) return static_cast<int32_t>(i);
    const auto age = [&](int64_t n) { return record(n).library == 0 ? -1 : record(n).last_used; };
    if (best < 0 || age(i) < age(best)) best = static_cast<int32_t>(i);
  }
  return best;
}

void LibraryCache::insert(const CachedEntry& entry, const std::byte* bytes) {
  if (!is_enabled()) return;
  int32_t place = -1;
  {
    const std::lock_guard lock(monitor_);
    place = choose_place(entry);
    if (place < 0) return;
    record(place).library = 0;
    record(place).pins = 1;  // protects the place while it is filled
  }
  std::memcpy(entries_.row(place), bytes, static_cast<size_t>(entry.bytes));
  const std::lock_guard lock(monitor_);
  record(place) = entry;
  record(place).pins = 0;
  record(place).noted_ns = now_ns();
  record(place).last_used = ++uses_;
}

}  // namespace ocellus
