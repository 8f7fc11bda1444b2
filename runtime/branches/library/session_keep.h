// SessionKeep: the way a session keeps images in its library, and the outcome for the image added last.
#pragma once

#include <cstdint>

#include "platform/status.h"
#include "runtime/branches/library/library_entry.h"

namespace ocellus {

struct SessionKeep {
  enum class Outcome : uint8_t { kNone, kFound, kStoring, kStored, kFailed };

  /// The labels of images that are computed from now on.
  EntryLabels labels = {};
  LibraryPart part = LibraryPart::kOwn;
  bool only_there = false;  // look up images in that part only

  /// The outcome for the image that was added last.
  Outcome outcome = Outcome::kNone;
  LibraryKey last_key = {};
  LibraryPart last_part = LibraryPart::kOwn;
  Failure failure = {};  // the reason why it was not stored

  void note_found(const LibraryKey& key, LibraryPart where) {
    outcome = Outcome::kFound;
    last_key = key;
    last_part = where;
  }
  void note_storing() {
    outcome = Outcome::kStoring;
    last_part = part;
  }
  void note_stored(const LibraryKey& key, Status status, const Failure& why) {
    outcome = status.ok() ? Outcome::kStored : Outcome::kFailed;
    last_key = key;
    failure = why;
  }
};

}  // namespace ocellus
