// Conversation: what a session has said and seen. It owns the slots of its cache, the place where the next row stands,
// and the checkpoint to which a prompt that fails returns. It does not know rows that are still to be read: those
// belong to a Prompt.
#pragma once

#include "kernels/cache/select_slots.h"
#include "runtime/cache/kv_cache.h"
#include "runtime/cache/prompt_chunk.h"
#include "runtime/engine/branch.h"
#include "runtime/models/message_writer.h"
#include "runtime/session/prompt_stats.h"
#include "runtime/session/waiting_text.h"
#include "runtime/vocabulary/thought.h"
#include "runtime/vocabulary/tokenizer.h"

namespace ocellus {

class Engine;

/// All state of a conversation except its slots, as plain values: restoring is an assignment.
struct ConversationState {
  int64_t next_position = 0;
  int64_t row_count = 0;                // rows read so far, of prompts and answers, dropped ones included
  bool is_answerable = false;           // last_hidden() is the newest row's
  bool has_text = false;                // the beginning-of-text token was added
  MessageState message;                 // place in the chat template
  TextRange text;                       // at the end of what was added: see WaitingText
  TokenId unread_token = kNoToken;      // generated, not in the cache yet
  ThoughtState thought;                 // state of the newest answer
  int64_t recent_count = 0;             // number of tokens remembered for the repetition penalty
  int64_t token_count = 0;              // tokens of text so far, answers included
  int64_t answer_begin = 0;             // number of the newest answer's first token
  uint64_t prompt_hash = kEmptyPrefix;  // hash over the text since the last answer
  uint64_t prefix_hash = kEmptyPrefix;  // hash over all that was added, and over the ends of the pieces it was read in:
                                        // a picture read in its prompt is found by it
};

/// A state to return to: the one kind of snapshot that sessions take.
struct Checkpoint {
  ConversationState state;
  CacheMark cache;
  PromptChunk::Mark chunk = {};  // rows that waited
  int32_t images = 0;            // images in the cache and waiting
  int64_t reads = 0;             // chunks that the prompt had read
};

class Conversation {
 public:
  Conversation() = default;
  Conversation(const Conversation&) = delete;

  /// `pictures`: what makes rows of the session's pictures.
  void open(Engine& engine, int32_t slot, PictureRows& pictures);
  /// Drops everything said and seen.
  void reset();

  Engine& engine() const { return *engine_; }
  int32_t slot() const { return slot_; }
  SessionCache& cache() const;
  ConversationState& state() { return state_; }
  PromptStats& stats() { return stats_; }
  StopSignal& stop() { return stop_; }
  WaitingText text();
  /// Incomplete UTF-8 sequences of an answer.
  Utf8Stream& characters() { return characters_; }
  /// Number of tokens sampled so far: the counter of the random numbers.
  uint64_t& drawn_count() { return drawn_count_; }
  /// Output of the last layer for the newest row of a prompt, [width].
  float* last_hidden() const;
  /// Returns DAVID's NCAR by layer in the newest competing rows with images; null if there were none.
  const NcarState* ncar() const;
  void note_ncar() { has_ncar_ = true; }

  /// Remembers a token for the repetition penalty, in a ring of kRecentTokens.
  void remember(TokenId token);
  const int32_t* recent_tokens() const;
  /// Notes text that was added.
  void note_prompt(const TokenId* tokens, int64_t count);
  /// Notes a token of text, of a prompt or of an answer.
  void note_token(TokenId token);
  /// Null: answers have no guesses.
  Guesser* guesser() { return guesser_; }
  /// Null: all pictures are read in their prompts.
  PictureLinks* links() const { return links_; }

  /// Drops a cancellation that came while there was no prompt and no answer: it was not meant for the next one.
  void forget_late_cancel();
  void begin_prompt();
  /// Marks an answer as begun. A continued answer is still the same answer, to which an earlier cancellation applies.
  void begin_answer() { has_prompt_ = true; }
  /// Begins a new answer after the prompt.
  void begin_guesses(ocellus_draft kind);

  /// Called after an answer: sets the state to which a prompt that fails returns.
  void set_checkpoint();
  Checkpoint& checkpoint() { return checkpoint_; }
  /// Returns to the checkpoint: all that was read since is dropped. If layers with a window do not have what the next
  /// row sees from there, as more than a window was read since, to the beginning of the conversation.
  void go_back();
  /// Marks all that was read; returns to that. False if it is not there any more: reset() then.
  void set_mark();
  bool go_to_mark();
  /// Returns to a state since which nothing was read.
  void restore(const ConversationState& state);

 private:
  friend struct ChangedByAnswer;

  Engine* engine_ = nullptr;
  int32_t slot_ = 0;
  StopSignal stop_;
  ConversationState state_;
  Checkpoint checkpoint_, mark_;
  KeptState place_ = KeptState::kCheckpoint;  // keeps the next checkpoint's state
  bool has_mark_ = false;
  int64_t text_floor_ = 0;
  bool has_prompt_ = false;  // something was added since the last answer
  bool has_ncar_ = false;
  uint64_t drawn_count_ = 0;
  PromptStats stats_;
  Utf8Stream characters_;
  Guesser* guesser_ = nullptr;
  PictureLinks* links_ = nullptr;
};

/// The conversation's cache, or the engine's staged images: what holds linked ones until their prompt is read.
SessionCache& linked_cache(const Conversation& conversation);

}  // namespace ocellus
