// Images that sessions take from their library by key, and pictures that they search it with.
#pragma once

#include <cstdint>

#include "mm/views/preprocess.h"
#include "platform/buffer.h"
#include "platform/status.h"
#include "runtime/library/image_library.h"
#include "runtime/session/session_keep.h"

namespace ocellus {

class Engine;
class Session;

/// The facts of an entry that follow from the engine and the numbers of views and rows: all but the content and the
/// tiles.
EntryFacts entry_facts(Engine& engine, int32_t view_count, int64_t row_count);

/// All give kBadArgument where the session has no library.
class Retrieval {
 public:
  explicit Retrieval(Session& session) : session_(session) {}

  /// See ocellus_session_set_library_keep. kBadArgument for what cannot be kept so.
  Status set_keep(const EntryLabels& labels, LibraryPart part, bool only_there);
  /// Waits for what is being stored.
  const SessionKeep& keep();
  ImageLibrary* library() const;
  std::string_view owner() const;

  /// See ocellus_session_add_library_image.
  Status add_image(const LibraryKey& key);
  /// The entries of this model that the owner sees and whose pictures are most like the given one, which is encoded and
  /// not added. Takes heap memory, as every search does.
  Status search(const uint8_t* bytes, int64_t byte_count, int32_t count, Buffer<NearEntry>* out);

 private:
  Status require_library() const;
  Status find_entry(const LibraryKey& key, EntryFacts* facts);
  Status check_fits(const LibraryKey& key, const EntryFacts& facts);
  Status link(const EntryFacts& facts, const ViewPlan& plan);
  Status embed(const uint8_t* bytes, int64_t byte_count);

  Session& session_;
};

}  // namespace ocellus
