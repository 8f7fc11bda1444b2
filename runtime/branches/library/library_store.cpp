#include "runtime/branches/library/library_store.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ocellus {
namespace {

constexpr char kCatalogueName[] = "catalogue.sqlite";

/// A name of the form <text><suffix>.
struct FileName {
  char text[64] = {};
  FileName(const char* stem, const char* suffix) {
    std::strncat(text, stem, 40);
    std::strncat(text, suffix, 20);
  }
};

}  // namespace

Status LibraryStore::open(const LibraryConfig& config) {
  const Status built = catalogue.require_open();
  if (built.code() == Code::kUnsupported) return built;  // before any folder is created
  config_ = config;
  if (config_.files == nullptr) config_.files = &LibraryFiles::system();
  if (config_.clock == nullptr) config_.clock = &LibraryClock::system();
  const char* path = config.path == nullptr ? "" : config.path;
  folder_ = LibraryPath(path);
  // Leaves room for the longest name below it.
  constexpr size_t kMaxPathBytes = LibraryPath::kCapacity - 128;
  if (path[0] == '\0' || std::strlen(path) > kMaxPathBytes)
    return OCELLUS_FAIL(Code::kBadArgument, "a library needs the path of a directory, of at most %d bytes",
                        static_cast<int>(kMaxPathBytes));
  if (config.quota_bytes < 0 || config.owner_quota_bytes < 0)
    return OCELLUS_FAIL(Code::kBadArgument, "a library's quotas cannot be negative");
  entries_folder_ = folder_ / "entries";
  owners_folder_ = folder_ / "owners";
  aside_folder_ = folder_ / "set-aside";
  for (const LibraryPath* folder : {&folder_, &entries_folder_, &owners_folder_, &aside_folder_}) {
    const int error = files().make_directory(folder->c_str(), 0700);
    if (error == -EEXIST) return OCELLUS_FAIL(Code::kIo, "%s is no directory: name another", folder->c_str());
    if (error < 0) return OCELLUS_FAIL(Code::kIo, "cannot make %s: %s", folder->c_str(), std::strerror(-error));
  }
  return open_catalogue();
}

Status LibraryStore::get_ready(int64_t* now) {
  OCELLUS_TRY(catalogue.require_open());
  if (catalogue.is_lost()) OCELLUS_TRY(open_catalogue());
  *now = std::max(greatest_time_.load(), config_.clock->unix_seconds());
  Status status = catalogue.see_time(now);
  if (!status.ok() && catalogue.is_lost()) {
    OCELLUS_TRY(open_catalogue());
    *now = std::max(*now, greatest_time_.load());
    status = catalogue.see_time(now);
  }
  greatest_time_ = *now;
  return status;
}

Status LibraryStore::open_catalogue() {
  // Opening may find that the catalogue must be rebuilt, which one process should do for all. A directory without write
  // access has no lock, and nothing that would need it.
  const ScopedFile lock(files(), files().open((folder_ / "lock").c_str(), O_RDWR | O_CREAT, 0600));
  if (lock.descriptor() >= 0) (void)files().wait_for_lock(lock.descriptor());
  index.reset();
  // Opening would not find all the damage that was found in use.
  if (catalogue.is_open() && catalogue.is_damaged() && !catalogue.is_gone()) move_catalogue_aside();
  OCELLUS_TRY(open_catalogue_file());
  LibraryReport report;
  Status status = reconcile(&report);
  if (status.ok() || !catalogue.is_lost()) return status;
  move_catalogue_aside();
  OCELLUS_TRY(open_catalogue_file());
  return reconcile(&report);
}

