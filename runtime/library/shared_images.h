// The image library's tier in device memory: linked images that the engine's sessions share, found by what identifies
// an entry. As in the tier in host memory, a find returns exactly what the library would: the same owner's image with
// the same facts, whose file is still the one that was read or written. Without a library an image is found by the
// same facts, its pixels' hash among them, and the session's owner, if it has one.
#pragma once

#include "platform/views.h"
#include "runtime/cache/kv_pools.h"
#include "runtime/library/library_cache.h"

namespace ocellus {

/// An image in a place.
struct SharedImage {
  uint64_t library = 0;  // ImageLibrary::serial(); 0: of sessions without a library
  OwnerName owner = {};
  EntryFacts facts = {};
  LibraryPart part = LibraryPart::kOwn;
  EntryStamp stamp = {};
  int64_t store = 0;       // number of the store that will give it its stamp; 0: none is awaited
  double computed_ms = 0;  // time that computing the image took; 0: unknown
  int64_t noted_ns = 0;    // time at which the library was last notified of a use
};

/// By place: the images' records, and the rows computed in place with their numbers in the image.
struct SharedImageMemory {
  HostView<std::byte> records;  // [places, sizeof(SharedImage)]
  ActivationView rows;          // [places * rows, D]
  HostView<int32_t> picks;      // [places, rows]
};

/// Not thread-safe: sessions use it on the engine's thread.
class SharedImages {
 public:
  void attach(const SharedImageMemory& memory, KvPools* pools);
  bool planned() const { return pools_ != nullptr; }

  /// Returns the place of the image that is wished for, or -1. Forgets one that is not current.
  int32_t find(const EntryWish& wish);
  /// The same, if the image is not to be linked now.
  bool has(const EntryWish& wish) { return find(wish) >= 0; }
  /// Counts a link to an image that was found. True if its library should be notified, once a minute.
  bool note_link(int32_t place);
  /// Makes a complete image of a place one that is found; forgets an older one of the same identity.
  void keep(int32_t place, const SharedImage& image);
  const SharedImage& image(int32_t place) const { return record(place); }
  /// Gives the image that awaits this store its stamp; null: it was not stored, and is found no more. 0: no store.
  void note_stored(int64_t store, const EntryStamp* stamp);

  ActivationView rows(int32_t place) const {
    return memory_.rows.slice_rows(place * memory_.picks.cols, memory_.picks.cols);
  }
  int32_t* picks(int32_t place) const { return memory_.picks.row(place); }
  int64_t hits() const { return hits_; }
  SharedUse use() const { return planned() ? pools_->shared.use() : SharedUse(); }

 private:
  SharedImage& record(int64_t place) const { return *reinterpret_cast<SharedImage*>(memory_.records.row(place)); }
  int32_t find_any(const EntryWish& wish) const;
  void forget(int32_t place) { pools_->shared.forget(place, pools_->blocks); }

  SharedImageMemory memory_;
  KvPools* pools_ = nullptr;
  int64_t hits_ = 0;
};

}  // namespace ocellus
