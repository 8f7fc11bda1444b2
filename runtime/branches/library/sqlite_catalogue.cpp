#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "runtime/branches/library/library_catalogue.h"
#include "runtime/branches/library/sqlite_schema.h"
#include "runtime/branches/library/sqlite_statement.h"
#include "runtime/branches/library/sqlite_words.h"

namespace ocellus {
namespace {

constexpr int kBusyMilliseconds = 10'000;
/// Timeout of writes that may be skipped.
constexpr int kShortBusyMilliseconds = 20;

#define OCELLUS_QUERY_NAME(name, text) name,
enum Query : int { OCELLUS_FOR_EACH_QUERY(OCELLUS_QUERY_NAME) kQueryCount };
#undef OCELLUS_QUERY_NAME
#define OCELLUS_QUERY_TEXT(name, text) text,
constexpr const char* kQueryTexts[] = {OCELLUS_FOR_EACH_QUERY(OCELLUS_QUERY_TEXT)};
#undef OCELLUS_QUERY_TEXT

/// Tags in one text; they hold no line ends.
struct TagText {
  char text[kMaxTags * (kMaxTagBytes + 1)] = {};
  size_t length = 0;

  explicit TagText(const EntryTags& tags) {
    for (int32_t i = 0; i < tags.count; ++i) {
      const std::string_view tag = tags.tags[i].view();
      if (i > 0) text[length++] = '\n';
      std::memcpy(text + length, tag.data(), tag.size());
      length += tag.size();
    }
  }
  std::string_view view() const { return {text, length}; }
};

bool parse_tags(std::string_view text, EntryTags* out) {
  *out = {};
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view tag = text.substr(0, end);
    if (out->count == kMaxTags || !is_tag(tag)) return false;
    out->tags[out->count++].assign(tag);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

}  // namespace

struct Catalogue::Parts {
  SqliteDatabase database;
  SqliteStatement statements[kQueryCount];
  SqliteStatement search;
  bool has_words = false;  // SQLite was built with FTS5

  ~Parts() {
    for (SqliteStatement& statement : statements) statement.finalize();
    search.finalize();
    sqlite3_close(database.handle);
  }
  SqliteStatement& operator[](Query query) { return statements[query]; }

  Status open(const char* path);
  Status read_pragma(const char* text, int64_t* out);
  Status look_for_words();
  Status create();
  /// *fits is false if the tables are not ours.
  Status check_or_create(bool* fits);
  Status prepare();

