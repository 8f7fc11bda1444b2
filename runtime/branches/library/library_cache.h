// The image library's memory tier: entries recently read from or written to a library, whole and checked, in planned
// memory. A find here returns exactly what the library would: the entry of the same owner with the same facts, whose
// file is still the one that was read. Bit rot on the disk that the file system does not report is not noticed here; a
// file that was written to, replaced or removed is, and its entry is read again or computed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/monitor.h"
#include "platform/views.h"
#include "runtime/branches/library/image_library.h"

namespace ocellus {

/// A session's request to a library, also used for storing.
struct EntryWish {
  ImageLibrary* library = nullptr;
  OwnerName owner;
  EntryFacts facts;
  bool only_there = false;  // in this part only; else the owner's, then the shared one
  LibraryPart part = LibraryPart::kOwn;
};

/// An entry in memory, or on its way to it.
struct CachedEntry {
  uint64_t library = 0;  // ImageLibrary::serial(); 0: the place is empty
  OwnerName owner;
  EntryFacts facts;
  LibraryPart part = LibraryPart::kOwn;  // the part where it was found
  EntryStamp stamp;
  int64_t bytes = 0;
  double computed_ms = 0;  // time that computing the image took; 0: unknown
  int64_t last_used = 0;   // use counter at the last use
  int64_t noted_ns = 0;    // time at which the library was last notified of a use
  int32_t pins = 0;        // readers of its bytes
};

/// Thread-safe. Allocates nothing.
class LibraryCache {
 public:
  /// `entries`: [n, bytes of an entry]; `records`: [n, sizeof(CachedEntry)], for any n, also 0.
  void attach(HostView<std::byte> entries, HostView<std::byte> records);

  /// Returns the record's number, pinned until release(), with *found a copy; or -1. Drops an entry that is not
  /// current. *is_due: the library should be notified of this use, once a minute.
  int32_t find(const EntryWish& wish, CachedEntry* found, bool* is_due);
  const std::byte* bytes(int32_t number) const { return entries_.row(number); }
  void release(int32_t number);
  /// Takes the least recently used place for an entry, pinned until release(): -1 if all are pinned or there is no
  /// memory tier. Nothing is found there until end_fill() with the entry; null: its bytes are not all there,
  /// and what was in the place is lost.
  int32_t begin_fill(const CachedEntry& entry);
  std::byte* place(int32_t number) { return entries_.row(number); }
  void end_fill(int32_t number, const CachedEntry* entry);
  /// Copies a checked entry to such a place.
  void insert(const CachedEntry& entry, const std::byte* bytes);

 private:
  CachedEntry& record(int64_t number) const { return *reinterpret_cast<CachedEntry*>(records_.row(number)); }
  int32_t choose_place(const CachedEntry& entry);

  Monitor monitor_;
  HostView<std::byte> entries_;
  HostView<std::byte> records_;
  int64_t uses_ = 0;
};

}  // namespace ocellus
