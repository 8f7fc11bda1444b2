// SQLite's prepared statements in the way of this code base. Included by the catalogue's sources alone.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "platform/status.h"
#include "runtime/library/library_entry.h"

namespace ocellus {

/// The database and whether it was found damaged.
struct SqliteDatabase {
  sqlite3* handle = nullptr;
  bool is_damaged = false;

  /// Records what SQLite says of its last failure. kIo.
  Status fail(int result);
  /// Statements without results.
  Status execute(const char* text);
};

/// A statement that is prepared once and run often.
class SqliteStatement {
 public:
  SqliteStatement() = default;
  ~SqliteStatement() { finalize(); }
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  Status prepare(SqliteDatabase& database, const char* text);
  void finalize();
  sqlite3_stmt* handle() const { return handle_; }
  SqliteDatabase& database() const { return *database_; }

 private:
  SqliteDatabase* database_ = nullptr;
  sqlite3_stmt* handle_ = nullptr;
};

/// One run of a statement, reset at its end. Parameters and columns come in order, each call takes the next.
class SqliteRun {
 public:
  explicit SqliteRun(SqliteStatement& statement) : statement_(statement) {}
  ~SqliteRun() {
    sqlite3_reset(statement_.handle());
    sqlite3_clear_bindings(statement_.handle());
  }
  SqliteRun(const SqliteRun&) = delete;
  SqliteRun& operator=(const SqliteRun&) = delete;

  /// Bytes and text must stay until the run ends.
  SqliteRun& number(int64_t value);
  SqliteRun& text(std::string_view value);
  SqliteRun& bytes(const void* value, int64_t count);
  SqliteRun& key(const LibraryKey& value);

  /// The next row of results; *found is false behind the last.
  Status next(bool* found);
  /// For statements without results.
  Status finish();

  int64_t read_number() { return sqlite3_column_int64(statement_.handle(), column_++); }
  double read_real() { return sqlite3_column_double(statement_.handle(), column_++); }
  std::string_view read_text();
  std::span<const std::byte> read_bytes();
  bool read_key(LibraryKey* out);
  /// False if the column has another size.
  bool read_exactly(void* out, int64_t count);

 private:
  SqliteStatement& statement_;
  int parameter_ = 1;
  int column_ = 0;
  int bind_result_ = SQLITE_OK;
  std::byte key_bytes_[2][16] = {};
  int key_count_ = 0;
};

}  // namespace ocellus
