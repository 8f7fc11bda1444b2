// SQLite's prepared statements with this code base's conventions. Included only by the catalogue's sources.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "platform/status.h"
#include "runtime/branches/library/library_entry.h"

namespace ocellus {

/// The database, and a flag set when it is found damaged.
struct SqliteDatabase {
  sqlite3* handle = nullptr;
  bool is_damaged = false;

  /// Records SQLite's message on its last failure. kIo.
  Status fail(int result);
  /// Executes statements without results.
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

  /// Bytes and text must stay valid until the run ends.
  SqliteRun& number(int64_t value);
  SqliteRun& text(std::string_view value);
  SqliteRun& bytes(const void* value, int64_t count);
  SqliteRun& key(const LibraryKey& value);

  /// Moves to the next row of results; *found is false after the last.
  Status next(bool* found);
  /// Runs a statement without results.
  Status finish();

  int64_t read_number() { return sqlite3_column_int64(statement_.handle(), column_++); }
  double read_real() { return sqlite3_column_double(statement_.handle(), column_++); }
  std::string_view read_text();
  std::span<const std::byte> read_bytes();
  bool read_key(LibraryKey* out);
  /// Returns false if the column has another size.
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
