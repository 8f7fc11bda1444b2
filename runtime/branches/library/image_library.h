// The image library: keys and values of images, kept in a directory across sessions and restarts, so that a known image
// is not encoded again.
//
// An entry belongs to an owner, and only its owner sees it; the shared part is read by all owners and written by its
// administrator. An entry that does not match the request exactly, or is damaged, is not found, never served. Several
// processes may have a library open, and several threads may use one ImageLibrary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "platform/buffer.h"
#include "platform/log.h"
#include "platform/monitor.h"
#include "platform/status.h"
#include "runtime/branches/library/library_entry.h"
#include "runtime/branches/library/library_entry_file.h"
#include "runtime/branches/library/library_items.h"

namespace ocellus {

class LibraryStore;
struct LabelChange;

struct LibraryConfig {
  const char* path = nullptr;     // a directory; created if missing
  int64_t quota_bytes = 0;        // all entries together; 0: no limit
  int64_t owner_quota_bytes = 0;  // per owner, and for the shared part; 0: no limit. See set_owner_quota
  LogSink log = {};               // receives notes on entries set aside, from any thread
  LibraryFiles* files = nullptr;  // null: the system's
  LibraryClock* clock = nullptr;  // null: the system's
};

/// An entry to store. Everything is copied.
struct NewEntry {
  EntryFacts facts = {};
  std::span<const std::string_view> tags = {};              // at most 8, see is_tag
  int64_t expires = 0;                                      // the second at which it expires; 0: never
  bool pinned = false;                                      // exempt from removal by quotas
  std::string_view caption = {};                            // see is_caption
  int64_t computed_us = 0;                                  // time that computing the image took; 0: unknown
  std::span<const float> embedding = {};                    // used by nearest(): facts.embedding_width numbers, or none
  std::span<const std::span<const std::byte>> blocks = {};  // one per layer, then the input rows; may be empty
};

/// An entry that was found: its head is checked, its blocks are checked when read. Stays readable if the entry is
/// replaced or removed. Must not outlive the library. Not thread-safe.
class LibraryEntry {
 public:
  const LibraryKey& key() const { return file_.header().key; }
  LibraryPart part() const { return part_; }
  const EntryFacts& facts() const { return file_.header().facts; }
  const EntryHeader& header() const { return file_.header(); }
  bool is_open() const { return file_.is_open(); }
  void close() { file_.close(); }

  int32_t block_count() const { return static_cast<int32_t>(header().blocks.size()); }
  int64_t block_bytes(int32_t block) const { return header().blocks[block].bytes; }
  /// Reads a block into memory of at least its size and checks it. If it is not what was written, *found is false, the
  /// entry is set aside, and the memory's contents are undefined. kBadArgument.
  Status read_block(int32_t block, std::span<std::byte> to, bool* found);

  /// Reads a block into memory of its size and returns whether it is intact; from any number of threads at once. Does
  /// not set a damaged entry aside: see read_block.
  bool probe_block(int32_t block, std::byte* to) const { return file_.read_block(block, to).is_sound(); }

  /// Returns false if the file's state cannot be read.
  bool take_stamp(EntryStamp* out) const;

  /// Access for other ways of reading: the open file, and the offset of a block, always a multiple of 512 bytes, as is
  /// the block's padded end; O_DIRECT may be set on the descriptor if the disk's sectors are no larger. Bytes must pass
  /// check_block before use.
  int descriptor() const { return file_.descriptor(); }
  int64_t block_offset(int32_t block) const { return header().blocks[block].offset; }
  /// Like read_block, for bytes that were read. If the read failed, pass an empty span: the entry is set aside.
  Status check_block(int32_t block, std::span<const std::byte> bytes, bool* found);

 private:
  friend class ImageLibrary;
  Status accept(const FileOutcome& outcome, bool* found);

  LibraryStore* store_ = nullptr;
  EntryFile file_;
  LibraryPart part_ = LibraryPart::kOwn;
};

/// Every call that names an owner returns kBadArgument for an invalid name (is_owner_name), and kIo if the disk or the
/// catalogue fails. Not finding something is no failure.
class ImageLibrary {
 public:
  /// Called for each item; returns false to stop. May call the library.
  using VisitItem = bool (*)(void* user, const LibraryItem& item);