Status LibraryStore::open_catalogue_file() {
  const LibraryPath path = folder_ / kCatalogueName;
  for (int tries = 0; tries < 2; ++tries) {
    catalogue.close();
    // Created here so that no other user can read the secrets in it. Files of a removed catalogue must not be attached
    // to it.
    ScopedFile made(files(), files().open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
    if (made.descriptor() >= 0) {
      files().remove((folder_ / FileName(kCatalogueName, "-wal").text).c_str());
      files().remove((folder_ / FileName(kCatalogueName, "-shm").text).c_str());
    }
    if (made.descriptor() < 0 && made.descriptor() != -EEXIST) break;
    made.close();
    bool fits = false;
    const Status status = catalogue.open(path.c_str(), &fits);
    if (status.code() == Code::kUnsupported) return status;
    if (!status.ok()) break;
    if (fits) return {};
    move_catalogue_aside();
  }
  config_.log.write(LogLevel::kWarning, "library: the catalogue cannot be opened and is kept in memory: %s",
                    last_failure().sentence);
  return catalogue.open_in_memory();
}

void LibraryStore::move_catalogue_aside() {
  catalogue.close();
  const LibraryPath path = folder_ / kCatalogueName;
  config_.log.write(LogLevel::kWarning, "library: the catalogue is damaged or not ours and is rebuilt");
  if (!move_aside(path, kCatalogueName)) files().remove(path.c_str());
  files().remove((folder_ / FileName(kCatalogueName, "-wal").text).c_str());
  files().remove((folder_ / FileName(kCatalogueName, "-shm").text).c_str());
}

bool LibraryStore::is_current(const EntryStamp& stamp) const {
  FileStamp file;
  const int64_t now = std::max(greatest_time_.load(), config_.clock->unix_seconds());
  return !has_expired(stamp.expires, now) && LibraryFiles::stamp_named(entry_path(stamp.key).c_str(), &file) &&
         file == stamp.file;
}

LibraryPath LibraryStore::entry_path(const LibraryKey& key) const {
  return entries_folder_ / FileName(key_text(key).text, kEntrySuffix).text;
}

Status LibraryStore::find_owner(std::string_view name, OwnerRecord* out, bool* found) {
  OCELLUS_TRY(catalogue.find_owner(name, out, found));
  if (*found) return {};
  // Another process may have created it in a catalogue that was lost.
  *found = read_owner(files(), owners_folder_, FileName(owner_file_name(name).text, kOwnerSuffix).text, out) &&
           out->name.view() == name;
  return *found ? catalogue.save_owner(out) : Status();
}

Status LibraryStore::require_owner(std::string_view name, OwnerRecord* out) {
  bool found = false;
  OCELLUS_TRY(find_owner(name, out, &found));
  if (found) return {};
  return change([&]() -> Status {
    OCELLUS_TRY(find_owner(name, out, &found));
    if (found) return {};
    *out = {};
    out->name.assign(name);
    OCELLUS_TRY(draw_secret(&out->secret));
    OCELLUS_TRY(write_owner(files(), owners_folder_, *out));
    return catalogue.save_owner(out);
  });
}

Status LibraryStore::find_writer(std::string_view owner, LibraryPart part, OwnerRecord* out, bool* found) {
  if (part == LibraryPart::kOwn) return find_owner(owner, out, found);
  OCELLUS_TRY(find_owner(kSharedName, out, found));
  if (!*found) return OCELLUS_FAIL(Code::kBadArgument, "this library has no shared part: create it first");
  if (out->administrator.view() == owner) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "only %s may change the shared part of this library",
                      out->administrator.c_str());
}

FileOutcome LibraryStore::check_entry(const EntryQuestion& question, EntryFile* file) {
  const FileOutcome outcome = file->open(files(), entry_path(question.key));
  if (!outcome.is_sound()) return outcome;
  const EntryHeader& header = file->header();
  if (header.key != question.key) return {FileState::kDamaged, "a head that belongs to another entry"};
  // The file may be right and the catalogue wrong.
  if (header.owner != question.owner.name) return {FileState::kUnreadable, "another owner"};
  const bool is_asked_for = library_key(question.owner.secret, header.facts) == question.key &&
                            (question.facts == nullptr || header.facts == *question.facts);
  return is_asked_for ? outcome : FileOutcome{FileState::kDamaged, "facts that do not give its key"};
}

Status LibraryStore::open_entry(const EntryQuestion& question, int64_t now, EntryFile* file, bool* found) {
  *found = false;
  const FileOutcome outcome = check_entry(question, file);
  if (outcome.is_sound()) {
    *found = !has_expired(file->header().labels.expires, now);
    if (!*found) file->close();
    return {};
  }
  file->close();
  bool moved = false;
  if (outcome.state == FileState::kDamaged) set_aside(question, outcome.detail, nullptr, &moved);
  if (outcome.state != FileState::kMissing) return {};
  CatalogueRow row;
  bool has_row = false;
  OCELLUS_TRY(catalogue.find_entry(question.key, &row, &has_row));
  if (!has_row) return {};
  // No writer can name the file while we hold the catalogue.
  (void)change([&]() -> Status {
    EntryFile again;
    return check_entry(question, &again).state == FileState::kMissing ? catalogue.drop_entry(question.key) : Status();
  });
  return {};
}

void LibraryStore::set_aside(const EntryQuestion& question, const char* detail, const EntryFile* opened, bool* moved) {
  *moved = false;
  const LibraryPath path = entry_path(question.key);
  const Status status = change([&]() -> Status {
    // Another process may have replaced it by an intact one.
    if (opened != nullptr && !files().is_same_file(opened->descriptor(), path.c_str())) return {};
    EntryFile again;
    if (opened == nullptr && check_entry(question, &again).state != FileState::kDamaged) return {};
    *moved = move_aside(path, FileName(key_text(question.key).text, kEntrySuffix).text);
    return catalogue.drop_entry(question.key);
  });
  config_.log.write(LogLevel::kWarning, "library: entry %s has %s and %s", key_text(question.key).text, detail,
                    status.ok() && *moved ? "was set aside" : "stays where it is, unused");
}

