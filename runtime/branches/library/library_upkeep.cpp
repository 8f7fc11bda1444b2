// Reconciliation of a library's directory and its catalogue, and removal of leftovers.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "runtime/branches/library/library_store.h"

namespace ocellus {
namespace {

struct ListedName {
  char text[64] = {};
};

/// Lists the names in a folder, except those longer than ours.
Status list_names(LibraryFiles& files, const LibraryPath& folder, Buffer<ListedName>* out) {
  struct Visit {
    Buffer<ListedName>* out;
    Status status;
  } visit{out, {}};
  const int error = files.list(
      folder.c_str(),
      [](void* user, const char* text) {
        auto& to = *static_cast<Visit*>(user);
        ListedName name;
        if (!to.status.ok() || std::strlen(text) >= sizeof name.text) return;
        std::strncpy(name.text, text, sizeof name.text - 1);
        to.status = to.out->push(name);
      },
      &visit);
  if (error < 0) return OCELLUS_FAIL(Code::kIo, "cannot list %s: %s", folder.c_str(), std::strerror(-error));
  return visit.status;
}

/// Parses a name that is a key and the suffix of entries.
bool parse_entry_name(const ListedName& name, LibraryKey* key) {
  const std::string_view text(name.text), suffix(kEntrySuffix);
  return text.size() == 32 + suffix.size() && text.substr(32) == suffix && parse_key(text.substr(0, 32), key);
}

}  // namespace

bool LibraryStore::move_aside(const LibraryPath& path, const char* name) {
  Buffer<ListedName> names;
  if (!list_names(files(), aside_folder_, &names).ok()) return false;
  // Names begin with a growing number, so that the oldest are known whatever the clock says.
  const auto number_of = [](const ListedName& listed) { return std::strtoull(listed.text, nullptr, 16); };
  uint64_t latest = 0;
  for (const ListedName& listed : names) latest = std::max<uint64_t>(latest, number_of(listed));
  for (const ListedName& listed : names)
    if (number_of(listed) + kMaxSetAside < latest + 2) files().remove((aside_folder_ / listed.text).c_str());
  char to[96];
  std::snprintf(to, sizeof to, "%08llx-%s", static_cast<unsigned long long>(latest + 1), name);
  return files().rename(path.c_str(), (aside_folder_ / to).c_str()) >= 0;
}

Status LibraryStore::reconcile(LibraryReport* report) {
  return change([&]() -> Status {
    OCELLUS_TRY(reconcile_owners(report));
    OCELLUS_TRY(adopt_entries(report));
    return drop_rows_without_files(report);
  });
}

Status LibraryStore::reconcile_owners(LibraryReport* report) {
  Buffer<ListedName> names;
  OCELLUS_TRY(list_names(files(), owners_folder_, &names));
  for (const ListedName& name : names) {
    OwnerRecord kept, known;
    bool found = false;
    if (name.text[0] == '.') continue;
    if (!read_owner(files(), owners_folder_, name.text, &kept)) {
      report->set_aside += move_aside(owners_folder_ / name.text, name.text) ? 1 : 0;
      continue;
    }
    OCELLUS_TRY(catalogue.find_owner(kept.name.view(), &known, &found));
    const bool is_same = found && std::memcmp(&known.secret, &kept.secret, sizeof kept.secret) == 0 &&
                         known.administrator == kept.administrator && known.quota_bytes == kept.quota_bytes;
    if (!is_same) OCELLUS_TRY(catalogue.save_owner(&kept));
  }
  // The catalogue still has the secret of a lost file. If it cannot be written, the library can still be read.
  OwnerRecord record;
  bool found = false;
  OCELLUS_TRY(catalogue.next_owner(0, &record, &found));
  while (found) {
    OwnerRecord kept;
    char name[sizeof(KeyText) + sizeof kOwnerSuffix] = {};
    std::snprintf(name, sizeof name, "%s%s", owner_file_name(record.name.view()).text, kOwnerSuffix);
    if (!read_owner(files(), owners_folder_, name, &kept)) (void)write_owner(files(), owners_folder_, record);
    OCELLUS_TRY(catalogue.next_owner(record.id, &record, &found));
  }
  return {};
}

Status LibraryStore::list_files(Buffer<LibraryKey>* keys) {
  *keys = {};
  Buffer<ListedName> names;
  OCELLUS_TRY(list_names(files(), entries_folder_, &names));
  for (const ListedName& name : names) {
    LibraryKey key;
    if (parse_entry_name(name, &key)) OCELLUS_TRY(keys->push(key));
  }
  return {};
}

/// Calls visit(key) for every file that is not in the catalogue.
template <class Visit>
Status LibraryStore::visit_unknown(Visit visit) {
  Buffer<LibraryKey> keys;
  OCELLUS_TRY(list_files(&keys));
  for (const LibraryKey& key : keys) {
    CatalogueRow row;
    bool found = false;
    OCELLUS_TRY(catalogue.find_entry(key, &row, &found));
    if (!found) OCELLUS_TRY(visit(key));
  }
  return {};
}

/// Adds files that are not in the catalogue, after a crash or the loss of the catalogue: the oldest first, which
/// approximates their order of use.
Status LibraryStore::adopt_entries(LibraryReport* report) {
  struct Unknown {
    LibraryKey key;
    int64_t created;
  };
  Buffer<Unknown> unknown;
  OCELLUS_TRY(visit_unknown([&](const LibraryKey& key) {
    EntryFile file;
    const bool is_sound = file.open(files(), entry_path(key)).is_sound();
    return unknown.push({key, is_sound ? file.header().created : 0});
  }));
  std::sort(unknown.begin(), unknown.end(), [](const Unknown& a, const Unknown& b) {
    return std::tie(a.created, a.key.high, a.key.low) < std::tie(b.created, b.key.high, b.key.low);
  });
  for (const Unknown& one : unknown) OCELLUS_TRY(adopt_entry(one.key, report));
  return {};
}

Status LibraryStore::adopt_entry(const LibraryKey& key, LibraryReport* report) {
  EntryFile file;
  FileOutcome outcome = file.open(files(), entry_path(key));
  OwnerRecord owner;
  if (outcome.is_sound()) {
    bool found = false;
    OCELLUS_TRY(catalogue.find_owner(file.header().owner.view(), &owner, &found));
    outcome = found ? check_entry({owner, key}, &file) : FileOutcome{FileState::kDamaged, "an unknown owner"};
  }
  if (outcome.is_sound()) {
    ++report->adopted;
    greatest_time_ = std::max(greatest_time_.load(), file.header().created);
    return catalogue.save_entry(owner.id, file.header(), file.header().created);
  }
  if (outcome.state != FileState::kDamaged) return {};
  char name[64];
  std::snprintf(name, sizeof name, "%s%s", key_text(key).text, kEntrySuffix);
  const bool moved = move_aside(entry_path(key), name);
  report->set_aside += moved ? 1 : 0;
  config_.log.write(LogLevel::kWarning, "library: file %s has %s and %s", name, outcome.detail,
                    moved ? "was set aside" : "stays where it is, unused");
  return {};
}

Status LibraryStore::drop_rows_without_files(LibraryReport* report) {
  // Every file has a row by now, so equal numbers of rows and files need no further check.
  Buffer<LibraryKey> keys;
  CatalogueSums sums;
  OCELLUS_TRY(list_files(&keys));
  OCELLUS_TRY(catalogue.sum_entries(Catalogue::kAllOwners, &sums));
  if (sums.entries == keys.size()) return {};
  CatalogueRow row;
  bool found = false;
  OCELLUS_TRY(catalogue.next_entry(Catalogue::kAllOwners, 0, &row, &found));
  while (found) {
    const ScopedFile file(files(), files().open(entry_path(row.key).c_str(), O_PATH, 0));
    if (file.descriptor() == -ENOENT) {
      ++report->dropped;
      OCELLUS_TRY(catalogue.drop_entry(row.key));
    }
    OCELLUS_TRY(catalogue.next_entry(Catalogue::kAllOwners, row.id, &row, &found));
  }
  return {};
}

Status LibraryStore::remove_unfinished(LibraryReport* report) {
  for (const LibraryPath* folder : {&entries_folder_, &owners_folder_}) {
    Buffer<ListedName> names;
    OCELLUS_TRY(list_names(files(), *folder, &names));
    for (const ListedName& name : names) {
      if (std::strncmp(name.text, kNewFilePrefix, sizeof kNewFilePrefix - 1) != 0) continue;
      const LibraryPath path = *folder / name.text;
      const ScopedFile file(files(), files().open(path.c_str(), O_RDWR, 0));
      // A live writer has the lock.
      if (file.descriptor() < 0 || files().lock(file.descriptor()) < 0) continue;
      report->unfinished += files().remove(path.c_str()) >= 0 ? 1 : 0;
    }
  }
  return {};
}

Status LibraryStore::remove_outdated(LibraryReport* report) {
  return visit_unknown([&](const LibraryKey& key) -> Status {
    EntryFile file;
    if (file.open(files(), entry_path(key)).state != FileState::kOutdated) return {};
    // No writer can give another file this name while we hold the catalogue.
    return change([&]() -> Status {
      if (file.open(files(), entry_path(key)).state == FileState::kOutdated)
        report->outdated += files().remove(entry_path(key).c_str()) >= 0 ? 1 : 0;
      return {};
    });
  });
}

Status LibraryStore::repair_row(const OwnerRecord& owner, const CatalogueRow& row, const EntryHeader& header) {
  const bool is_same = row.owner == owner.id && row.facts == header.facts && row.bytes == header.file_bytes &&
                       row.created == header.created && row.labels == header.labels;
  if (is_same) return {};
  return change([&]() { return catalogue.save_entry(owner.id, header, row.last_used); });
}

}  // namespace ocellus
