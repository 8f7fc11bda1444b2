// WaitingText: the text at the end of a prompt, which waits for what follows: the two may be one token. What waits is
// not in the prompt chunk yet.
#pragma once

#include <cstring>
#include <string_view>

#include "platform/arena.h"

namespace ocellus {

/// Bytes of a session's row of EngineMemory::texts, as plain values. The next picture stands at `place`: what waits
/// from there on comes after it.
struct TextRange {
  int64_t begin = 0, place = 0, end = 0;
  bool continues = false;  // it follows text that was tokenised
};

/// Bytes before `floor` are those of a state to which the session may return: they stay as they are.
class WaitingText {
 public:
  WaitingText(char* bytes, int64_t capacity, TextRange& range, int64_t& floor)
      : bytes_(bytes), capacity_(capacity), range_(range), floor_(floor) {}

  int64_t& floor() { return floor_; }
  bool empty() const { return range_.begin == range_.end; }
  std::string_view all() const { return view(range_.begin, range_.end); }
  std::string_view head() const { return view(range_.begin, range_.place); }

  /// False if the text has no room.
  bool append(std::string_view text) {
    const auto size = static_cast<int64_t>(text.size());
    if (range_.end + size > capacity_) return false;
    if (size > 0) std::memcpy(bytes_ + range_.end, text.data(), text.size());
    range_.end += size;
    return true;
  }
  /// Inserts at the place of the next picture, which moves on.
  bool insert(std::string_view text) {
    const bool is_end = range_.place == range_.end;
    const auto size = static_cast<int64_t>(text.size());
    if (!is_end && range_.begin < floor_ && !move_to(range_.end)) return false;
    if (range_.end + size > capacity_) return false;
    std::memmove(bytes_ + range_.place + size, bytes_ + range_.place, static_cast<size_t>(range_.end - range_.place));
    if (size > 0) std::memcpy(bytes_ + range_.place, text.data(), text.size());
    range_.place += size;
    range_.end += size;
    return true;
  }
  void end_head() { range_.place = range_.end; }
  /// Call these two when the text was tokenised.
  void drop_head() { range_.begin = range_.place; }
  void drop_all() { range_.begin = range_.place = range_.end = floor_; }
  /// Moves what waits down to the floor.
  void settle() {
    if (range_.begin > floor_) (void)move_to(floor_);
  }

 private:
  std::string_view view(int64_t begin, int64_t end) const { return {bytes_ + begin, static_cast<size_t>(end - begin)}; }

  bool move_to(int64_t to) {
    if (to + range_.end - range_.begin > capacity_) return false;
    std::memmove(bytes_ + to, bytes_ + range_.begin, static_cast<size_t>(range_.end - range_.begin));
    const int64_t by = to - range_.begin;
    range_.begin += by;
    range_.place += by;
    range_.end += by;
    return true;
  }

  char* bytes_;
  int64_t capacity_;
  TextRange& range_;
  int64_t& floor_;
};

}  // namespace ocellus
