// Places for linked images that sessions share: each has blocks for one image, and counts the sessions' links to it.
#pragma once

#include <cstdint>

#include "platform/arena.h"
#include "platform/status.h"

namespace ocellus {

class BlockPool;

struct SharedPlace {
  int32_t users = 0;      // links to it
  bool is_kept = false;   // stays when it has no users, until another image needs the place
  bool is_taken = false;  // has blocks
  int64_t last_used = 0;  // count of uses at the beginning or end of the last one
};
template <>
struct TypeName<SharedPlace> {
  static constexpr const char* value = "place";
};

struct SharedUse {
  int64_t held = 0;   // places with an image
  int64_t used = 0;   // places with users
  int64_t links = 0;  // users of all of them
};

/// Does not know what the images are: SharedImages does.
class SharedPlaces {
 public:
  Status lay_out(int64_t count, int64_t blocks_per_image, RowSink& sink);
  bool planned() const { return places_.cols > 0; }
  int64_t count() const { return places_.cols; }

  /// Returns a place with one user, whose blocks have no meaning yet: an empty one, else the kept one without users
  /// that was used least recently. -1: all have users.
  int32_t take(BlockPool& blocks);
  void add_user(int32_t place);
  /// Ends a use. The last user of a place that is not kept gives its blocks back.
  void release(int32_t place, BlockPool& blocks);
  /// Keeps the image of a place that is complete.
  void keep(int32_t place) { places_.data[place].is_kept = true; }
  /// Keeps it no longer than it has users.
  void forget(int32_t place, BlockPool& blocks);
  bool is_kept(int32_t place) const { return places_.data[place].is_kept; }
  int32_t users(int32_t place) const { return places_.data[place].users; }
  /// Numbers of the place's blocks in their pool, [blocks_per_image].
  const int32_t* blocks(int32_t place) const { return blocks_.row(place); }
  SharedUse use() const;

 private:
  int32_t choose() const;
  void give_back_unused(int32_t place, BlockPool& blocks);

  HostView<SharedPlace> places_;  // [1, count]
  HostView<int32_t> blocks_;      // [count, blocks per image]
  int64_t uses_ = 0;
};

}  // namespace ocellus
