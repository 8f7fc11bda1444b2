#include "runtime/branches/library/image_library.h"

#include <atomic>
#include <cmath>
#include <mutex>
#include <new>

#include "runtime/branches/library/library_store.h"
#include "runtime/branches/library/library_words.h"

namespace ocellus {
namespace {

Status check_owner(std::string_view owner) {
  if (is_owner_name(owner)) return {};
  return OCELLUS_FAIL(Code::kBadArgument,
                      "an owner's name has 1 to 64 letters, digits, dots, underscores and hyphens, and no dot first");
}

Status check_embedding(std::span<const float> embedding) {
  double square = 0;
  for (const float number : embedding) square += static_cast<double>(number) * static_cast<double>(number);
  if (std::isfinite(square) && square > 0) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "a retrieval embedding must be finite and not zero");
}

Status check_new_entry(const NewEntry& entry) {
  if (const char* fault = find_fault(entry.facts))
    return OCELLUS_FAIL(Code::kBadArgument, "the facts of a library entry have %s", fault);
  if (static_cast<int64_t>(entry.blocks.size()) != int64_t{entry.facts.layer_count} + 1)
    return OCELLUS_FAIL(Code::kBadArgument, "a library entry of %d layers has %d blocks, not %d",
                        entry.facts.layer_count, entry.facts.layer_count + 1, static_cast<int>(entry.blocks.size()));
  if (entry.embedding.empty()) return {};
  if (static_cast<int64_t>(entry.embedding.size()) != entry.facts.embedding_width)
    return OCELLUS_FAIL(Code::kBadArgument, "a retrieval embedding of %d numbers was given where the facts say %d",
                        static_cast<int>(entry.embedding.size()), entry.facts.embedding_width);
  return check_embedding(entry.embedding);
}

Status fill_header(const OwnerRecord& owner, const NewEntry& entry, const EntryLabels& labels, int64_t now,
                   EntryHeader* header) {
  header->key = library_key(owner.secret, entry.facts);
  header->facts = entry.facts;
  header->owner = owner.name;
  header->labels = labels;
  header->created = now;
  header->computed_us = entry.computed_us;
  OCELLUS_TRY(header->embedding.resize(static_cast<int64_t>(entry.embedding.size())));
  std::copy(entry.embedding.begin(), entry.embedding.end(), header->embedding.data());
  return {};
}

}  // namespace

Status LibraryEntry::accept(const FileOutcome& outcome, bool* found) {
  *found = outcome.is_sound();
  if (!*found) {
    store_->report_damage(file_, outcome.detail);
    file_.close();
  }
  return {};
}

Status LibraryEntry::read_block(int32_t block, std::span<std::byte> to, bool* found) {
  *found = false;
  if (!is_open() || block < 0 || block >= block_count())
    return OCELLUS_FAIL(Code::kBadArgument, "the library entry is closed or has no block %d", block);
  if (static_cast<int64_t>(to.size()) < block_bytes(block))
    return OCELLUS_FAIL(Code::kBadArgument, "block %d of the library entry needs memory of %lld bytes", block,
                        static_cast<long long>(block_bytes(block)));
  return accept(file_.read_block(block, to.data()), found);
}

Status LibraryEntry::check_block(int32_t block, std::span<const std::byte> bytes, bool* found) {
  *found = false;
  if (!is_open() || block < 0 || block >= block_count())
    return OCELLUS_FAIL(Code::kBadArgument, "the library entry is closed or has no block %d", block);
  if (static_cast<int64_t>(bytes.size()) < block_bytes(block))
    return accept({FileState::kDamaged, "a block that cannot be read"}, found);
  return accept(file_.check_block(block, bytes.data()), found);
}

bool LibraryEntry::take_stamp(EntryStamp* out) const {
  *out = {.key = key(), .expires = header().labels.expires};
  return is_open() && LibraryFiles::stamp_open(descriptor(), &out->file);
}

ImageLibrary::ImageLibrary() = default;
ImageLibrary::~ImageLibrary() { close(); }

