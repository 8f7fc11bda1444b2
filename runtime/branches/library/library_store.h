// The image library's storage: its directory, its catalogue, and the consistency of the two.
//
//   catalogue.sqlite   rebuilt from the rest if lost
//   entries/           <key>.entry, one file each
//   owners/            <hash of the name>.owner, with the secret that keys are made with
//   set-aside/         damaged files, the latest kMaxSetAside of them
//   lock               held while a catalogue is opened
//
// A change of a file's name and the change of the catalogue happen in one transaction of the catalogue, so that
// processes see them together; what a crash leaves between the two is repaired at the next opening.
#pragma once

#include <atomic>
#include <mutex>

#include "platform/monitor.h"
#include "runtime/branches/library/image_library.h"
#include "runtime/branches/library/library_catalogue.h"
#include "runtime/branches/library/library_index.h"

namespace ocellus {

inline constexpr char kEntrySuffix[] = ".entry";
inline constexpr int32_t kMaxSetAside = 64;

/// A request for an entry's file.
struct EntryQuestion {
  const OwnerRecord& owner;
  LibraryKey key = {};
  const EntryFacts* facts = nullptr;  // null: any facts that give the key
};

/// A change of an entry's labels.
struct LabelChange {
  const EntryLabels* labels = nullptr;  // null: unchanged except for the next
  bool pinned = false;
};

class LibraryStore {
 public:
  Status open(const LibraryConfig& config);

  /// Calls body(now) with the catalogue open, again if it was found damaged and rebuilt. Takes the lock.
  template <class Body>
  Status run(Body body) {
    const std::lock_guard<Monitor> lock(lock_);
    int64_t now = 0;
    OCELLUS_TRY(get_ready(&now));
    Status status = body(now);
    if (status.ok() || !catalogue.is_lost()) return status;
    OCELLUS_TRY(get_ready(&now));
    return body(now);
  }
  /// Runs body() as a transaction: other processes see all its changes, or none if it fails.
  template <class Body>
  Status change(Body body) {
    OCELLUS_TRY(catalogue.begin());
    Status status = body();
    if (status.ok()) status = catalogue.commit();
    if (!status.ok()) catalogue.roll_back();
    return status;
  }

  // Functions below: only within run().

  /// Finds the record of an owner or of the shared part.
  Status find_owner(std::string_view name, OwnerRecord* out, bool* found);
  /// Finds an owner, or creates it.
  Status require_owner(std::string_view name, OwnerRecord* out);
  /// Finds the record under which `owner` may change this part of the library. kBadArgument if it may not.
  Status find_writer(std::string_view owner, LibraryPart part, OwnerRecord* out, bool* found);

  /// Opens an entry. Damaged ones are set aside; expired ones are not found.
  Status open_entry(const EntryQuestion& question, int64_t now, EntryFile* file, bool* found);
  /// Makes room for a written entry and gives it its name and its row. kFull.
  Status place_entry(std::string_view owner, const EntryHeader& header, int64_t now, NewFile* file);
  /// Removes an entry's file and row. kIo: the file is still there.
  Status remove_entry(const LibraryKey& key);
  Status remove_expired(int64_t owner, int64_t now, int64_t* removed);
  /// Sets an entry aside if its file is still the one that was found damaged: `opened`, or if that is null one that
  /// does not match the question.
  void set_aside(const EntryQuestion& question, const char* detail, const EntryFile* opened, bool* moved);
  /// Makes the catalogue's owners and entries those of the directory.
  Status reconcile(LibraryReport* report);
  Status remove_unfinished(LibraryReport* report);
  /// Corrects the catalogue if it differs from the head of an intact file.
  Status repair_row(const OwnerRecord& owner, const CatalogueRow& row, const EntryHeader& header);

  Status remove_outdated(LibraryReport* report);

  /// Rewrites an entry's file with other labels.
  Status rewrite_entry(const EntryQuestion& question, int64_t now, const LabelChange& change, bool* found);
  /// Finds what the owner sees under this key.
  Status find_item(std::string_view owner, const LibraryKey& key, int64_t now, LibraryItem* item, bool* found);
  Status search_text(std::string_view owner, std::string_view question, int32_t count, int64_t now,
                     Buffer<FoundText>* out);
  /// Finds what the owner sees next after the row with this id.
  Status next_item(std::string_view owner, int64_t now, int64_t* id, LibraryItem* item, bool* found);
  /// Lists the keys of all files, known or not.
  Status list_files(Buffer<LibraryKey>* keys);
  /// Opens an entry; sets it aside if it is damaged, repairs its row if that differs.
  Status open_to_verify(const LibraryKey& key, EntryFile* file, bool* is_open, LibraryReport* report);
  Status require_shared(std::string_view administrator);
  Status save_quota(std::string_view owner, int64_t bytes);
  /// Sums over one owner, or over all if `owner` is empty.
  Status describe(std::string_view owner, LibraryUse* out);

  // Functions below: not within run().

  /// Sets an open entry aside. Returns true if it did.
  bool report_damage(const EntryFile& file, const char* detail);
  /// See ImageLibrary::is_current.
  bool is_current(const EntryStamp& stamp) const;

  LibraryFiles& files() const { return *config_.files; }
  const LibraryPath& entries_folder() const { return entries_folder_; }
  int64_t quota_of(const OwnerRecord& owner) const {
    return owner.quota_bytes > 0 ? owner.quota_bytes : config_.owner_quota_bytes;
  }
  int64_t quota_bytes() const { return config_.quota_bytes; }

  Catalogue catalogue;
  LibraryIndex index;

 private:
  Status get_ready(int64_t* now);
  Status open_catalogue();
  Status open_catalogue_file();
  void move_catalogue_aside();
  LibraryPath entry_path(const LibraryKey& key) const;
  FileOutcome check_entry(const EntryQuestion& question, EntryFile* file);
  bool move_aside(const LibraryPath& path, const char* name);
  Status make_room(const OwnerRecord& owner, const EntryHeader& header, int64_t now);
  Status make_room_of(int64_t owner, int64_t quota, const EntryHeader& header, int64_t now);
  Status reconcile_owners(LibraryReport* report);
  template <class Visit>
  Status visit_unknown(Visit visit);
  Status adopt_entries(LibraryReport* report);
  Status adopt_entry(const LibraryKey& key, LibraryReport* report);
  Status drop_rows_without_files(LibraryReport* report);

  Monitor lock_;  // std::mutex throws
  LibraryConfig config_;
  // maximum time ever seen: a clock set back must not revive expired entries
  std::atomic<int64_t> greatest_time_{0};
  LibraryPath folder_, entries_folder_, owners_folder_, aside_folder_;
};

}  // namespace ocellus
