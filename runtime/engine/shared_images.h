// Linked images that the engine's sessions share, on the device: found by the same facts, their pixels' hash among
// them, and the session's owner, if it has one. With a picture store a find returns exactly what that would: an image
// that it still has as it was recalled or kept.
#pragma once

#include "platform/views.h"
#include "runtime/cache/kv_pools.h"
#include "runtime/engine/picture_store.h"

namespace ocellus {

/// An image in a place.
struct SharedImage {
  uint64_t store = 0;  // PictureStore::serial(); 0: of sessions without one
  OwnerName owner = {};
  EntryFacts facts = {};
  StoreMark mark = {};
  int64_t awaited = 0;     // number under which it will get its mark; 0: none is awaited
  double computed_ms = 0;  // time that computing the image took; 0: unknown
  int64_t noted_ns = 0;    // time at which the store was last notified of a use
};

/// By place: the images' records, and the rows computed in place with their numbers in the image.
struct SharedImageMemory {
  HostView<std::byte> records;  // [places, sizeof(SharedImage)]
  ActivationView rows;          // [places * rows, D]
  HostView<int32_t> picks;      // [places, rows]
};

/// True once a minute: a use should be noted. `noted_ns`: time of the last note.
bool is_use_due(int64_t* noted_ns);

/// Not thread-safe: sessions use it on the engine's thread.
class SharedImages {
 public:
  void attach(const SharedImageMemory& memory, KvPools* pools);
  bool planned() const { return pools_ != nullptr; }

  /// Returns the place of the image that is wished for, or -1. Forgets one that is not current.
  int32_t find(const PictureWish& wish);
  /// The same, if the image is not to be linked now.
  bool has(const PictureWish& wish) { return find(wish) >= 0; }
  /// Counts a link to an image that was found. True if its store should be notified, once a minute.
  bool note_link(int32_t place);
  /// Makes a complete image of a place one that is found; forgets an older one of the same identity.
  void keep(int32_t place, const SharedImage& image);
  const SharedImage& image(int32_t place) const { return record(place); }
  /// Gives the image that awaits this number its mark; null: it is not kept, and is found no more. 0: none awaits it.
  void settle(int64_t number, const StoreMark* mark);

  ActivationView rows(int32_t place) const {
    return memory_.rows.slice_rows(place * memory_.picks.cols, memory_.picks.cols);
  }
  int32_t* picks(int32_t place) const { return memory_.picks.row(place); }
  int64_t hits() const { return hits_; }
  SharedUse use() const { return planned() ? pools_->shared.use() : SharedUse(); }

 private:
  SharedImage& record(int64_t place) const { return *reinterpret_cast<SharedImage*>(memory_.records.row(place)); }
  int32_t find_any(const PictureWish& wish) const;
  void forget(int32_t place) { pools_->shared.forget(place, pools_->blocks); }

  SharedImageMemory memory_;
  KvPools* pools_ = nullptr;
  int64_t hits_ = 0;
};

}  // namespace ocellus
