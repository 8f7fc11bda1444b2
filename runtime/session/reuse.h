// Reuse: pictures that are not computed in place. A picture is linked (computed alone, once, and seen at any position),
// or, by prefix caching, linked as it was read in a prompt with the same beginning. Both may be recalled from and kept
// in the session's picture store. A prompt calls this; it adds to its chunk rows that are computed in place, and links.
//
//   known pictures                         reuse.cpp
//   images that sessions share             shared_links.h
//   reading alone, linking                 reuse_link.cpp
//   choosing rows to compute in place      reuse_blend.cpp
#pragma once

#include "runtime/session/picture_rows.h"
#include "runtime/session/shared_links.h"

namespace ocellus {

/// Facts of an entry that follow from the engine and the numbers of views and rows: all but the content and the tiles.
EntryFacts entry_facts(Engine& engine, int32_t view_count, int64_t row_count);

class Reuse {
 public:
  Reuse(Conversation& conversation, PictureRows& pictures) : conversation_(conversation), pictures_(pictures) {}

  /// Removes the store and the owner; pictures are linked again.
  void reset();
  /// See ocellus_session_set_linking.
  void set_linking(bool links) { is_linking_ = links; }
  /// True if pictures that are added now are linked.
  bool links() const;
  /// Sets the store of pictures that are added from now on, null: none; and their owner, who may be empty without a
  /// store. kBadArgument for another name.
  Status set_store(PictureStore* store, std::string_view owner);
  const OwnerName& owner() const { return owner_; }
  /// Null: none.
  PictureStore* store() const { return store_; }

  // True if the pictures of a prompt that is added as a whole are looked up ahead.
  bool looks_ahead() const;
  Status look_ahead(const Picture& picture, const ViewPlan& plan);
  void forget_ahead();

  /// Rows of a picture that are in the chunk at a time.
  int64_t rows_in_chunk(const ViewPlan& plan) const;
  /// True if the waiting rows are to be read before a picture is added.
  bool reads_before(const PromptChunk& chunk) const;

  // Functions that add to a prompt's chunk, which must have room. Blocks of an image that failed half way stay
  // reserved: a prompt releases them when it restores its state.
  /// Adds the rows of a picture, computed in place as the image `ordinal`, or linked.
  Status add(const Picture& picture, const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk);
  /// Links a picture that the store found by its name: it must still have it.
  Status link_named(const EntryFacts& facts, const ViewPlan& plan, PromptChunk& chunk);

  // Functions that read a prompt's chunk.
  /// Chooses the linked rows that are computed in place, if that depends on the prompt.
  Status choose_rows(PromptChunk& chunk);
  /// Makes the rows that are computed in place rows of the chunk.
  void fetch_rows(const PromptChunk& chunk);

 private:
  /// Links a picture, known or read alone.
  Status link(const Picture& picture, const ViewPlan& plan, PromptChunk& chunk);
  PictureWish wish_for(const EntryFacts& facts) const { return {store_, owner_, facts}; }
  Status identify(const Picture& picture, const ViewPlan& plan, EntryFacts* facts);
  void keep_image(const EntryFacts& facts, int32_t ordinal, double computed_ms, const PromptChunk& chunk);
  Status link_known(const Picture& picture, const ViewPlan& plan, PromptChunk& chunk, int32_t* ordinal);
  Status find(const PictureWish& wish, const PromptChunk& chunk, int32_t* ordinal, bool* found);
  Status read_alone(const Picture& picture, const ViewPlan& plan, int32_t ordinal, const PromptChunk& chunk);
  Status read_in_context(const Picture& picture, const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk);
  Status pick_rows(const ViewPlan& plan);
  void keep_picked_rows(const PromptChunk& chunk);
  Status prefill_images(const PromptChunk& chunk, int64_t first_position);
  Status add_links(const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk);

  Conversation& conversation_;
  PictureRows& pictures_;
  PictureStore* store_ = nullptr;
  OwnerName owner_;
  SharedLinks shared_{conversation_};
  bool is_linking_ = true;
};

}  // namespace ocellus