bool LibraryStore::report_damage(const EntryFile& file, const char* detail) {
  bool moved = false;
  (void)run([&](int64_t) -> Status {
    OwnerRecord owner;
    bool found = false;
    OCELLUS_TRY(find_owner(file.header().owner.view(), &owner, &found));
    if (found) set_aside({owner, file.header().key}, detail, &file, &moved);
    return {};
  });
  return moved;
}

Status LibraryStore::place_entry(std::string_view owner_name, const EntryHeader& header, int64_t now, NewFile* file) {
  OCELLUS_TRY(catalogue.begin());
  OwnerRecord owner;
  bool found = false;
  Status status = find_owner(owner_name, &owner, &found);
  if (status.ok() && (!found || library_key(owner.secret, header.facts) != header.key))
    status = OCELLUS_FAIL(Code::kIo, "the owner's record changed while an entry was written");
  if (status.ok()) status = make_room(owner, header, now);
  if (!status.ok()) {
    // Entries that make_room removed stay removed, even if that was not enough.
    const Failure failure = last_failure();
    if (!catalogue.commit().ok()) catalogue.roll_back();
    return record_failure(failure.code, failure.file, failure.line, "%s", failure.sentence);
  }
  const Status placed = file->place(FileName(key_text(header.key).text, kEntrySuffix).text);
  const Failure failure = last_failure();
  status = file->is_placed() ? catalogue.save_entry(owner.id, header, now) : placed;
  if (status.ok()) status = catalogue.commit();
  if (!status.ok()) {
    catalogue.roll_back();
    if (file->is_placed()) files().remove(entry_path(header.key).c_str());
    return status;
  }
  // The entry is there; only its name may not survive a power loss.
  return placed.ok() ? placed : record_failure(failure.code, failure.file, failure.line, "%s", failure.sentence);
}

Status LibraryStore::remove_entry(const LibraryKey& key) {
  const LibraryPath path = entry_path(key);
  const int error = files().remove(path.c_str());
  if (error < 0 && error != -ENOENT)
    return OCELLUS_FAIL(Code::kIo, "cannot remove %s: %s", path.c_str(), std::strerror(-error));
  return catalogue.drop_entry(key);
}

Status LibraryStore::remove_expired(int64_t owner, int64_t now, int64_t* removed) {
  while (true) {
    CatalogueRow row;
    bool found = false;
    OCELLUS_TRY(catalogue.find_expired(owner, now, &row, &found));
    if (!found) return {};
    OCELLUS_TRY(remove_entry(row.key));
    ++*removed;
  }
}

Status LibraryStore::make_room(const OwnerRecord& owner, const EntryHeader& header, int64_t now) {
  if (quota_of(owner) > 0) OCELLUS_TRY(make_room_of(owner.id, quota_of(owner), header, now));
  if (quota_bytes() > 0) OCELLUS_TRY(make_room_of(Catalogue::kAllOwners, quota_bytes(), header, now));
  return {};
}

Status LibraryStore::make_room_of(int64_t owner, int64_t quota, const EntryHeader& header, int64_t now) {
  int64_t removed = 0;
  OCELLUS_TRY(remove_expired(owner, now, &removed));
  CatalogueSums sums;
  OCELLUS_TRY(catalogue.sum_entries(owner, &sums));
  CatalogueRow replaced;
  bool replaces = false;
  OCELLUS_TRY(catalogue.find_entry(header.key, &replaced, &replaces));
  int64_t bytes = sums.bytes - (replaces ? replaced.bytes : 0) + header.file_bytes;
  const int64_t pinned_bytes = sums.pinned_bytes - (replaces && replaced.labels.pinned ? replaced.bytes : 0);
  const Status full =
      pinned_bytes + header.file_bytes <= quota
          ? Status()
          : OCELLUS_FAIL(Code::kFull,
                         "an entry of %lld bytes does not fit the library's quota of %lld bytes, of which "
                         "pinned entries take %lld: raise the quota or unpin some",
                         static_cast<long long>(header.file_bytes), static_cast<long long>(quota),
                         static_cast<long long>(pinned_bytes));
  OCELLUS_TRY(full);
  while (bytes > quota) {
    CatalogueRow oldest;
    bool found = false;
    OCELLUS_TRY(catalogue.find_oldest(owner, header.key, &oldest, &found));
    if (!found) return OCELLUS_FAIL(Code::kInternal, "the library's catalogue has wrong byte counts");
    OCELLUS_TRY(remove_entry(oldest.key));
    bytes -= oldest.bytes;
  }
  return {};
}

}  // namespace ocellus
