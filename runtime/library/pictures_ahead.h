// The pictures of a prompt that is added as a whole, by their identities: so that the library's entries are read while
// the session works on the pictures before them.
#pragma once

#include "runtime/library/library_traffic.h"

namespace ocellus {

class PicturesAhead {
 public:
  /// `facts`: [pictures, sizeof(EntryFacts)]; how many can be known ahead.
  void attach(HostView<std::byte> facts) { facts_ = facts; }
  bool has_room() const { return count_ < facts_.rows; }
  void add(const EntryFacts& facts);
  /// Starts as many loads as there is room for, in order. A picture that comes a second time waits for the first one,
  /// which may only then be in the library.
  /// `wish`: but for the facts.
  void start_loads(EntryWish wish, LibraryTraffic& traffic, Queue& queue);

  /// The next picture of the prompt, and its load, -1 if that is still to begin. False where it is not known.
  bool current(EntryFacts* facts, int* load);
  void finish_current();
  /// Forgets all of them, and what was begun for those that are still to come.
  void clear(LibraryTraffic& traffic);

 private:
  EntryFacts facts(int64_t i) const;

  // One load for the picture at hand, which may have ended, and those after it.
  static constexpr int64_t kMostBegun = LibraryTraffic::kLoads + 1;

  HostView<std::byte> facts_;
  int64_t count_ = 0;
  int64_t begun_ = 0;      // pictures whose loads were begun
  int64_t current_ = 0;    // the first that is not done with
  bool is_taken_ = false;  // the load of the current one belongs to who asked for it
  int loads_[kMostBegun] = {};
};

}  // namespace ocellus
