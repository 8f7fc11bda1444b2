// The parts of the image library's calls that use its store.
#include <cstring>

#include "runtime/branches/library/library_store.h"

namespace ocellus {

namespace {

LibraryItem to_item(const CatalogueRow& row, LibraryPart part) {
  return {row.key, part, row.facts, row.labels, row.bytes, row.created, row.last_used, row.has_embedding};
}

}  // namespace

Status LibraryStore::rewrite_entry(const EntryQuestion& question, int64_t now, const LabelChange& change, bool* found) {
  EntryFile old;
  OCELLUS_TRY(open_entry(question, now, &old, found));
  if (!*found) return {};
  EntryLabels labels = change.labels != nullptr ? *change.labels : old.header().labels;
  if (change.labels == nullptr) labels.pinned = change.pinned;
  if (labels == old.header().labels) return {};
  EntryHeader header;
  OCELLUS_TRY(copy_header(old.header(), &header));
  header.labels = labels;
  Buffer<std::byte> head;
  OCELLUS_TRY(encode_header(header, &head));
  NewFile file(files(), entries_folder_);
  OCELLUS_TRY(file.create());
  OCELLUS_TRY(file.append(head.data(), head.size()));
  FileOutcome outcome;
  OCELLUS_TRY(old.scan_blocks(&file, &outcome));
  if (!outcome.is_sound()) {
    *found = false;
    bool moved = false;
    set_aside(question, outcome.detail, &old, &moved);
    return {};
  }
  OCELLUS_TRY(file.sync());
  return place_entry(question.owner.name.view(), header, now, &file);
}

Status LibraryStore::next_item(std::string_view owner, int64_t now, int64_t* id, LibraryItem* item, bool* found) {
  OwnerRecord own, shared;
  bool is_own = false, is_shared = false;
  *found = false;
  OCELLUS_TRY(find_owner(owner, &own, &is_own));
  OCELLUS_TRY(find_owner(kSharedName, &shared, &is_shared));
  while (true) {
    CatalogueRow rows[2];
    bool has[2] = {};
    if (is_own) OCELLUS_TRY(catalogue.next_entry(own.id, *id, &rows[0], &has[0]));
    if (is_shared) OCELLUS_TRY(catalogue.next_entry(shared.id, *id, &rows[1], &has[1]));
    if (!has[0] && !has[1]) return {};
    const int which = has[0] && (!has[1] || rows[0].id < rows[1].id) ? 0 : 1;
    const CatalogueRow& row = rows[which];
    *id = row.id;
    if (has_expired(row.labels.expires, now)) continue;
    *item = to_item(row, which == 0 ? LibraryPart::kOwn : LibraryPart::kShared);
    *found = true;
    return {};
  }
}

/// Asks the catalogue the same questions whether the entry is the owner's, another's or none, which could be told apart
/// by the time otherwise.
Status LibraryStore::find_item(std::string_view owner, const LibraryKey& key, int64_t now, LibraryItem* item,
                               bool* found) {
  CatalogueRow row;
  OwnerRecord own, shared;
  bool is_known = false, has_shared = false;
  OCELLUS_TRY(find_owner(owner, &own, &is_known));
  OCELLUS_TRY(find_owner(kSharedName, &shared, &has_shared));
  OCELLUS_TRY(catalogue.find_entry(key, &row, found));
  const bool is_shared = has_shared && row.owner == shared.id;
  *found = *found && !has_expired(row.labels.expires, now) && (is_shared || (is_known && row.owner == own.id));
  if (*found) *item = to_item(row, is_shared ? LibraryPart::kShared : LibraryPart::kOwn);
  return {};
}

Status LibraryStore::search_text(std::string_view owner, std::string_view question, int32_t count, int64_t now,
                                 Buffer<FoundText>* out) {
  *out = {};
  OwnerRecord record;
  int64_t owners[2] = {}, shared = 0;
  size_t owner_count = 0;
  for (const std::string_view name : {owner, kSharedName}) {
    bool found = false;
    OCELLUS_TRY(find_owner(name, &record, &found));
    if (found) owners[owner_count++] = record.id;
    if (found && name == kSharedName) shared = record.id;
  }
  Buffer<CatalogueMatch> matches;
  OCELLUS_TRY(catalogue.search_text({owners, owner_count}, question, now, count, &matches));
  for (const CatalogueMatch& match : matches) {
    CatalogueRow row;
    bool found = false;
    OCELLUS_TRY(catalogue.find_row(match.id, &row, &found));
    const LibraryPart part = row.owner == shared ? LibraryPart::kShared : LibraryPart::kOwn;
    if (found) OCELLUS_TRY(out->push({row.key, part, match.score}));
  }
  return {};
}

Status LibraryStore::open_to_verify(const LibraryKey& key, EntryFile* file, bool* is_open, LibraryReport* report) {
  CatalogueRow row;
  OwnerRecord owner;
  bool found = false;
  *is_open = false;
  OCELLUS_TRY(catalogue.find_entry(key, &row, &found));
  if (!found) return {};  // added or removed just now
  // The file names the owner; a row that differs is repaired.
  const FileOutcome opened = file->open(files(), entry_path(key));
  const OwnerName name = opened.is_sound() ? file->header().owner : OwnerName();
  OCELLUS_TRY(opened.is_sound() ? find_owner(name.view(), &owner, &found)
                                : catalogue.find_owner(row.owner, &owner, &found));
  const EntryQuestion question{owner, key};
  const FileOutcome outcome = check_entry(question, file);
  *is_open = outcome.is_sound();
  if (*is_open) return repair_row(owner, row, file->header());
  if (outcome.state == FileState::kUnreadable) return {};
  bool moved = false;
  if (outcome.state == FileState::kDamaged) {
    ++report->checked;
    set_aside(question, outcome.detail, nullptr, &moved);
  }
  report->set_aside += moved ? 1 : 0;
  return {};
}

Status LibraryStore::require_shared(std::string_view administrator) {
  OwnerRecord record;
  bool found = false;
  OCELLUS_TRY(find_owner(kSharedName, &record, &found));
  if (!found) {
    const Status status = change([&]() -> Status {
      OCELLUS_TRY(find_owner(kSharedName, &record, &found));
      if (found) return {};
      record = {};
      record.name.assign(kSharedName);
      record.administrator.assign(administrator);
      OCELLUS_TRY(draw_secret(&record.secret));
      OCELLUS_TRY(write_owner(files(), owners_folder_, record));
      return catalogue.save_owner(&record);
    });
    OCELLUS_TRY(status);
  }
  if (record.administrator.view() == administrator) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "the shared part of this library belongs to %s",
                      record.administrator.c_str());
}

Status LibraryStore::save_quota(std::string_view owner, int64_t bytes) {
  OwnerRecord record;
  OCELLUS_TRY(require_owner(owner, &record));
  return change([&]() -> Status {
    record.quota_bytes = bytes;
    OCELLUS_TRY(write_owner(files(), owners_folder_, record));
    return catalogue.save_owner(&record);
  });
}

Status LibraryStore::describe(std::string_view owner, LibraryUse* out) {
  *out = {};
  CatalogueSums sums;
  OwnerRecord record;
  bool found = false;
  int64_t quota = config_.quota_bytes;
  if (owner.empty()) {
    OCELLUS_TRY(catalogue.sum_entries(Catalogue::kAllOwners, &sums));
  } else {
    OCELLUS_TRY(find_owner(owner, &record, &found));
    if (found) OCELLUS_TRY(catalogue.sum_entries(record.id, &sums));
    quota = quota_of(record);
  }
  *out = {sums.entries, sums.bytes, sums.pinned_bytes, quota};
  return {};
}

}  // namespace ocellus