  Status read_owner(SqliteRun& run, OwnerRecord* out, bool* found);
  Status read_entry(SqliteRun& run, CatalogueRow* out, bool* found);
  Status fail_damaged() {
    database.is_damaged = true;
    return OCELLUS_FAIL(Code::kIo, "the library's catalogue is damaged");
  }
};

Status Catalogue::Parts::open(const char* path) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  int result = sqlite3_open_v2(path, &database.handle, flags, nullptr);
  if (result == SQLITE_OK) result = sqlite3_busy_timeout(database.handle, kBusyMilliseconds);
  if (result != SQLITE_OK) return database.fail(result);
  return {};
}

Status Catalogue::Parts::read_pragma(const char* text, int64_t* out) {
  SqliteStatement statement;
  OCELLUS_TRY(statement.prepare(database, text));
  SqliteRun run(statement);
  bool found = false;
  OCELLUS_TRY(run.next(&found));
  *out = found ? run.read_number() : 0;
  return {};
}

Status Catalogue::Parts::check_or_create(bool* fits) {
  *fits = false;
  int64_t application = 0, version = 0, tables = 0;
  OCELLUS_TRY(read_pragma("PRAGMA application_id", &application));
  OCELLUS_TRY(read_pragma("PRAGMA user_version", &version));
  OCELLUS_TRY(read_pragma("SELECT count(*) FROM sqlite_schema", &tables));
  const bool is_new = application == 0 && version == 0 && tables == 0;
  OCELLUS_TRY(look_for_words());
  // Foreign tables stay unchanged.
  const int expected = has_words ? kWordsVersion : kCatalogueVersion;
  if (!is_new && (application != kCatalogueApplication || version != expected)) return {};
  OCELLUS_TRY(database.execute("PRAGMA journal_mode = WAL"));
  // The journal of pages takes 300 KB or so of the disk and not SQLite's usual 4 MB: quotas may count it.
  OCELLUS_TRY(database.execute("PRAGMA wal_autocheckpoint = 64"));
  OCELLUS_TRY(database.execute("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON"));
  if (is_new) OCELLUS_TRY(create());
  for (const char* text : {"PRAGMA quick_check('entries')", "PRAGMA quick_check('owners')"}) {
    SqliteStatement statement;
    OCELLUS_TRY(statement.prepare(database, text));
    SqliteRun run(statement);
    bool found = false;
    OCELLUS_TRY(run.next(&found));
    if (!found || run.read_text() != "ok") return {};
  }
  *fits = true;
  return {};
}

Status Catalogue::Parts::look_for_words() {
  SqliteStatement statement;
  OCELLUS_TRY(statement.prepare(database, "PRAGMA module_list"));
  SqliteRun run(statement);
  bool found = false;
  OCELLUS_TRY(run.next(&found));
  while (found && !has_words) {
    has_words = run.read_text() == "fts5";
    OCELLUS_TRY(run.next(&found));
  }
  return {};
}

Status Catalogue::Parts::create() {
  char text[128];
  std::snprintf(text, sizeof text, "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
                kCatalogueApplication, has_words ? kWordsVersion : kCatalogueVersion);
  OCELLUS_TRY(database.execute("BEGIN IMMEDIATE"));
  OCELLUS_TRY(database.execute(kCatalogueSchema));
  if (has_words) OCELLUS_TRY(database.execute(kWordsSchema));
  return database.execute(text);
}

Status Catalogue::Parts::prepare() {
  for (int i = 0; i < kQueryCount; ++i) OCELLUS_TRY(statements[i].prepare(database, kQueryTexts[i]));
  if (!has_words) return {};
  OCELLUS_TRY(add_word_share(database));
  return search.prepare(database, kSearchText);
}

Status Catalogue::Parts::read_owner(SqliteRun& run, OwnerRecord* out, bool* found) {
  OCELLUS_TRY(run.next(found));
  if (!*found) return {};
  *out = {};
  out->id = run.read_number();
  const bool is_named = out->name.assign(run.read_text());
  const bool has_secret = run.read_exactly(out->secret.bytes, sizeof out->secret.bytes);
  const bool is_administered = out->administrator.assign(run.read_text());
  out->quota_bytes = run.read_number();
  return is_named && has_secret && is_administered ? Status() : fail_damaged();
}

Status Catalogue::Parts::read_entry(SqliteRun& run, CatalogueRow* out, bool* found) {
  OCELLUS_TRY(run.next(found));
  if (!*found) return {};
  *out = {};
  out->id = run.read_number();
  out->owner = run.read_number();
  std::byte facts[kFactsBytes];
  bool is_sound = run.read_key(&out->key);
  is_sound = run.read_exactly(facts, sizeof facts) && is_sound;
  is_sound = parse_tags(run.read_text(), &out->labels.tags) && is_sound;
  is_sound = out->labels.caption.assign(run.read_text()) && is_sound;
  if (!is_sound) return fail_damaged();
  decode_facts(facts, &out->facts);
  for (int64_t* field : {&out->bytes, &out->created, &out->last_used, &out->labels.expires}) *field = run.read_number();
  out->labels.pinned = run.read_number() != 0;
  out->has_embedding = run.read_number() != 0;
  return {};
}

Catalogue::Catalogue() = default;
Catalogue::~Catalogue() = default;

Status Catalogue::open(const char* path, bool* fits) {
  *fits = true;
  parts_.reset(new (std::nothrow) Parts);
  if (parts_ == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for the library's catalogue");
  Status status = parts_->open(path);
  if (status.ok()) status = parts_->check_or_create(fits);
  if (status.ok() && *fits) status = parts_->prepare();
  // Incomplete tables fail to prepare, without being damaged for SQLite.
  const bool is_ours = parts_->database.handle == nullptr || sqlite3_errcode(parts_->database.handle) != SQLITE_ERROR;
  if (!status.ok() && (parts_->database.is_damaged || !is_ours)) {
    *fits = false;
    status = {};
  }
  if (!status.ok() || !*fits) close();
  return status;
}

Status Catalogue::open_in_memory() {
  bool fits = false;
  return open(":memory:", &fits);
}

void Catalogue::close() { parts_.reset(); }

Status Catalogue::require_open() const {
  return is_open() ? Status() : OCELLUS_FAIL(Code::kBadArgument, "the library is not open");
}

bool Catalogue::is_gone() const {
  int has_moved = 0;
  sqlite3_file_control(parts_->database.handle, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
  return has_moved != 0;
}

bool Catalogue::is_damaged() const { return parts_->database.is_damaged; }

Status Catalogue::begin() { return parts_->database.execute("BEGIN IMMEDIATE"); }

Status Catalogue::commit() { return parts_->database.execute("COMMIT"); }

void Catalogue::roll_back() {
  // If a full disk has already ended the transaction there is nothing to do.
  if (sqlite3_get_autocommit(parts_->database.handle) == 0)
    sqlite3_exec(parts_->database.handle, "ROLLBACK", nullptr, nullptr, nullptr);
}

Status Catalogue::see_time(int64_t* seconds) {
  Parts& parts = *parts_;
  int64_t kept = 0;
  {
    SqliteRun run(parts[kReadTime]);
    bool found = false;
    OCELLUS_TRY(run.next(&found));
    if (!found) return parts.fail_damaged();
    kept = run.read_number();
  }
  if (*seconds > kept) {
    // If it cannot be written now it is tried again the next time; until then the caller remembers it.
    sqlite3_busy_timeout(parts.database.handle, kShortBusyMilliseconds);
    SqliteRun run(parts[kWriteTime]);
    (void)run.number(*seconds).finish();
    sqlite3_busy_timeout(parts.database.handle, kBusyMilliseconds);
  } else {
    *seconds = kept;
  }
  return {};
}

Status Catalogue::find_owner(std::string_view name, OwnerRecord* out, bool* found) {
  SqliteRun run((*parts_)[kOwnerByName]);
  return parts_->read_owner(run.text(name), out, found);
}

Status Catalogue::find_owner(int64_t id, OwnerRecord* out, bool* found) {
  SqliteRun run((*parts_)[kOwnerById]);
  return parts_->read_owner(run.number(id), out, found);
}

Status Catalogue::next_owner(int64_t id, OwnerRecord* out, bool* found) {
  SqliteRun run((*parts_)[kNextOwner]);
  return parts_->read_owner(run.number(id), out, found);
}

Status Catalogue::save_owner(OwnerRecord* record) {
  {
    SqliteRun run((*parts_)[kSaveOwner]);
    run.text(record->name.view()).bytes(record->secret.bytes, sizeof record->secret.bytes);
    OCELLUS_TRY(run.text(record->administrator.view()).number(record->quota_bytes).finish());
  }
  OwnerRecord saved;
  bool found = false;
  OCELLUS_TRY(find_owner(record->name.view(), &saved, &found));
  record->id = saved.id;
  return found ? Status() : parts_->fail_damaged();
}

Status Catalogue::find_entry(const LibraryKey& key, CatalogueRow* out, bool* found) {
  SqliteRun run((*parts_)[kEntryByKey]);
  return parts_->read_entry(run.key(key), out, found);
}

Status Catalogue::find_row(int64_t id, CatalogueRow* out, bool* found) {
  SqliteRun run((*parts_)[kEntryById]);
  return parts_->read_entry(run.number(id), out, found);
}

Status Catalogue::next_entry(int64_t owner, int64_t id, CatalogueRow* out, bool* found) {
  SqliteRun run((*parts_)[owner == kAllOwners ? kNextEntry : kNextOfOwner]);
  if (owner != kAllOwners) run.number(owner);
  return parts_->read_entry(run.number(id), out, found);
}

Status Catalogue::find_expired(int64_t owner, int64_t seconds, CatalogueRow* out, bool* found) {
  SqliteRun run((*parts_)[owner == kAllOwners ? kExpired : kExpiredOfOwner]);
  if (owner != kAllOwners) run.number(owner);
  return parts_->read_entry(run.number(seconds), out, found);
}

Status Catalogue::find_oldest(int64_t owner, const LibraryKey& kept, CatalogueRow* out, bool* found) {
  SqliteRun run((*parts_)[owner == kAllOwners ? kOldest : kOldestOfOwner]);
  if (owner != kAllOwners) run.number(owner);
  return parts_->read_entry(run.key(kept), out, found);
}

Status Catalogue::save_entry(int64_t owner, const EntryHeader& header, int64_t last_used) {
  OCELLUS_TRY(drop_entry(header.key));
  std::byte facts[kFactsBytes];
  encode_facts(header.facts, facts);
  const EntryLabels& labels = header.labels;
  const TagText tags(labels.tags);
  SqliteRun run((*parts_)[kInsertEntry]);
  run.number(owner).key(header.key).bytes(facts, sizeof facts).text(tags.view()).text(labels.caption.view());
  run.number(header.file_bytes).number(header.created).number(last_used);
  OCELLUS_TRY(run.number(labels.expires).number(labels.pinned ? 1 : 0).finish());
  if (header.embedding.empty()) return {};
  SqliteRun vector((*parts_)[kInsertVector]);
  return vector.bytes(header.embedding.data(), 4 * header.embedding.size()).finish();
}

Status Catalogue::drop_entry(const LibraryKey& key) {
  SqliteRun run((*parts_)[kDropEntry]);
  return run.key(key).finish();
}

void Catalogue::touch_entry(const LibraryKey& key, int64_t seconds) {
  sqlite3_busy_timeout(parts_->database.handle, kShortBusyMilliseconds);
  SqliteRun run((*parts_)[kTouchEntry]);
  (void)run.number(seconds).key(key).finish();
  sqlite3_busy_timeout(parts_->database.handle, kBusyMilliseconds);
}

Status Catalogue::sum_entries(int64_t owner, CatalogueSums* out) {
  SqliteRun run((*parts_)[owner == kAllOwners ? kSumAll : kSumOwner]);
  if (owner != kAllOwners) run.number(owner);
  bool found = false;
  OCELLUS_TRY(run.next(&found));
  *out = {};
  if (!found) return {};
  for (int64_t* field : {&out->entries, &out->bytes, &out->pinned_bytes}) *field = run.read_number();
  return {};
}

Status Catalogue::last_change(int64_t* number) {
  SqliteRun run((*parts_)[kChangeEnds]);
  bool found = false;
  OCELLUS_TRY(run.next(&found));
  (void)run.read_number();
  *number = run.read_number();
  return {};
}

Status Catalogue::list_changes(int64_t number, Buffer<int64_t>* ids, bool* complete) {
  *complete = false;
  {
    SqliteRun run((*parts_)[kChangeEnds]);
    bool found = false;
    OCELLUS_TRY(run.next(&found));
    if (number + 1 < run.read_number()) return {};
  }
  SqliteRun run((*parts_)[kChanges]);
  run.number(number);
  bool found = false;
  OCELLUS_TRY(run.next(&found));
  while (found) {
    OCELLUS_TRY(ids->push(run.read_number()));
    OCELLUS_TRY(run.next(&found));
  }
  *complete = true;
  return {};
}

Status Catalogue::search_text(std::span<const int64_t> owners, std::string_view question, int64_t seconds,
                              int32_t count, Buffer<CatalogueMatch>* out) {
  *out = {};
  if (!parts_->has_words)
    return OCELLUS_FAIL(Code::kUnsupported, "this SQLite has no full text search (FTS5), so captions are not searched");
  if (owners.empty()) return {};
  SqliteRun run(parts_->search);
  run.text(question).number(owners.front()).number(owners.back()).number(seconds).number(count);
  bool found = false;
  OCELLUS_TRY(run.next(&found));
  while (found) {
    const int64_t id = run.read_number();
    OCELLUS_TRY(out->push({id, run.read_real()}));
    OCELLUS_TRY(run.next(&found));
  }
  return {};
}

Status Catalogue::visit_vectors(int64_t id, VisitVector visit, void* user) {
  SqliteRun run((*parts_)[id == 0 ? kVectors : kVector]);
  if (id != 0) run.number(id);
  Buffer<float> numbers;
  bool found = false;
  OCELLUS_TRY(run.next(&found));
  while (found) {
    CatalogueVector vector;
    for (int64_t* field : {&vector.id, &vector.owner, &vector.expires}) *field = run.read_number();
    std::byte bytes[kFactsBytes];
    if (!run.read_exactly(bytes, sizeof bytes)) return parts_->fail_damaged();
    EntryFacts facts;
    decode_facts(bytes, &facts);
    if (find_fault(facts) != nullptr) return parts_->fail_damaged();
    OCELLUS_TRY(numbers.resize(facts.embedding_width));
    if (!run.read_exactly(numbers.data(), 4 * numbers.size())) return parts_->fail_damaged();
    vector.model = facts.model;
    vector.embedding = {numbers.data(), static_cast<size_t>(numbers.size())};
    OCELLUS_TRY(visit(user, vector));
    OCELLUS_TRY(run.next(&found));
  }
  return {};
}

}  // namespace ocellus
