// The catalogue's tables and statements.
#pragma once

namespace ocellus {

inline constexpr int kCatalogueApplication = 0x4F434C42;  // "OCLB"
/// Versions of a catalogue without and with captions' words: builds that cannot maintain the words must not write
/// there. Both increase with the version of entries' files, so that no row of an unreadable file is left.
inline constexpr int kCatalogueVersion = 4;
inline constexpr int kWordsVersion = 5;

// Triggers maintain the sums of an owner's entries and the list of changes, so that no path can forget them. Rows of
// `entries` are never changed except for their last use: other changes insert a new row.
inline constexpr char kCatalogueSchema[] = R"(
CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES('time', 0);
CREATE TABLE owners(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, secret BLOB NOT NULL,
  administrator TEXT NOT NULL, quota INTEGER NOT NULL, entries INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0, pinned_bytes INTEGER NOT NULL DEFAULT 0);
CREATE TABLE entries(id INTEGER PRIMARY KEY AUTOINCREMENT, owner INTEGER NOT NULL REFERENCES owners(id),
  key BLOB NOT NULL UNIQUE, facts BLOB NOT NULL, tags TEXT NOT NULL, caption TEXT NOT NULL, bytes INTEGER NOT NULL, created INTEGER NOT NULL,
  last_used INTEGER NOT NULL, use_order INTEGER NOT NULL, expires INTEGER NOT NULL, pinned INTEGER NOT NULL);
CREATE INDEX entries_by_owner ON entries(owner);
CREATE INDEX entries_by_use ON entries(use_order);
CREATE INDEX entries_to_remove ON entries(pinned, use_order);
CREATE INDEX entries_of_owner_to_remove ON entries(owner, pinned, use_order);
CREATE INDEX entries_by_expiry ON entries(expires) WHERE expires > 0;
CREATE TABLE vectors(entry INTEGER PRIMARY KEY REFERENCES entries(id) ON DELETE CASCADE, embedding BLOB NOT NULL);
CREATE TABLE changes(number INTEGER PRIMARY KEY AUTOINCREMENT, entry INTEGER NOT NULL);
CREATE TRIGGER entry_comes AFTER INSERT ON entries BEGIN
  UPDATE owners SET entries = entries + 1, bytes = bytes + new.bytes, pinned_bytes = pinned_bytes + new.bytes * new.pinned
    WHERE id = new.owner;
  INSERT INTO changes(entry) VALUES(new.id);
  DELETE FROM changes WHERE number <= (SELECT max(number) FROM changes) - 20000;
END;
CREATE TRIGGER entry_goes AFTER DELETE ON entries BEGIN
  UPDATE owners SET entries = entries - 1, bytes = bytes - old.bytes, pinned_bytes = pinned_bytes - old.bytes * old.pinned
    WHERE id = old.owner;
  INSERT INTO changes(entry) VALUES(old.id);
END;
)";

// The words of captions and tags, for searches: an index without texts of its own. Ignores English endings and accents.
inline constexpr char kWordsSchema[] = R"(
CREATE VIRTUAL TABLE words USING fts5(caption, tags, content='entries', content_rowid='id',
  tokenize='porter unicode61 remove_diacritics 2');
CREATE TRIGGER words_come AFTER INSERT ON entries BEGIN
  INSERT INTO words(rowid, caption, tags) VALUES(new.id, new.caption, new.tags);
END;
CREATE TRIGGER words_go AFTER DELETE ON entries BEGIN
  INSERT INTO words(words, rowid, caption, tags) VALUES('delete', old.id, old.caption, old.tags);
END;
)";

#define OCELLUS_OWNER_COLUMNS "SELECT id, name, secret, administrator, quota FROM owners "
#define OCELLUS_ENTRY_COLUMNS                                                                 \
  "SELECT id, owner, key, facts, tags, caption, bytes, created, last_used, expires, pinned, " \
  "EXISTS(SELECT 1 FROM vectors WHERE entry = id) FROM entries "
#define OCELLUS_VECTOR_COLUMNS \
  "SELECT e.id, e.owner, e.expires, e.facts, v.embedding FROM vectors v JOIN entries e ON e.id = v.entry "

