// The pictures of a prompt that is added as a whole, by their identities: the library's entries are read while the
// session computes the pictures before them.
#pragma once

#include "runtime/library/library_traffic.h"
#include "runtime/library/shared_images.h"

namespace ocellus {

class PicturesAhead {
 public:
  /// `facts`: [pictures, sizeof(EntryFacts)]; the maximum number of pictures known ahead.
  void attach(HostView<std::byte> facts) { facts_ = facts; }
  bool has_room() const { return count_ < facts_.rows; }
  void add(const EntryFacts& facts);
  /// Starts as many loads as there is room for, in order. A repeated picture waits for the first one, which may only
  /// then be in the library. Those that the device holds need none. `wish`: all but the facts.
  void start_loads(EntryWish wish, SharedImages& shared, LibraryTraffic& traffic, Queue& queue);

  /// Returns the prompt's next picture, and its load, -1 if that is not begun. False if the picture is not known ahead.
  bool current(EntryFacts* facts, int* load);
  void finish_current();
  /// Ends the newest load begun for a picture still to come, if there is one: an earlier picture needs one after all,
  /// and would wait for those in vain.
  void give_way(LibraryTraffic& traffic);
  /// Drops all pictures and ends the loads begun for those still to come.
  void clear(LibraryTraffic& traffic);

 private:
  EntryFacts facts(int64_t i) const;

  // One load for the current picture, which may have ended, and those after it.
  static constexpr int64_t kMaxBegun = LibraryTraffic::kLoads + 1;

  HostView<std::byte> facts_;
  int64_t count_ = 0;
  int64_t begun_ = 0;      // pictures whose loads were begun
  int64_t current_ = 0;    // the first picture that is not finished
  bool is_taken_ = false;  // the caller of current() owns the load
  int loads_[kMaxBegun] = {};
};

}  // namespace ocellus
