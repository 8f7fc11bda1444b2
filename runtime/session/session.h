// Session: one conversation. Text and images are added as rows, read in chunks (prefill), and answered (decode).
//
//   add_text, add_image  -> rows in the prompt chunk      session_add.cpp
//   add_parts            -> all of a prompt               session_parts.cpp
//   read_chunk           -> the cache holds them          session.cpp
//   link_picture         -> an image read alone, linked   session_link.cpp, session_library.cpp
//   add_in_context       -> an image of a known prefix    session_prefix.cpp
//   blend_chunk          -> rows to read in place         session_blend.cpp
//   add_synthetic_image  -> the cache holds made-up rows  session_synthetic.cpp
//   generate, score      -> tokens, one step at a time    generate.cpp
//   set_rolling          -> the oldest makes room         session_rolling.cpp
#pragma once

#include <string_view>

#include "kernels/cache/select_slots.h"
#include "mm/pictures/frame.h"
#include "mm/views/preprocess.h"
#include "platform/queue.h"
#include "runtime/cache/kv_cache.h"
#include "runtime/engine/chunk_loan.h"
#include "runtime/ocellus.h"
#include "runtime/session/generate.h"
#include "runtime/session/prompt_stats.h"
#include "runtime/session/session_keep.h"
#include "runtime/vocabulary/chat_template.h"
#include "runtime/vocabulary/tokenizer.h"

namespace ocellus {

class Engine;
class ImageLibrary;
struct EntryWish;
struct LoadedEntry;
struct PromptChunk;
struct VisionScratch;
struct Picture;

class Session final : private ChunkHolder {
 public:
  bool is_open() const { return open_; }
  /// Begins a conversation in a slot that was taken from the engine. Both must stay until the engine goes.
  void open(Engine& engine, int32_t slot);
  /// Gives the slot back.
  void close();
  /// Forgets everything said and seen.
  void reset();

  Status add_system(std::string_view text);
  Status begin_turn();
  Status end_turn();
  Status add_text(std::string_view text, bool parse_special);
  Status add_tokens(const TokenId* tokens, int64_t count);
  Status add_frame(const Frame& frame);
  Status add_encoded_image(const uint8_t* bytes, int64_t byte_count);
  /// All of them or none; see ocellus_session_add_parts. *failed: the part at fault, or -1.
  Status add_parts(const ocellus_part* parts, int32_t count, int32_t* failed);
  /// Null: none. See ocellus_session_set_library.
  Status set_library(ImageLibrary* library, std::string_view owner);
  Status add_synthetic_image();  // see ocellus_session_add_synthetic_image

  /// See ocellus_session_set_rolling.
  Status set_rolling(int32_t images, int32_t sink_tokens);

  /// DAVID's NCAR by layer in the newest rows with images that competed; null if there were none.
  const NcarState* ncar() const;

  /// A cancellation stays set until a call has reported it, see acknowledge_cancel(), or a prompt begins.
  StopSignal& stop_signal() { return stop_; }
  /// Passes a call's status on; a reported cancellation is over.
  Status acknowledge_cancel(Status status);
  Engine& engine() { return *engine_; }
  int32_t index() const { return index_; }
  SessionCache& cache();
  const SessionCache& cache() const;
  int64_t next_position() const { return next_position_; }

  /// Prefills what waits in the prompt chunk if it is ours. On failure what was added since the last generate is
  /// forgotten, and the earlier conversation stays.
  Status read_chunk();
  bool holds_chunk() const;  // with or without rows that wait

 private:
  friend class Generation;
  friend class Retrieval;  // session_retrieve.h: images from the library, by key
  friend Status score(Session& session, const ForcedAnswer& answer, ocellus_generate_stats* stats);

  /// The conversation as the last generate left it: what a prompt that is not read to its end goes back to.
  struct Checkpoint {
    SessionCache::Mark cache;
    int64_t next_position = 0;
    bool has_answerable = false;
    bool conversation_started = false;
    bool has_system = false;
    bool text_started = false;
    TokenId unread_token = kNoToken;
    int64_t recent_count = 0;
    uint64_t prefix_hash = 0;
  };
  void set_checkpoint();
  void forget_prompt();