/// All statements; parameters in the order of the question marks.
#define OCELLUS_FOR_EACH_QUERY(QUERY)                                                                                 \
  QUERY(kReadTime, "SELECT value FROM meta WHERE name = 'time'")                                                      \
  QUERY(kWriteTime, "UPDATE meta SET value = max(value, ?) WHERE name = 'time'")                                      \
  QUERY(kOwnerByName, OCELLUS_OWNER_COLUMNS "WHERE name = ?")                                                         \
  QUERY(kOwnerById, OCELLUS_OWNER_COLUMNS "WHERE id = ?")                                                             \
  QUERY(kNextOwner, OCELLUS_OWNER_COLUMNS "WHERE id > ? ORDER BY id LIMIT 1")                                         \
  QUERY(kSaveOwner,                                                                                                   \
        "INSERT INTO owners(name, secret, administrator, quota) VALUES(?, ?, ?, ?) ON CONFLICT(name) DO UPDATE SET "  \
        "secret = excluded.secret, administrator = excluded.administrator, quota = excluded.quota")                   \
  QUERY(kEntryByKey, OCELLUS_ENTRY_COLUMNS "WHERE key = ?")                                                           \
  QUERY(kEntryById, OCELLUS_ENTRY_COLUMNS "WHERE id = ?")                                                             \
  QUERY(kNextEntry, OCELLUS_ENTRY_COLUMNS "WHERE id > ? ORDER BY id LIMIT 1")                                         \
  QUERY(kNextOfOwner, OCELLUS_ENTRY_COLUMNS "WHERE owner = ? AND id > ? ORDER BY id LIMIT 1")                         \
  QUERY(kExpired, OCELLUS_ENTRY_COLUMNS "WHERE expires > 0 AND expires <= ? ORDER BY expires LIMIT 1")                \
  QUERY(kExpiredOfOwner,                                                                                              \
        OCELLUS_ENTRY_COLUMNS "WHERE owner = ? AND expires > 0 AND expires <= ? ORDER BY expires LIMIT 1")            \
  QUERY(kOldest, OCELLUS_ENTRY_COLUMNS "WHERE pinned = 0 AND key <> ? ORDER BY use_order LIMIT 1")                    \
  QUERY(kOldestOfOwner,                                                                                               \
        OCELLUS_ENTRY_COLUMNS "WHERE owner = ? AND pinned = 0 AND key <> ? ORDER BY use_order LIMIT 1")               \
  QUERY(                                                                                                              \
      kInsertEntry,                                                                                                   \
      "INSERT INTO entries(owner, key, facts, tags, caption, bytes, created, last_used, use_order, expires, pinned) " \
      "VALUES(?, ?, ?, ?, ?, ?, ?, ?, (SELECT ifnull(max(use_order), 0) + 1 FROM entries), ?, ?)")                    \
  QUERY(kInsertVector, "INSERT INTO vectors(entry, embedding) VALUES(last_insert_rowid(), ?)")                        \
  QUERY(kDropEntry, "DELETE FROM entries WHERE key = ?")                                                              \
  QUERY(kTouchEntry,                                                                                                  \
        "UPDATE entries SET last_used = max(last_used, ?), use_order = (SELECT max(use_order) + 1 FROM entries) "     \
        "WHERE key = ?")                                                                                              \
  QUERY(kSumAll, "SELECT ifnull(sum(entries), 0), ifnull(sum(bytes), 0), ifnull(sum(pinned_bytes), 0) FROM owners")   \
  QUERY(kSumOwner, "SELECT entries, bytes, pinned_bytes FROM owners WHERE id = ?")                                    \
  QUERY(kChangeEnds,                                                                                                  \
        "SELECT ifnull((SELECT min(number) FROM changes), 0), ifnull((SELECT max(number) FROM changes), 0)")          \
  QUERY(kChanges, "SELECT entry FROM changes WHERE number > ? ORDER BY number")                                       \
  QUERY(kVectors, OCELLUS_VECTOR_COLUMNS "ORDER BY e.id")                                                             \
  QUERY(kVector, OCELLUS_VECTOR_COLUMNS "WHERE e.id = ?")

/// Statement for catalogues with words.
inline constexpr char kSearchText[] =
    "SELECT e.id, word_share(words) AS share FROM words JOIN entries e ON e.id = words.rowid WHERE words MATCH ? AND "
    "e.owner IN (?, ?) AND (e.expires = 0 OR e.expires > ?) ORDER BY share DESC, e.id DESC LIMIT ?";

}  // namespace ocellus
