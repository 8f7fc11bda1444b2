// The image library's memory tier: entries that came from a library or went there lately, whole and checked, in memory
// that was planned. What is found here is exactly what the library would find: the entry of the same owner with the
// same facts, whose file is still the one that was read. Bytes that rot on the disk without the file system's knowledge
// are not noticed here; a file that was written to, replaced or removed is, and its entry is read again or computed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/monitor.h"
#include "platform/views.h"
#include "runtime/library/image_library.h"

namespace ocellus {

/// What a session asks a library for, and keeps there.
struct EntryWish {
  ImageLibrary* library = nullptr;
  OwnerName owner;
  EntryFacts facts;
  bool only_there = false;  // in this part alone; else the owner's, then the shared one
  LibraryPart part = LibraryPart::kOwn;
};

/// An entry in memory, or on its way to it.
struct CachedEntry {
  uint64_t library = 0;  // ImageLibrary::serial(); 0: nothing is here
  OwnerName owner;
  EntryFacts facts;
  LibraryPart part = LibraryPart::kOwn;  // where it was found
  EntryStamp stamp;
  int64_t bytes = 0;
  double computed_ms = 0;  // what it took to compute the image; 0: not known
  int64_t last_used = 0;   // counts uses
  int64_t noted_ns = 0;    // when the library last heard of a use
  int32_t pins = 0;        // of readers of its bytes
};

/// Any thread may call. Allocates nothing.
class LibraryCache {
 public:
  /// `entries`: [n, bytes of an entry]; `records`: [n, sizeof(CachedEntry)], for whatever n, also 0.
  void attach(HostView<std::byte> entries, HostView<std::byte> records);

  /// The record's number, pinned until release(), with *found a copy; or -1. Forgets the entry if it is not current.
  /// *is_due: the library is to hear of this use, as it does once a minute.
  int32_t find(const EntryWish& wish, CachedEntry* found, bool* is_due);
  const std::byte* bytes(int32_t number) const { return entries_.row(number); }
  void release(int32_t number);
  /// Copies an entry that was checked, in place of the one that was not used for longest. Does nothing where all are
  /// pinned or there is no memory tier.
  void insert(const CachedEntry& entry, const std::byte* bytes);
  bool is_enabled() const { return entries_.rows > 0; }

 private:
  CachedEntry& record(int64_t number) const { return *reinterpret_cast<CachedEntry*>(records_.row(number)); }
  int32_t choose_place(const CachedEntry& entry);

  Monitor monitor_;
  HostView<std::byte> entries_;
  HostView<std::byte> records_;
  int64_t uses_ = 0;
};

}  // namespace ocellus