  ImageLibrary();
  ~ImageLibrary();
  ImageLibrary(const ImageLibrary&) = delete;
  ImageLibrary& operator=(const ImageLibrary&) = delete;

  /// Opens the directory; rebuilds its catalogue if that is missing or of another version.
  Status open(const LibraryConfig& config);
  /// Waits for users of the library on other threads.
  void close();
  /// Returns a number that is unique among all libraries ever opened in this process; 0: none is open.
  uint64_t serial() const { return serial_; }
  /// Uses between these calls are waited for by close().
  void begin_use();
  void end_use();

  /// Stores an entry, replacing one with the same facts. It is durable when this returns. To stay within the quotas,
  /// expired entries are removed first, then the least recently used. kFull: too large beside pinned entries.
  Status put(std::string_view owner, LibraryPart part, const NewEntry& entry, LibraryKey* key);
  /// Finds the owner's entry with exactly these facts, else the shared one.
  Status find(std::string_view owner, const EntryFacts& facts, LibraryEntry* out, bool* found);
  /// Finds in one part only.
  Status find_in(std::string_view owner, LibraryPart part, const EntryFacts& facts, LibraryEntry* out, bool* found);
  /// Finds the entry with this key among those that the owner sees.
  Status find_key(std::string_view owner, const LibraryKey& key, LibraryEntry* out, bool* found);
  /// True if an entry is unchanged since it was read and has not expired: not removed, replaced or written to. Asks the
  /// file system, not the catalogue; allocates nothing.
  bool is_current(const EntryStamp& stamp) const;
  /// Notes a use of an entry, as find does, for the quotas.
  void note_use(const LibraryKey& key);
  Status remove(std::string_view owner, LibraryPart part, const LibraryKey& key, bool* found);
  /// Both rewrite the entry's file, which holds the labels.
  Status set_labels(std::string_view owner, LibraryPart part, const LibraryKey& key, const EntryLabels& labels,
                    bool* found);
  Status set_pinned(std::string_view owner, LibraryPart part, const LibraryKey& key, bool pinned, bool* found);
  /// Describes the entry with this key as list() does.
  Status describe_entry(std::string_view owner, const LibraryKey& key, LibraryItem* out, bool* found);
  /// kBadArgument if the owner may not change this part, or there is no such part.
  Status check_writer(std::string_view owner, LibraryPart part);
  /// Visits what the owner sees, in the order of addition. Entries added meanwhile may be visited.
  Status list(std::string_view owner, VisitItem visit, void* user);
  /// Finds the entries of one model (EntryFacts::model) that the owner sees whose embeddings are nearest by cosine, the
  /// nearest first. `embedding` has the width of theirs.
  Status nearest(std::string_view owner, const Hash128& model, std::span<const float> embedding, int32_t count,
                 Buffer<NearEntry>* out);

  /// Finds at most `count` entries that the owner sees whose captions and tags hold any of the words: first those with
  /// more of the words, the newest among equals. Punctuation has no meaning.
  /// kUnsupported if SQLite lacks full text search (FTS5).
  Status search_text(std::string_view owner, std::string_view words, int32_t count, Buffer<FoundText>* out);

  /// Creates the shared part. kBadArgument if it has another administrator.
  Status create_shared(std::string_view administrator);
  /// Stored in the directory; 0 means the configured quota. Takes effect with the next put.
  Status set_owner_quota(std::string_view owner, int64_t bytes);
  Status describe_owner(std::string_view owner, LibraryUse* out);
  Status describe_all(LibraryUse* out);

  /// Reads every entry, sets damaged ones aside, and repairs the catalogue.
  Status verify(LibraryReport* report);
  /// Removes expired entries, entries of earlier versions and files of crashed writers, and repairs the catalogue.
  Status collect_garbage(LibraryReport* report);

 private:
  Status change_labels(std::string_view owner, LibraryPart part, const LibraryKey& key, const LabelChange& change,
                       bool* found);

  std::unique_ptr<LibraryStore> store_;
  uint64_t serial_ = 0;
  Monitor users_;
  int32_t user_count_ = 0;
};

}  // namespace ocellus
