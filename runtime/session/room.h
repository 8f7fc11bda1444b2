// Room: what still fits in a conversation, and in a rolling one what goes to make room.
//
// Rolling contexts are sessions that go on for hours. The newest images stay, the oldest ones are released; text stays
// within its planned pages, the beginning of the conversation (attention sinks; Xiao et al., StreamingLLM) included.
// With InfiniPot-V older images are thinned instead, and released only if they are not alike or positions run out.
// If the rows of a prompt compete for slots, what is left of it is released as a whole, with all of its images.
//
// Positions grow on. What attention sees is their differences, so nothing that stays has to change, but for the sinks:
// they are moved up to the rows that stayed, by reading them with a query turned back as far. So no difference grows
// beyond what the model was made for.
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

  /// See ocellus_session_set_rolling.
  Status set_rolling(int32_t images, int32_t sink_tokens);
  void stop_rolling() { images_ = sink_pages_ = 0; }
  bool is_rolling() const { return images_ > 0; }

  /// Rows and positions that the planned slots and the model still hold.
  int64_t for_text(const RowNeed& waiting) const;
  int64_t for_positions(const RowNeed& waiting) const;
  /// kFull if the need exceeds the planned text slots or the positions of the model.
  Status check(const RowNeed& need, const RowNeed& waiting) const;
  /// kFull if `count` forced tokens cannot find room, whatever a rolling context releases.
  Status check_to_score(int64_t count, const RowNeed& waiting) const;

  /// True if rows of a rolling context may be released to make room. False for a need that can never fit.
  bool can_roll(const RowNeed& need, const RowNeed& waiting) const;
  bool has(const RowNeed& need, const RowNeed& waiting) const;
  /// True if a rolling context keeps the waiting text as its beginning, which must not compete with the images after
  /// it.
  bool begins(const RowNeed& need, const RowNeed& waiting) const;
  /// Releases the oldest rows until there is room or nothing can be released. No rows may wait.
  Status release(const RowNeed& need);
  /// Makes room for an answer whose prompt was read: releases rows from before the prompt until the answer fits, but no
  /// more than half of the planned text: few answers are as long as they may be.
  void release_for_answer(int64_t text_rows);

 private:
  int64_t most_text(const RowNeed& waiting) const;
  int64_t live_span() const;
  int32_t sinks() const;
  void move_sinks();
  Status thin(const RowNeed& need);
  bool release_oldest(const RowNeed& need, const CacheMark& until);

  Conversation& conversation_;
  int32_t images_ = 0, sink_pages_ = 0;  // 0: not rolling
};

}  // namespace ocellus
