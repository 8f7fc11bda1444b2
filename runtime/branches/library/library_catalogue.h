// The image library's catalogue: a database of all entries, so that quotas, lists and searches need not read their
// files.
// The files are authoritative: a catalogue that is lost, damaged or out of date is rebuilt from them.
//
// Not thread-safe. Several processes may have the same catalogue open; changes between begin() and commit() are atomic
// for them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "platform/buffer.h"
#include "platform/status.h"
#include "runtime/branches/library/library_format.h"
#include "runtime/branches/library/library_owners.h"

namespace ocellus {

/// The catalogue's record of an entry.
struct CatalogueRow {
  int64_t id = 0;  // grows with time, never reused
  int64_t owner = 0;
  LibraryKey key = {};
  EntryFacts facts = {};
  EntryLabels labels = {};
  int64_t bytes = 0;  // bytes of the file
  int64_t created = 0;
  int64_t last_used = 0;
  bool has_embedding = false;
};

/// A result of a text search; the score is the fraction of the words that were found, 0 to 1.
struct CatalogueMatch {
  int64_t id = 0;
  double score = 0;
};

/// Bytes of entries of one owner or of all.
struct CatalogueSums {
  int64_t entries = 0;
  int64_t bytes = 0;
  int64_t pinned_bytes = 0;
};

/// Owner and place of an entry's retrieval embedding.
struct CatalogueVector {
  int64_t id = 0;
  int64_t owner = 0;
  int64_t expires = 0;
  Hash128 model = {};
  std::span<const float> embedding;  // valid during the visit
};

class Catalogue {
 public:
  using VisitVector = Status (*)(void* user, const CatalogueVector& vector);
  static constexpr int64_t kAllOwners = 0;

  Catalogue();
  ~Catalogue();
  Catalogue(Catalogue&&) = delete;
  Catalogue& operator=(Catalogue&&) = delete;

  /// Opens or creates the database. *fits is false if the file is not ours, damaged or of another version: it must then
  /// be moved away. kIo, kUnsupported in builds without SQLite.
  Status open(const char* path, bool* fits);
  /// Opens a catalogue that lasts as long as this object, for directories without write access.
  Status open_in_memory();
  void close();
  bool is_open() const { return parts_ != nullptr; }
  /// kUnsupported in builds without SQLite, else kBadArgument if it is not open.
  Status require_open() const;
  /// True if the file was removed, perhaps by another process that found it damaged.
  bool is_gone() const;
  /// True if the file was found damaged.
  bool is_damaged() const;
  /// True for either: close, and open it or another one.
  bool is_lost() const { return is_gone() || is_damaged(); }

  /// Makes changes until commit() visible together. Waits some seconds for another process. kIo.
  Status begin();
  Status commit();
  void roll_back();

  /// Replaces a time by the maximum ever passed to this, by any process.
  Status see_time(int64_t* seconds);

  Status find_owner(std::string_view name, OwnerRecord* out, bool* found);
  Status find_owner(int64_t id, OwnerRecord* out, bool* found);
  /// Returns the owner with the next id after `id`, for iteration.
  Status next_owner(int64_t id, OwnerRecord* out, bool* found);
  /// Inserts or replaces by name; sets the id.
  Status save_owner(OwnerRecord* record);

  Status find_entry(const LibraryKey& key, CatalogueRow* out, bool* found);
  /// Returns the first entry of an owner (or of all) with an id above `id`.
  Status next_entry(int64_t owner, int64_t id, CatalogueRow* out, bool* found);
  /// Inserts, or replaces the entry with the same key. Its last use is the given second.
  Status save_entry(int64_t owner, const EntryHeader& header, int64_t last_used);
  Status drop_entry(const LibraryKey& key);
  /// Notes a use. Does not wait for other processes: a missed note does no harm.
  void touch_entry(const LibraryKey& key, int64_t seconds);
  Status sum_entries(int64_t owner, CatalogueSums* out);
  /// Finds an entry that has expired.
  Status find_expired(int64_t owner, int64_t seconds, CatalogueRow* out, bool* found);
  /// Finds the least recently used entry that is not pinned, except `kept`.
  Status find_oldest(int64_t owner, const LibraryKey& kept, CatalogueRow* out, bool* found);

  /// Number of the latest change; insertions, removals and changes of entries count.
  Status last_change(int64_t* number);
  /// Lists ids of entries that changed after `number`, in order. *complete is false if some of the changes
  /// are no longer recorded.
  Status list_changes(int64_t number, Buffer<int64_t>* ids, bool* complete);
  /// Visits the embeddings of the entry with this id, or of all in the order of their ids if it is 0.
  Status visit_vectors(int64_t id, VisitVector visit, void* user);
  Status find_row(int64_t id, CatalogueRow* out, bool* found);

  /// Finds entries of these owners, at most two, that have not expired and whose captions or tags hold any of the
  /// words; those with most words first, the newest among equals: ranks by bm25 would tell of other owners' words.
  /// `question` is in SQLite's language: see quote_words. kUnsupported if SQLite lacks FTS5.
  Status search_text(std::span<const int64_t> owners, std::string_view question, int64_t seconds, int32_t count,
                     Buffer<CatalogueMatch>* out);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ocellus