Status ImageLibrary::open(const LibraryConfig& config) {
  close();
  store_.reset(new (std::nothrow) LibraryStore);
  if (store_ == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for a library");
  const Status status = store_->open(config);
  if (!status.ok()) close();
  static std::atomic<uint64_t> count{0};
  if (status.ok()) serial_ = ++count;
  return status;
}

void ImageLibrary::close() {
  const std::lock_guard lock(users_);
  while (user_count_ > 0) users_.wait();
  serial_ = 0;
  store_.reset();
}

void ImageLibrary::begin_use() {
  const std::lock_guard lock(users_);
  ++user_count_;
}

void ImageLibrary::end_use() {
  const std::lock_guard lock(users_);
  --user_count_;
  users_.notify_all();
}

/// Returns the failure of a library that is not open.
#define OCELLUS_REQUIRE_STORE() \
  if (store_ == nullptr) return Catalogue().require_open()

Status ImageLibrary::put(std::string_view owner, LibraryPart part, const NewEntry& entry, LibraryKey* key) {
  OCELLUS_REQUIRE_STORE();
  OCELLUS_TRY(check_owner(owner));
  OCELLUS_TRY(check_new_entry(entry));
  EntryLabels labels;
  OCELLUS_TRY(make_labels(entry.tags, entry.caption, entry.expires, entry.pinned, &labels));
  EntryHeader header;
  int64_t now = 0;
  const Status status = store_->run([&](int64_t seconds) -> Status {
    OwnerRecord writer;
    bool found = false;
    now = seconds;
    OCELLUS_TRY(store_->find_writer(owner, part, &writer, &found));
    if (!found) OCELLUS_TRY(store_->require_owner(owner, &writer));
    header = {};
    return fill_header(writer, entry, labels, seconds, &header);
  });
  OCELLUS_TRY(status);
  // Outside of run(): others may continue while the blocks are written.
  NewFile file(store_->files(), store_->entries_folder());
  OCELLUS_TRY(write_entry(&header, entry.blocks, &file));
  *key = header.key;
  return store_->run([&](int64_t seconds) { return store_->place_entry(header.owner.view(), header, seconds, &file); });
}

Status ImageLibrary::find(std::string_view owner, const EntryFacts& facts, LibraryEntry* out, bool* found) {
  OCELLUS_TRY(find_in(owner, LibraryPart::kOwn, facts, out, found));
  return *found ? Status() : find_in(owner, LibraryPart::kShared, facts, out, found);
}

Status ImageLibrary::find_in(std::string_view owner, LibraryPart part, const EntryFacts& facts, LibraryEntry* out,
                             bool* found) {
  OCELLUS_REQUIRE_STORE();
  OCELLUS_TRY(check_owner(owner));
  return store_->run([&](int64_t now) -> Status {
    *found = false;
    out->close();
    out->store_ = store_.get();
    out->part_ = part;
    OwnerRecord record;
    bool is_known = false;
    OCELLUS_TRY(store_->find_owner(part == LibraryPart::kOwn ? owner : kSharedName, &record, &is_known));
    if (!is_known) return {};
    const LibraryKey key = library_key(record.secret, facts);
    OCELLUS_TRY(store_->open_entry({record, key, &facts}, now, &out->file_, found));
    if (*found) store_->catalogue.touch_entry(key, now);
    return {};
  });
}

Status ImageLibrary::find_key(std::string_view owner, const LibraryKey& key, LibraryEntry* out, bool* found) {
  OCELLUS_REQUIRE_STORE();
  OCELLUS_TRY(check_owner(owner));
  return store_->run([&](int64_t now) -> Status {
    *found = false;
    out->close();
    out->store_ = store_.get();
    CatalogueRow row;
    OwnerRecord record;
    bool is_known = false;
    // The row names the owner; others must neither learn anything about the entry nor have it set aside.
    OCELLUS_TRY(store_->catalogue.find_entry(key, &row, &is_known));
    if (is_known) OCELLUS_TRY(store_->catalogue.find_owner(row.owner, &record, &is_known));
    const bool is_shared = record.name.view() == kSharedName;
    if (!is_known || (!is_shared && record.name.view() != owner)) return {};
    OCELLUS_TRY(store_->open_entry({record, key}, now, &out->file_, found));
    out->part_ = is_shared ? LibraryPart::kShared : LibraryPart::kOwn;
    if (*found) store_->catalogue.touch_entry(key, now);
    return {};
  });
}

bool ImageLibrary::is_current(const EntryStamp& stamp) const { return store_ != nullptr && store_->is_current(stamp); }

void ImageLibrary::note_use(const LibraryKey& key) {
  if (store_ == nullptr) return;
  (void)store_->run([&](int64_t now) -> Status {
    store_->catalogue.touch_entry(key, now);
    return {};
  });
}

Status ImageLibrary::remove(std::string_view owner, LibraryPart part, const LibraryKey& key, bool* found) {
  OCELLUS_REQUIRE_STORE();
  OCELLUS_TRY(check_owner(owner));
  return store_->run([&](int64_t now) -> Status {
    OwnerRecord writer;
    CatalogueRow row;
    OCELLUS_TRY(store_->find_writer(owner, part, &writer, found));
    if (!*found) return {};
    OCELLUS_TRY(store_->catalogue.find_entry(key, &row, found));
    *found = *found && row.owner == writer.id;
    if (!*found) return {};
    *found = !has_expired(row.labels.expires, now);
    OCELLUS_TRY(store_->change([&]() { return store_->remove_entry(key); }));
    // A removed entry must not come back after a power loss.
    const int error = sync_directory(store_->files(), store_->entries_folder().c_str());
    return error < 0 ? OCELLUS_FAIL(Code::kIo, "a removed entry may come back after a loss of power") : Status();
  });
}

Status ImageLibrary::change_labels(std::string_view owner, LibraryPart part, const LibraryKey& key,
                                   const LabelChange& change, bool* found) {
  OCELLUS_REQUIRE_STORE();
  OCELLUS_TRY(check_owner(owner));
  return store_->run([&](int64_t now) -> Status {
    OwnerRecord writer;
    CatalogueRow row;
    OCELLUS_TRY(store_->find_writer(owner, part, &writer, found));
    if (!*found) return {};
    OCELLUS_TRY(store_->catalogue.find_entry(key, &row, found));
    *found = *found && row.owner == writer.id;
    if (!*found) return {};
    return store_->rewrite_entry({writer, key}, now, change, found);
  });
}

Status ImageLibrary::set_labels(std::string_view owner, LibraryPart part, const LibraryKey& key,
                                const EntryLabels& labels, bool* found) {
  OCELLUS_REQUIRE_STORE();
  std::string_view tags[kMaxTags];
  EntryLabels checked;
  OCELLUS_TRY(
      make_labels(view_tags(labels.tags, tags), labels.caption.view(), labels.expires, labels.pinned, &checked));
  return change_labels(owner, part, key, {.labels = &checked}, found);
}

Status ImageLibrary::set_pinned(std::string_view owner, LibraryPart part, const LibraryKey& key, bool pinned,
                                bool* found) {
  return change_labels(owner, part, key, {.pinned = pinned}, found);
}

Status ImageLibrary::check_writer(std::string_view owner, LibraryPart part) {
  OCELLUS_REQUIRE_STORE();
  OCELLUS_TRY(check_owner(owner));
  return store_->run([&](int64_t) -> Status {
    OwnerRecord writer;
    bool found = false;
    return store_->find_writer(owner, part, &writer, &found);
  });
}

Status ImageLibrary::describe_entry(std::string_view owner, const LibraryKey& key, LibraryItem* out, bool* found) {
  OCELLUS_REQUIRE_STORE();
  OCELLUS_TRY(check_owner(owner));
  return store_->run([&](int64_t now) { return store_->find_item(owner, key, now, out, found); });
}

Status ImageLibrary::list(std::string_view owner, VisitItem visit, void* user) {
  OCELLUS_REQUIRE_STORE();
  OCELLUS_TRY(check_owner(owner));
  int64_t id = 0;
  while (true) {
    LibraryItem item;
    bool found = false;
    OCELLUS_TRY(store_->run([&](int64_t now) { return store_->next_item(owner, now, &id, &item, &found); }));
    if (!found || !visit(user, item)) return {};
  }
}

Status ImageLibrary::nearest(std::string_view owner, const Hash128& model, std::span<const float> embedding,
                             int32_t count, Buffer<NearEntry>* out) {
  OCELLUS_REQUIRE_STORE();
  OCELLUS_TRY(check_owner(owner));
  OCELLUS_TRY(check_embedding(embedding));
  if (count < 1) return OCELLUS_FAIL(Code::kBadArgument, "a search must ask for at least one entry");
  return store_->run([&](int64_t now) -> Status {
    *out = {};
    OwnerRecord record;
    int64_t owners[2] = {}, shared = 0;
    size_t owner_count = 0;
    for (const std::string_view name : {owner, kSharedName}) {
      bool found = false;
      OCELLUS_TRY(store_->find_owner(name, &record, &found));
      if (found) owners[owner_count++] = record.id;
      if (found && name == kSharedName) shared = record.id;
    }
    Buffer<LibraryIndex::Near> near;
    OCELLUS_TRY(store_->index.search(store_->catalogue, {{owners, owner_count}, model, embedding, now, count}, &near));
    for (const LibraryIndex::Near& one : near) {
      CatalogueRow row;
      bool found = false;
      OCELLUS_TRY(store_->catalogue.find_row(one.id, &row, &found));
      const LibraryPart part = row.owner == shared ? LibraryPart::kShared : LibraryPart::kOwn;
      if (found) OCELLUS_TRY(out->push({row.key, part, one.similarity}));
    }
    return {};
  });
}

Status ImageLibrary::search_text(std::string_view owner, std::string_view words, int32_t count,
                                 Buffer<FoundText>* out) {
  OCELLUS_REQUIRE_STORE();
  OCELLUS_TRY(check_owner(owner));
  if (count < 1) return OCELLUS_FAIL(Code::kBadArgument, "a search must ask for at least one entry");
  Buffer<char> question;
  OCELLUS_TRY(quote_words(words, &question));
  const std::string_view text(question.data(), static_cast<size_t>(question.size()));
  return store_->run([&](int64_t now) { return store_->search_text(owner, text, count, now, out); });
}

Status ImageLibrary::create_shared(std::string_view administrator) {
  OCELLUS_REQUIRE_STORE();
  OCELLUS_TRY(check_owner(administrator));
  return store_->run([&](int64_t) { return store_->require_shared(administrator); });
}

Status ImageLibrary::set_owner_quota(std::string_view owner, int64_t bytes) {
  OCELLUS_REQUIRE_STORE();
  OCELLUS_TRY(check_owner(owner));
  if (bytes < 0) return OCELLUS_FAIL(Code::kBadArgument, "a quota cannot be negative");
  return store_->run([&](int64_t) { return store_->save_quota(owner, bytes); });
}

Status ImageLibrary::describe_owner(std::string_view owner, LibraryUse* out) {
  OCELLUS_REQUIRE_STORE();
  OCELLUS_TRY(check_owner(owner));
  return store_->run([&](int64_t) { return store_->describe(owner, out); });
}

Status ImageLibrary::describe_all(LibraryUse* out) {
  OCELLUS_REQUIRE_STORE();
  return store_->run([&](int64_t) { return store_->describe({}, out); });
}

Status ImageLibrary::verify(LibraryReport* report) {
  OCELLUS_REQUIRE_STORE();
  *report = {};
  Buffer<LibraryKey> keys;
  OCELLUS_TRY(store_->run([&](int64_t) { return store_->reconcile(report); }));
  OCELLUS_TRY(store_->run([&](int64_t) { return store_->list_files(&keys); }));
  for (const LibraryKey& key : keys) {
    EntryFile file;
    bool is_open = false;
    OCELLUS_TRY(store_->run([&](int64_t) { return store_->open_to_verify(key, &file, &is_open, report); }));
    if (!is_open) continue;
    // Outside of run(): others may continue while the blocks are read.
    FileOutcome outcome;
    OCELLUS_TRY(file.scan_blocks(nullptr, &outcome));
    ++report->checked;
    report->sound += outcome.is_sound() ? 1 : 0;
    if (!outcome.is_sound()) report->set_aside += store_->report_damage(file, outcome.detail) ? 1 : 0;
  }
  return {};
}

Status ImageLibrary::collect_garbage(LibraryReport* report) {
  OCELLUS_REQUIRE_STORE();
  *report = {};
  return store_->run([&](int64_t now) -> Status {
    OCELLUS_TRY(store_->remove_unfinished(report));
    OCELLUS_TRY(store_->remove_outdated(report));
    OCELLUS_TRY(store_->reconcile(report));
    OCELLUS_TRY(store_->change([&]() { return store_->remove_expired(Catalogue::kAllOwners, now, &report->expired); }));
    (void)sync_directory(store_->files(), store_->entries_folder().c_str());
    return {};
  });
}

}  // namespace ocellus
