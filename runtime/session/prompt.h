// Prompt: text and pictures that are added to the engine's prompt chunk, and read into the conversation's cache. While
// rows of it wait, the chunk is lent to it.
//
//   the loan, restoring, reading the chunk     prompt.cpp
//   text and pictures become rows              prompt_add.cpp
#pragma once

#include <string_view>

#include "runtime/engine/chunk_loan.h"
#include "runtime/session/reuse.h"
#include "runtime/session/room.h"

namespace ocellus {

struct TextConfig;

/// Leaves the tokens of a text in EngineMemory::token_ids. `continues`: it follows other text directly.
Status encode_text(Engine& engine, std::string_view text, bool parse_special, bool continues, int64_t* count);

/// kBadArgument names the first token that the model does not have.
Status check_tokens(const TextConfig& config, const TokenId* tokens, int64_t count);

class Prompt final : private ChunkHolder {
 public:
  Prompt(Conversation& conversation, Room& room, PictureRows& pictures, Reuse& reuse)
      : conversation_(conversation), room_(room), pictures_(pictures), reuse_(reuse) {}

  /// Begins every addition: reports an earlier failure or a request to stop, borrows the chunk, and puts the token that
  /// was generated last and not read yet in front of the addition.
  Status start();
  /// `continues`: the text follows other text directly (a SentencePiece vocabulary then adds no space before it).
  Status add_text(std::string_view text, bool parse_special, bool continues);
  /// Adds text that ends with `suffix`, before which everything is read and compressed.
  Status add_closing(std::string_view text, const char* suffix);
  Status add_tokens(const TokenId* tokens, int64_t count);
  /// Adds the line breaks at the end of the text, which wait for those that may follow: see ImageMarks::line_breaks.
  Status add_line_breaks();
  /// Adds a whole picture or nothing; on failure text before it that had to be read is dropped as well.
  Status add_picture(const Picture& picture);
  /// See ocellus_session_add_library_image.
  Status add_library_image(const LibraryKey& key);

  /// The state of this prompt, and the way back to it; if something was read since, back to the last answer.
  Checkpoint mark() const;
  void go_back(const Checkpoint& to);
  /// Returns to the last answer.
  void forget();

  /// Reads the waiting rows. On failure the prompt is dropped, and the earlier conversation stays.
  Status read();
  /// Reads everything for an answer, so that the newest row can be answered.
  Status read_to_answer();
  /// Prepares an answer that goes on after it was cut: a decode step will read its newest token.
  Status read_nothing();
  /// True if the chunk is lent to this prompt, with or without rows that wait.
  bool holds_chunk() const;
  RowNeed waiting() const;
  /// Gives the chunk back unread, and drops a failure that was not reported yet.
  void reset();

 private:
  void yield_chunk() override { deferred_ = read(); }
  void give_back();
  Status read_and_borrow();
  PromptChunk& chunk() const;
  Status make_room(const RowNeed& need);
  Status roll(const RowNeed& need);
  Status add_start_token();
  Status append(const TokenId* tokens, int64_t count);
  Status append_encoded(int64_t first, int64_t count);
  Status prepare_picture(const ViewPlan& plan);
  Status begin_picture(const ViewPlan& plan);
  Status end_picture(Status status, const Checkpoint& before);
  Status add_in_context(const Picture& picture, const ViewPlan& plan);
  Status read_in_context(const Picture& picture, const ViewPlan& plan, const EntryFacts& facts);

  Conversation& conversation_;
  Room& room_;
  PictureRows& pictures_;
  Reuse& reuse_;
  Status deferred_;    // failure of rows that were read because another prompt needed the chunk
  int64_t reads_ = 0;  // times the chunk was read, so that marks know whether it was read since
};

}  // namespace ocellus
