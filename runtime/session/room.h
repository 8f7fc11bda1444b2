// Room: what still fits in a conversation. A rolling one, which goes on for hours, makes room by a Roller.
#pragma once

#include "runtime/session/conversation.h"

namespace ocellus {

/// Rows of a prompt that wait to be read, or that need room.
struct RowNeed {
  int64_t text = 0;  // rows that go to text pages
  int32_t images = 0;
  int64_t positions = 0;  // taken by all of them, and by slots that are linked
  /// Images may take no positions of their own.
  bool is_none() const { return positions == 0 && images == 0; }
  static RowNeed of_text(int64_t rows) { return {.text = rows, .positions = rows}; }
};

/// `waiting`: rows that were added and not read yet.
class Room {
 public:
  explicit Room(Conversation& conversation) : conversation_(conversation) {}

  /// Keeps the newest images, and as many pages of the beginning; 0 images: the conversation does not roll.
  void roll(int32_t images, int32_t sink_pages) {
    images_ = images;
    sink_pages_ = sink_pages;
  }
  bool is_rolling() const { return images_ > 0; }
  int32_t images() const { return images_; }
  int32_t sink_pages() const { return sink_pages_; }
  /// Null: the conversation does not roll.
  Roller* roller() const;
  Conversation& conversation() const { return conversation_; }

  /// Rows and positions that the planned slots and the model still hold.
  int64_t for_text(const RowNeed& waiting) const;
  int64_t for_positions(const RowNeed& waiting) const;
  /// kFull if the need exceeds the planned text slots or the positions of the model.
  Status check(const RowNeed& need, const RowNeed& waiting) const;
  /// kFull if `count` forced tokens cannot find room, whatever a rolling context releases.
  Status check_to_score(int64_t count, const RowNeed& waiting) const;

  bool has(const RowNeed& need, const RowNeed& waiting) const;
  int64_t most_text(const RowNeed& waiting) const;
  /// Number of full sink pages at the conversation's beginning.
  int32_t sinks() const;

 private:
  int64_t live_span() const;

  Conversation& conversation_;
  int32_t images_ = 0, sink_pages_ = 0;  // 0: not rolling
};

}  // namespace ocellus
