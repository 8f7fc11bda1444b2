// The image library as the picture store of an engine's sessions: the blocks of an image as in the cache, and the
// embeddings of the rows that are computed in place. Images from the library are bit-equal to computed ones.
//
//   planning, setting a library        library.cpp
//   reading and writing entries        library_session.cpp
//   entries by key, search             library_find.cpp
#pragma once

#include <memory>
#include <string_view>

#include "platform/buffer.h"
#include "runtime/branches/library/pictures_ahead.h"
#include "runtime/branches/library/session_keep.h"
#include "runtime/engine/branch.h"

namespace ocellus {

class Engine;
class LibraryStores;
class Session;

/// An engine's part of a library, in bytes and entries.
struct LibraryShape {
  int64_t entry_bytes = 0;     // maximum of one image
  int64_t cached_entries = 0;  // entries in the memory tier

  /// Sizes an image in a library and on the way there, and the number that the memory tier holds, records included.
  /// `width`: elements of an input row. kBadArgument: the tier is too small for one.
  static Status of(const EngineShape& shape, int64_t width, LibraryShape* out);
};

struct LibraryMemory {
  HostView<std::byte> staging;  // an image's rows or an empty block
  HostView<float> embedding;    // [1, input_width] the mean of the rows
  HostView<std::byte> ahead;    // [pictures, sizeof(EntryFacts)] of a prompt that is added as a whole
  TrafficMemory traffic;
  Status lay_out(const EngineShape& shape, int64_t width, RowSink& sink);
};

/// One session's library.
class LibrarySession final : public PictureStore, public SetUpObject {
 public:
  void open(LibraryStores& stores, int32_t slot, ImageLibrary* library) {
    stores_ = &stores;
    slot_ = slot;
    library_ = library;
    keep_ = {};
  }
  ImageLibrary& library() const { return *library_; }
  SessionKeep& keep_settings() { return keep_; }
  /// Waits for pending writes.
  const SessionKeep& outcome();
  /// Finds the entries of a model that are most similar to the rows that were noted last.
  Status nearest(std::string_view owner, const Hash128& model, int32_t count, Buffer<NearEntry>* out);
  /// Waits until outcome() need not. kCancelled, kDeadline: the writing goes on.
  Status wait_for_outcome(const StopSignal& stop);

  uint64_t serial() const override { return library_->serial(); }
  bool is_apart() const override { return keep_.only_there; }
  bool is_current(const StoreMark& mark) const override;
  bool looks_ahead() const override;
  void look_ahead(Engine& engine, const PictureWish& wish) override;
  bool next_ahead(EntryFacts* facts) override;
  void forget_ahead() override;
  Status find(Conversation& conversation, const OwnerName& owner, std::string_view name, EntryFacts* facts,
              ViewPlan* plan) override;
  Status recall(Conversation& conversation, const PictureWish& wish, int32_t ordinal, const PromptChunk& chunk,
                bool* found) override;
  void note_found(Engine& engine, const PictureWish& wish, const StoreMark& mark, bool is_due) override;
  Status note_rows(const PromptChunk& chunk, Queue& queue) override;
  int64_t keep(Conversation& conversation, const PictureWish& wish, int32_t ordinal, double computed_ms,
               const PromptChunk& chunk) override;
  Status settle(Conversation& conversation) override;

 private:
  EntryWish wish_for(const PictureWish& wish) const;
  void start_loads(Engine& engine, const PictureWish& wish);
  Status load_entry(Conversation& conversation, const PictureWish& wish, int32_t ordinal, const PromptChunk& chunk,
                    bool* found);
  void clear_blocks(Conversation& conversation, int32_t ordinal);

  LibraryStores* stores_ = nullptr;
  int32_t slot_ = 0;
  ImageLibrary* library_ = nullptr;
  SessionKeep keep_;
};

class LibraryStores final : public PictureStores {
 public:
  Status lay_out(const EngineShape& shape, int64_t width, RowSink& sink);
  Status start(const EngineShape& shape, const ThreadSettings& settings, const TraceSink& trace,
               const LogSink& log) override;
  void describe(ocellus_engine_stats* out) const override;

  LibrarySession& session(int32_t slot) { return sessions_[slot]; }
  const LibraryMemory& memory() const { return memory_; }
  LibraryTraffic& traffic() { return traffic_; }
  /// The pictures of the prompt that is being added.
  PicturesAhead& ahead() { return ahead_; }

 private:
  LibraryMemory memory_;
  LibraryTraffic traffic_;
  PicturesAhead ahead_;
  std::unique_ptr<LibrarySession[]> sessions_;  // one per session
};

/// The engine must have a library planned.
LibraryTraffic& library_traffic(Engine& engine);
/// Sets the engine's model_fingerprint() at the first call: a hash over all bytes of the model's files; for a random
/// model, over its description.
Status fingerprint_model(Engine& engine);
/// Null: the session has no library.
LibrarySession* library_of(Session& session);
/// See ocellus_session_set_library. Null: none.
Status set_library(Session& session, ImageLibrary* library, std::string_view owner);
/// See ocellus_session_set_library_keep. kBadArgument for invalid labels, or without a library.
Status set_library_keep(Session& session, const EntryLabels& labels, LibraryPart part, bool only_there);
/// Finds the entries of this model that the owner sees whose pictures are most similar to the given one, which is
/// encoded and not added. Allocates heap memory, as every search does.
Status search_library(Session& session, const uint8_t* bytes, int64_t byte_count, int32_t count,
                      Buffer<NearEntry>* out);

}  // namespace ocellus
