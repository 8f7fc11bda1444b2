// Session: one conversation with a model, as the API exposes it. It handles the turns of the model's chat template and
// prompts that are added as a whole; its parts do the work, each of which uses only those before it:
//
//   Conversation   conversation.h   the history: slots, positions, the checkpoint to return to
//   Room           room.h           the remaining room
//   PictureRows    picture_rows.h   pictures become views, and views become rows
//   Prompt         prompt.h         text and pictures wait in the chunk and are read
//   Generation     generation.h     answers, one token at a time, of one session or of many together
#pragma once

#include <string_view>

#include "mm/pictures/frame.h"
#include "runtime/ocellus.h"
#include "runtime/session/generate.h"
#include "runtime/session/prompt.h"

namespace ocellus {

class Session : public SetUpObject {
 public:
  bool is_open() const { return open_; }
  /// Begins a conversation in a slot taken from the engine, which must outlive it.
  void open(Engine& engine, int32_t slot);
  /// Releases the slot.
  void close();
  /// Clears the conversation.
  void reset();
  /// See ocellus_session_mark.
  Status mark();
  /// Returns to the mark; false if there is none to return to, and the conversation was cleared.
  bool rewind();

  Status add_system(std::string_view text);
  Status begin_turn() { return prompt_.text().begin_message(Role::kUser); }
  Status end_turn() { return prompt_.text().end_turn(); }
  Status add_text(std::string_view text, bool parse_special) { return prompt_.text().add(text, parse_special); }
  Status add_tokens(const TokenId* tokens, int64_t count) { return prompt_.add_tokens(tokens, count); }
  Status add_frame(const Frame& frame);
  Status add_encoded_image(const uint8_t* bytes, int64_t byte_count);
  /// Adds all parts or none; see ocellus_session_add_parts. *failed: the part at fault, or -1.
  Status add_parts(const ocellus_part* parts, int32_t count, int32_t* failed);

  /// A cancellation stays set until a call has reported it, see acknowledge_cancel(), or a prompt begins.
  StopSignal& stop_signal() { return conversation_.stop(); }
  /// Returns a call's status; clears a reported cancellation.
  Status acknowledge_cancel(Status status);

  Engine& engine() const { return conversation_.engine(); }
  int32_t index() const { return conversation_.slot(); }
  SessionCache& cache() const { return conversation_.cache(); }
  int64_t next_position() { return conversation_.state().next_position; }
  const NcarState* ncar() const { return conversation_.ncar(); }

  Conversation& conversation() { return conversation_; }
  Room& room() { return room_; }
  PictureRows& pictures() { return pictures_; }
  /// The store of linked pictures and their owner. kBadArgument for a name that is none; the store may be null, and
  /// then the name empty.
  Status set_store(PictureStore* store, std::string_view owner);
  PictureStore* store() const { return conversation_.links() == nullptr ? nullptr : conversation_.links()->store(); }
  OwnerName owner() const { return conversation_.links() == nullptr ? OwnerName() : conversation_.links()->owner(); }
  Prompt& prompt() { return prompt_; }

 private:
  bool open_ = false;
  Conversation conversation_;
  Room room_{conversation_};
  PictureRows pictures_{conversation_};
  Prompt prompt_{conversation_, room_, pictures_};
};

}  // namespace ocellus
