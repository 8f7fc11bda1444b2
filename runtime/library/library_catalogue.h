// The image library's catalogue: a database of what entries there are, so that quotas, lists and searches need not read
// their files. The files are the truth: a catalogue that is lost, damaged or behind is made again from them.
//
// One thread at a time. Several processes may have the same catalogue open; what stands between begin() and commit()
// happens for them at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "platform/buffer.h"
#include "platform/status.h"
#include "runtime/library/library_format.h"
#include "runtime/library/library_owners.h"

namespace ocellus {

/// What the catalogue says of an entry.
struct CatalogueRow {
  int64_t id = 0;  // grows with time, never used again
  int64_t owner = 0;
  LibraryKey key = {};
  EntryFacts facts = {};
  EntryLabels labels = {};
  int64_t bytes = 0;  // of the file
  int64_t created = 0;
  int64_t last_used = 0;
  bool has_embedding = false;
};

/// A text search's find; the score is the share of the words that were found, 0 to 1.
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

/// Where an entry's retrieval embedding belongs.
struct CatalogueVector {
  int64_t id = 0;
  int64_t owner = 0;
  int64_t expires = 0;
  Hash128 model = {};
  std::span<const float> embedding;  // during the visit
};

class Catalogue {
 public:
  using VisitVector = Status (*)(void* user, const CatalogueVector& vector);
  static constexpr int64_t kAllOwners = 0;

  Catalogue();
  ~Catalogue();
  Catalogue(Catalogue&&) = delete;
  Catalogue& operator=(Catalogue&&) = delete;

  /// Opens or makes the database. *fits is false where the file is none of ours, damaged or of another version: it
  /// must then be moved away. kIo, kUnsupported in builds without SQLite.
  Status open(const char* path, bool* fits);
  /// A catalogue that lasts as long as this object, for directories in which none can be written.
  Status open_in_memory();
  void close();
  bool is_open() const { return parts_ != nullptr; }
  /// kUnsupported in builds without SQLite, else kBadArgument if it is not open.
  Status require_open() const;
  /// Whether the file was taken away, by another process that found it damaged perhaps.
  bool is_gone() const;
  /// Whether the file was found damaged.
  bool is_damaged() const;
  /// Either: close, and open it or another one.
  bool is_lost() const { return is_gone() || is_damaged(); }

  /// Changes until commit() become visible together. Waits some seconds for another process. kIo.
  Status begin();
  Status commit();
  void roll_back();

  /// Replaces a time by the greatest that was ever given to this, by any process.
  Status see_time(int64_t* seconds);

  Status find_owner(std::string_view name, OwnerRecord* out, bool* found);
  Status find_owner(int64_t id, OwnerRecord* out, bool* found);
  /// The owner with the next id after `id`, for walks.
  Status next_owner(int64_t id, OwnerRecord* out, bool* found);
  /// Inserts or replaces by name; sets the id.
  Status save_owner(OwnerRecord* record);

  Status find_entry(const LibraryKey& key, CatalogueRow* out, bool* found);
  /// The first entry of an owner (or of all) with an id above `id`.
  Status next_entry(int64_t owner, int64_t id, CatalogueRow* out, bool* found);
  /// Inserts, or replaces the entry with the same key. Its last use is the given second.
  Status save_entry(int64_t owner, const EntryHeader& header, int64_t last_used);
  Status drop_entry(const LibraryKey& key);
  /// Notes a use. Waits for nobody: a use that is not noted does no harm.
  void touch_entry(const LibraryKey& key, int64_t seconds);
  Status sum_entries(int64_t owner, CatalogueSums* out);
  /// An entry that has expired.
  Status find_expired(int64_t owner, int64_t seconds, CatalogueRow* out, bool* found);
  /// The entry that was not used for longest and is not pinned, `kept` apart.
  Status find_oldest(int64_t owner, const LibraryKey& kept, CatalogueRow* out, bool* found);

  /// Number of the latest change; every entry that came, went or changed counts.
  Status last_change(int64_t* number);
  /// Ids of entries that changed after `number`, in order. *complete is false where so much has changed that they are
  /// not all known any more.
  Status list_changes(int64_t number, Buffer<int64_t>* ids, bool* complete);
  /// Visits the embeddings of the entry with this id, or of all in the order of their ids if it is 0.
  Status visit_vectors(int64_t id, VisitVector visit, void* user);
  Status find_row(int64_t id, CatalogueRow* out, bool* found);

  /// Entries of these owners, at most two, that have not expired and whose captions or tags hold any of the words;
  /// those with most of them first, and among equals the best by bm25. `question` is in SQLite's language: see
  /// quote_words. kUnsupported where SQLite lacks FTS5.
  Status search_text(std::span<const int64_t> owners, std::string_view question, int64_t seconds, int32_t count,
                     Buffer<CatalogueMatch>* out);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ocellus
