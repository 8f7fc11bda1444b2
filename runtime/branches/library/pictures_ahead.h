// The pictures of a prompt that is added as a whole, by their identities: the library's entries are read while the
// session computes the pictures before them.
#pragma once

#include "runtime/branches/library/library_traffic.h"
#include "runtime/engine/shared_images.h"

namespace ocellus {

class PicturesAhead {
 public:
  /// `facts`: [pictures, sizeof(EntryFacts)]; the maximum number of pictures known ahead.
  void attach(HostView<std::byte> facts) { facts_ = facts; }
  bool has_room() const { return count_ < facts_.rows; }
  void add(const EntryFacts& facts);
  /// Starts as many loads as there is room for, in order. A repeated picture waits for the first one, which may only
  /// then be in the library. Those that the device holds need none. `wish` and `entry`: all but the facts.
  void start_loads(PictureWish wish, EntryWish entry, SharedImages& shared, LibraryTraffic& traffic, Queue& queue);

  /// Goes on to the prompt's next picture. False if it is not known ahead.
  bool next(EntryFacts* facts);
  /// Returns the load of the present picture, which is the caller's from now on; -1: none is begun.
  int take_load();
  /// Ends the newest load begun for a picture still to come, if there is one: an earlier picture needs one after all,
  /// and would wait for those in vain.
  void give_way(LibraryTraffic& traffic);
  /// Drops all pictures and ends the loads begun for them.
  void clear(LibraryTraffic& traffic);

 private:
  EntryFacts facts(int64_t i) const;
  int& load(int64_t i) { return loads_[i % kMaxBegun]; }

  // One load for the present picture, which may have ended, and those after it.
  static constexpr int64_t kMaxBegun = LibraryTraffic::kLoads + 1;

  HostView<std::byte> facts_;
  int64_t count_ = 0;
  int64_t begun_ = 0;        // pictures whose loads were begun
  int64_t current_ = 0;      // the first picture that is not finished
  bool is_present_ = false;  // next() has returned it
  int loads_[kMaxBegun] = {};
};

}  // namespace ocellus
