// Reuse: pictures that are not read where they stand. A picture is linked: read alone, once, and seen from every place;
// or it is found as it was read in a prompt that began alike. Both may come from the session's image library and go
// there. A prompt asks for them; what they add to its chunk are rows that are read in place, and links.
//
//   the library, entries by key, search    reuse.cpp
//   entries on their way to and fro        reuse_library.cpp
//   reading alone, linking                 reuse_link.cpp
//   choosing what is read in place         reuse_blend.cpp
#pragma once

#include <string_view>

#include "platform/buffer.h"
#include "runtime/library/image_library.h"
#include "runtime/library/library_cache.h"
#include "runtime/session/picture_rows.h"
#include "runtime/session/session_keep.h"

namespace ocellus {

/// The facts of an entry that follow from the engine and the numbers of views and rows: all but the content and the
/// tiles.
EntryFacts entry_facts(Engine& engine, int32_t view_count, int64_t row_count);

class Reuse {
 public:
  Reuse(Conversation& conversation, PictureRows& pictures) : conversation_(conversation), pictures_(pictures) {}

  /// No library, and nothing is said about how images are kept.
  void reset();
  /// Null: none. See ocellus_session_set_library.
  Status set_library(ImageLibrary* library, std::string_view owner);
  ImageLibrary* library() const { return library_; }
  std::string_view owner() const { return owner_.view(); }
  /// See ocellus_session_set_library_keep. kBadArgument for what cannot be kept so, or without a library.
  Status set_keep(const EntryLabels& labels, LibraryPart part, bool only_there);
  /// Waits for what is being stored.
  const SessionKeep& keep();
  /// kBadArgument without one.
  Status require_library() const;
  /// The entries of this model that the owner sees and whose pictures are most like the given one, which is encoded and
  /// not added. Takes heap memory, as every search does.
  Status search(const uint8_t* bytes, int64_t byte_count, int32_t count, Buffer<NearEntry>* out);
  /// An entry that the session's cache takes as it is, and its views.
  Status find(const LibraryKey& key, EntryFacts* facts, ViewPlan* plan);

  // Pictures of a prompt that is added as a whole: their entries are read while those before them are worked on.
  bool looks_ahead() const;
  Status look_ahead(const Picture& picture, const ViewPlan& plan);
  void forget_ahead();

  // Adding to a prompt's chunk, which has room. Blocks of an image that failed half way stay reserved: a prompt gives
  // them back when it goes back to where it was.
  /// A picture, from the library or read alone.
  Status link(const Picture& picture, const ViewPlan& plan, PromptChunk& chunk);
  /// An entry by its facts. *found: whether it is there; else nothing was added.
  Status recall(const EntryFacts& facts, const ViewPlan& plan, PromptChunk& chunk, bool* found);
  /// The same for an entry that was asked for by its key: it must be there.
  Status link_entry(const EntryFacts& facts, const ViewPlan& plan, PromptChunk& chunk);

  // A picture that is read in its prompt, and kept afterwards as image number `ordinal`. Without a library only
  // identify() does something.
  Status identify(const Picture& picture, const ViewPlan& plan, EntryFacts* facts);
  void prepare_to_keep(int32_t ordinal);
  void note_embedding(const PromptChunk& chunk);
  void keep_image(const EntryFacts& facts, int32_t ordinal, double computed_ms, const PromptChunk& chunk);

  // Reading a prompt's chunk.
  /// Where that is found out prompt by prompt: chooses the linked rows that are read in place.
  Status choose_rows(PromptChunk& chunk);
  /// Rows that are read in place become rows of the chunk.
  void fetch_rows(const PromptChunk& chunk);

 private:
  EntryWish wish_for(const EntryFacts& facts) const;
  Status embed(const uint8_t* bytes, int64_t byte_count);
  Status link_known(const Picture& picture, const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk);
  Status load_entry(const EntryFacts& facts, int load, int32_t ordinal, const PromptChunk& chunk, bool* found);
  Status read_alone(const Picture& picture, const ViewPlan& plan, int32_t ordinal, const PromptChunk& chunk);
  Status pick_rows(const ViewPlan& plan);
  void keep_picked_rows(const PromptChunk& chunk);
  Status prefill_alone();
  Status add_links(const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk);

  Conversation& conversation_;
  PictureRows& pictures_;
  ImageLibrary* library_ = nullptr;
  OwnerName owner_;
  SessionKeep keep_;
};

}  // namespace ocellus