  void forget_late_cancel();  // that came while there was no prompt and no answer
  void begin_prompt();
  Status start_adding();
  void take_chunk();
  void drop_chunk();  // empties it if it is ours, and leaves it to whoever adds next
  void yield_chunk() override { deferred_ = read_chunk(); }
  Status add_start_token();
  Status add_template_text(const char* text, bool continues);
  Status add_user_close(const TurnText& texts);
  Status add_text_piece(std::string_view text, bool parse_special, bool continues);
  Status encode_text(std::string_view text, bool parse_special, bool continues, int64_t* count);
  Status append_text_rows(const TokenId* tokens, int64_t count);
  Status check_tokens(const TokenId* tokens, int64_t count) const;
  Status check_room(int64_t text_rows, int64_t image_rows) const;
  Status make_room(int64_t text_rows, int64_t image_rows);
  void make_room_to_answer(int64_t text_rows);
  Status check_room_to_score(int64_t count) const;
  bool can_have_room(int64_t text_rows, int64_t image_rows) const;
  bool has_room(int64_t text_rows, int64_t image_rows) const;
  bool release_oldest(int64_t text_rows, int64_t image_rows, const SessionCache::Mark& until);
  int32_t sinks() const;
  void move_sinks();
  int64_t live_span() const;
  int64_t most_text() const;
  int64_t waiting_text() const;
  int64_t room_for_text() const;  // what the planned slots and the model still hold, waiting rows counted
  int64_t room_for_positions() const;
  Status add_picture(const Picture& picture);
  Status prepare_rows(const ViewPlan& plan);
  struct AddMark;
  Status look_ahead(const ocellus_part& part);
  Status add_part(const ocellus_part& part);
  void take_back(const AddMark& mark);
  void forget_recent_tokens(int64_t count);
  Status add_picture_rows(const Picture& picture, const ViewPlan& plan);
  Status add_views(const Picture& picture, const ViewPlan& plan, PromptChunk& chunk);
  Status encode_waiting_views(const VisionScratch& scratch);
  Status add_in_context(const Picture& picture, const ViewPlan& plan);
  Status read_in_context(const Picture& picture, const ViewPlan& plan, double* spent_ms);
  void note_prefix(const TokenId* tokens, int64_t count);
  Status link_picture(const Picture& picture, const ViewPlan& plan);
  Status read_alone(const Picture& picture, const ViewPlan& plan);
  Status pick_rows(const ViewPlan& plan);
  void keep_picked_rows();
  Status recall_or_read(const Picture& picture, const ViewPlan& plan, int32_t ordinal);
  Status describe_entry(const Picture& picture, const ViewPlan& plan, EntryFacts* facts);
  EntryWish wish_for(const EntryFacts& facts) const;
  Status load_entry(const EntryFacts& facts, int load, int32_t ordinal, bool* found);
  void note_hit(const LoadedEntry& entry, double spent_ms);
  void clear_blocks(int32_t ordinal);
  Status keep_entry(const EntryFacts& facts, int32_t ordinal, double computed_ms);
  void note_embedding(const PromptChunk& chunk);
  Status prefill_alone();
  Status add_links(const ViewPlan& plan, int32_t ordinal);
  void commit_links();
  void fetch_linked_rows();
  Status blend_chunk();
  Status encode_last_views();
  void take_encode_time();
  Status prefill_chunk();
  Status reserve_chunk();
  void commit_chunk();
  int32_t chunk_images() const;
  bool chunk_is_evicted() const;
  int32_t kept_slots(int64_t image_rows) const;
  void remember_token(TokenId token);
  int64_t waiting_positions() const;
  int32_t next_image() const;  // ordinal: those in the cache and those waiting come before it

  Engine* engine_ = nullptr;
  int32_t index_ = 0;
  bool open_ = false;
  StopSignal stop_;
  bool has_prompt_ = false;  // something was added since the last generate
  Status deferred_;          // of rows that were read because another session needed the chunk

  int64_t next_position_ = 0;
  bool has_answerable_ = false;        // last_hidden holds the newest row
  bool conversation_started_ = false;  // a template turn was begun
  bool has_system_ = false;            // a system prompt was added
  bool text_started_ = false;          // the beginning-of-text token is in
  bool chunk_was_read_ = false;        // since somebody last looked
  TokenId unread_token_ = kNoToken;    // generated, not yet in the cache
  ImageLibrary* library_ = nullptr;
  OwnerName owner_;
  SessionKeep keep_;
  int32_t rolling_images_ = 0, sink_pages_ = 0;  // 0: not rolling
  bool has_ncar_ = false;
  int64_t recent_count_ = 0;
  uint64_t prefix_hash_ = 0;  // of all that was read and waits, see session_prefix.cpp
  uint64_t drawn_count_ = 0;  // tokens sampled, the counter of the random numbers
  Checkpoint checkpoint_;
  PromptStats prompt_;
  bool encode_timed_ = false;  // the queue's encode timer runs or has run, and nobody has asked it yet
  Utf8Stream utf8_;
};

}  // namespace ocellus
