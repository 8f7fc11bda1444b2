// Reuse: pictures that are not computed in place. A picture is linked (computed alone, once, and seen at any position),
// or, by prefix caching, linked as it was read in a prompt with the same beginning. Both may be read from and written
// to the session's image library. A prompt calls this; it adds to its chunk rows that are computed in place, and links.
//
//   the library, entries by key, search    reuse.cpp
//   reading and writing entries            reuse_library.cpp
//   images that sessions share             shared_links.h
//   reading alone, linking                 reuse_link.cpp
//   choosing rows to compute in place      reuse_blend.cpp
#pragma once

#include <string_view>

#include "platform/buffer.h"
#include "runtime/library/image_library.h"
#include "runtime/library/library_cache.h"
#include "runtime/session/picture_rows.h"
#include "runtime/session/session_keep.h"
#include "runtime/session/shared_links.h"

namespace ocellus {

/// Facts of an entry that follow from the engine and the numbers of views and rows: all but the content and the tiles.
EntryFacts entry_facts(Engine& engine, int32_t view_count, int64_t row_count);

class Reuse {
 public:
  Reuse(Conversation& conversation, PictureRows& pictures) : conversation_(conversation), pictures_(pictures) {}

  /// Removes the library and the labels of images; pictures are linked again.
  void reset();
  /// See ocellus_session_set_linking.
  void set_linking(bool links) { is_linking_ = links; }
  /// True if pictures that are added now are linked.
  bool links() const;
  /// Null: none. See ocellus_session_set_library.
  Status set_library(ImageLibrary* library, std::string_view owner);
  ImageLibrary* library() const { return library_; }
  std::string_view owner() const { return owner_.view(); }
  /// See ocellus_session_set_library_keep. kBadArgument for invalid labels, or without a library.
  Status set_keep(const EntryLabels& labels, LibraryPart part, bool only_there);
  /// Waits until keep() need not. kCancelled, kDeadline: the writing goes on.
  Status wait_for_keep();
  /// Waits for pending writes.
  const SessionKeep& keep();
  /// kBadArgument without a library.
  Status require_library() const;
  /// Finds the entries of this model that the owner sees whose pictures are most similar to the given one, which is
  /// encoded and not added. Allocates heap memory, as every search does.
  Status search(const uint8_t* bytes, int64_t byte_count, int32_t count, Buffer<NearEntry>* out);
  /// Finds an entry that the session's cache can take unchanged, and its views.
  Status find(const LibraryKey& key, EntryFacts* facts, ViewPlan* plan);

  // True if the pictures of a prompt that is added as a whole are looked up ahead: their entries are read while those
  // before them are computed.
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
  /// Links an entry found by its key: it must exist.
  Status link_entry(const EntryFacts& facts, const ViewPlan& plan, PromptChunk& chunk);

  // Functions that read a prompt's chunk.
  /// Chooses the linked rows that are computed in place, if that depends on the prompt.
  Status choose_rows(PromptChunk& chunk);
  /// Makes the rows that are computed in place rows of the chunk.
  void fetch_rows(const PromptChunk& chunk);

 private:
  /// Links a picture, from the library or read alone.
  Status link(const Picture& picture, const ViewPlan& plan, PromptChunk& chunk);
  EntryWish wish_for(const EntryFacts& facts) const;
  Status embed(const uint8_t* bytes, int64_t byte_count);
  Status identify(const Picture& picture, const ViewPlan& plan, EntryFacts* facts);
  void prepare_to_keep(int32_t ordinal);
  void note_embedding(const PromptChunk& chunk);
  void keep_image(const EntryFacts& facts, int32_t ordinal, double computed_ms, const PromptChunk& chunk);
  Status recall(const EntryFacts& facts, const ViewPlan& plan, PromptChunk& chunk, bool* found);
  Status link_known(const Picture& picture, const ViewPlan& plan, PromptChunk& chunk, int32_t* ordinal);
  Status find_entry(const EntryFacts& facts, int load, const PromptChunk& chunk, int32_t* ordinal, bool* found);
  int64_t store_image(const EntryFacts& facts, int32_t ordinal, double computed_ms, const PromptChunk& chunk);
  Status load_entry(const EntryFacts& facts, int load, int32_t ordinal, const PromptChunk& chunk, bool* found);
  Status read_alone(const Picture& picture, const ViewPlan& plan, int32_t ordinal, const PromptChunk& chunk);
  Status read_in_context(const Picture& picture, const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk);
  Status pick_rows(const ViewPlan& plan);
  void keep_picked_rows(const PromptChunk& chunk);
  Status prefill_images(const PromptChunk& chunk, int64_t first_position);
  Status add_links(const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk);

  Conversation& conversation_;
  PictureRows& pictures_;
  ImageLibrary* library_ = nullptr;
  OwnerName owner_;
  SessionKeep keep_;
  SharedLinks shared_{conversation_};
  bool is_linking_ = true;
};

}  // namespace ocellus
