// The image library: what images became as keys and values, kept in a directory across sessions and restarts, so that a
// known image is not encoded again.
//
// An entry belongs to an owner, who alone sees it; the shared part is read by all owners and written by its
// administrator. Whatever is not exactly what was asked for, or was damaged, is not found, never served. Several
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
#include "runtime/library/library_entry.h"
#include "runtime/library/library_entry_file.h"
#include "runtime/library/library_items.h"

namespace ocellus {

class LibraryStore;
struct LabelChange;

struct LibraryConfig {
  const char* path = nullptr;     // a directory; made if it is missing
  int64_t quota_bytes = 0;        // of all entries together; 0: no limit
  int64_t owner_quota_bytes = 0;  // of one owner, and of the shared part; 0: no limit. See set_owner_quota
  LogSink log = {};               // told of what was set aside, from any thread
  LibraryFiles* files = nullptr;  // null: the system's
  LibraryClock* clock = nullptr;  // null: the system's
};

/// An entry to be. Everything is copied.
struct NewEntry {
  EntryFacts facts = {};
  std::span<const std::string_view> tags = {};              // at most 8, see is_tag
  int64_t expires = 0;                                      // the second from which on it is gone; 0: never
  bool pinned = false;                                      // quotas do not remove it
  std::string_view caption = {};                            // see is_caption
  int64_t computed_us = 0;                                  // what the image took to compute; 0: not known
  std::span<const float> embedding = {};                    // for nearest(): facts.embedding_width numbers, or none
  std::span<const std::span<const std::byte>> blocks = {};  // one for every layer, then the input rows; may be empty
};

/// An entry that was found: its head is checked, its blocks are when they are read. Stays readable when the entry is
/// replaced or removed meanwhile. Must not outlive the library. One thread at a time.
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
  /// Reads a block into memory of at least its size and checks it. *found is false, and the entry set aside, where it
  /// is not what was written; the memory then holds anything. kBadArgument.
  Status read_block(int32_t block, std::span<std::byte> to, bool* found);

  /// Whether a block is what was written, read into memory of its size; from any number of threads at once. Without
  /// what follows where it is not: see read_block.
  bool probe_block(int32_t block, std::byte* to) const { return file_.read_block(block, to).is_sound(); }

  /// False where the file cannot be asked.
  bool take_stamp(EntryStamp* out) const;

  /// For reads by other means: the open file, and where a block begins in it, always at a multiple of 512 bytes, as
  /// does what follows it; O_DIRECT may be set on the descriptor where the disk's sectors are no larger. What was read
  /// is no block before check_block.
  int descriptor() const { return file_.descriptor(); }
  int64_t block_offset(int32_t block) const { return header().blocks[block].offset; }
  /// As read_block, for bytes that were read. Where the read failed pass an empty span: the entry is set aside.
  Status check_block(int32_t block, std::span<const std::byte> bytes, bool* found);

 private:
  friend class ImageLibrary;
  Status accept(const FileOutcome& outcome, bool* found);

  LibraryStore* store_ = nullptr;
  EntryFile file_;
  LibraryPart part_ = LibraryPart::kOwn;
};

/// Every call that names an owner gives kBadArgument for a name that is none (is_owner_name), kIo where the disk or the
/// catalogue fails. In builds without SQLite all give kUnsupported. Not finding something is no failure.
class ImageLibrary {
 public:
  /// Return false to stop. May call the library.
  using VisitItem = bool (*)(void* user, const LibraryItem& item);

  ImageLibrary();
  ~ImageLibrary();
  ImageLibrary(const ImageLibrary&) = delete;
  ImageLibrary& operator=(const ImageLibrary&) = delete;

  /// Opens the directory; makes its catalogue again where that is missing or does not fit.
  Status open(const LibraryConfig& config);
  /// Waits for those who use the library on threads of their own.
  void close();
  /// Another number for every library that was ever opened in this process; 0: none is open.
  uint64_t serial() const { return serial_; }
  /// Between the two close() waits.
  void begin_use();
  void end_use();

  /// Stores an entry, in place of one with the same facts. When this returns it outlasts a loss of power. To hold the
  /// quotas, what has expired goes first, then what was not used for longest. kFull: too large beside pinned entries.
  Status put(std::string_view owner, LibraryPart part, const NewEntry& entry, LibraryKey* key);
  /// The owner's entry with exactly these facts, else the shared one.
  Status find(std::string_view owner, const EntryFacts& facts, LibraryEntry* out, bool* found);
  /// The same in one part alone.
  Status find_in(std::string_view owner, LibraryPart part, const EntryFacts& facts, LibraryEntry* out, bool* found);
  /// The entry with this key among those that the owner sees.
  Status find_key(std::string_view owner, const LibraryKey& key, LibraryEntry* out, bool* found);
  /// Whether an entry is still there as it was read, and has not expired: not removed, replaced or written to by
  /// anybody. Asks the file system and not the catalogue; allocates nothing.
  bool is_current(const EntryStamp& stamp) const;
  /// Notes that an entry was used, as find does, for the quotas.
  void note_use(const LibraryKey& key);
  Status remove(std::string_view owner, LibraryPart part, const LibraryKey& key, bool* found);
  /// Both write the entry's file again, since that is where this is kept.
  Status set_labels(std::string_view owner, LibraryPart part, const LibraryKey& key, const EntryLabels& labels,
                    bool* found);
  Status set_pinned(std::string_view owner, LibraryPart part, const LibraryKey& key, bool pinned, bool* found);
  /// What list() would show of the entry with this key.
  Status describe_entry(std::string_view owner, const LibraryKey& key, LibraryItem* out, bool* found);
  /// kBadArgument where the owner may not change this part, or there is no such part.
  Status check_writer(std::string_view owner, LibraryPart part);
  /// Visits what the owner sees, in the order in which it came. Entries put meanwhile may be seen.
  Status list(std::string_view owner, VisitItem visit, void* user);
  /// The entries of one model (EntryFacts::model) that the owner sees whose embeddings are nearest by cosine, the
  /// nearest first. `embedding` has the width of theirs.
  Status nearest(std::string_view owner, const Hash128& model, std::span<const float> embedding, int32_t count,
                 Buffer<NearEntry>* out);

  /// The entries that the owner sees whose captions and tags hold any of the words, at most `count`, the best first:
  /// those with more of the words, and with words that fewer entries have, those of other owners counted. The words are
  /// but words, whatever signs are in them. kUnsupported where SQLite lacks full text search (FTS5).
  Status search_text(std::string_view owner, std::string_view words, int32_t count, Buffer<FoundText>* out);

  /// Makes the shared part. kBadArgument where it has another administrator.
  Status create_shared(std::string_view administrator);
  /// Kept in the directory; 0 means as configured. Takes effect with the next put.
  Status set_owner_quota(std::string_view owner, int64_t bytes);
  Status describe_owner(std::string_view owner, LibraryUse* out);
  Status describe_all(LibraryUse* out);

  /// Reads every entry, sets damaged ones aside, and makes the catalogue right.
  Status verify(LibraryReport* report);
  /// Removes expired entries, those of earlier versions and what dead writers left, and makes the catalogue right.
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
