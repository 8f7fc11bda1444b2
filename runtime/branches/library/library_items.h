// Results of the image library's queries.
#pragma once

#include <cstdint>

#include "runtime/branches/library/library_entry.h"
#include "runtime/branches/library/library_files.h"

namespace ocellus {

/// An entry as list() returns it.
struct LibraryItem {
  LibraryKey key = {};
  LibraryPart part = LibraryPart::kOwn;
  EntryFacts facts = {};
  EntryLabels labels = {};
  int64_t bytes = 0;      // bytes of its file
  int64_t created = 0;    // seconds since 1970, as last_used
  int64_t last_used = 0;  // time of being stored, found or labelled
  bool has_embedding = false;
};

struct NearEntry {
  LibraryKey key = {};
  LibraryPart part = LibraryPart::kOwn;
  float similarity = 0;  // cosine, -1 to 1
};

struct FoundText {
  LibraryKey key = {};
  LibraryPart part = LibraryPart::kOwn;
  double score = 0;  // fraction of the words that were found, 0 to 1
};

/// Limits of a search for words: longer ones are refused.
inline constexpr int32_t kMaxSearchWords = 64;
inline constexpr int32_t kMaxSearchBytes = 1000;

/// Use of one owner, or of all together.
struct LibraryUse {
  int64_t entries = 0;
  int64_t bytes = 0;
  int64_t pinned_bytes = 0;
  int64_t quota_bytes = 0;  // 0: no limit
};

/// Results of verify() and collect_garbage().
struct LibraryReport {
  int64_t checked = 0;     // entries whose every byte was read
  int64_t sound = 0;       // intact entries among these
  int64_t set_aside = 0;   // damaged files, and files of unknown owners
  int64_t expired = 0;     // removed
  int64_t unfinished = 0;  // files of writers that died, removed
  int64_t adopted = 0;     // files added to the catalogue
  int64_t dropped = 0;     // rows without a file, removed from the catalogue
  int64_t outdated = 0;    // files of an earlier version, removed
};

/// Identifies an entry's file as it was read, as opposed to a later one in its place.
struct EntryStamp {
  LibraryKey key = {};
  FileStamp file = {};
  int64_t expires = 0;
};

}  // namespace ocellus
