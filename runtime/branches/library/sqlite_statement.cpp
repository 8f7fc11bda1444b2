#include "runtime/branches/library/sqlite_statement.h"

#include <cstring>

namespace ocellus {

Status SqliteDatabase::fail(int result) {
  const int kind = result & 0xFF;
  if (kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB || kind == SQLITE_CONSTRAINT) is_damaged = true;
  const char* detail = handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(result);
  return OCELLUS_FAIL(Code::kIo, "the library's catalogue failed: %s", detail);
}

Status SqliteDatabase::execute(const char* text) {
  const int result = sqlite3_exec(handle, text, nullptr, nullptr, nullptr);
  return result == SQLITE_OK ? Status() : fail(result);
}

Status SqliteStatement::prepare(SqliteDatabase& database, const char* text) {
  database_ = &database;
  const int result = sqlite3_prepare_v3(database.handle, text, -1, SQLITE_PREPARE_PERSISTENT, &handle_, nullptr);
  return result == SQLITE_OK ? Status() : database.fail(result);
}

void SqliteStatement::finalize() {
  sqlite3_finalize(handle_);
  handle_ = nullptr;
}

SqliteRun& SqliteRun::number(int64_t value) {
  bind_result_ |= sqlite3_bind_int64(statement_.handle(), parameter_++, value);
  return *this;
}

SqliteRun& SqliteRun::text(std::string_view value) {
  bind_result_ |=
      sqlite3_bind_text(statement_.handle(), parameter_++, value.data(), static_cast<int>(value.size()), SQLITE_STATIC);
  return *this;
}

SqliteRun& SqliteRun::bytes(const void* value, int64_t count) {
  bind_result_ |=
      sqlite3_bind_blob64(statement_.handle(), parameter_++, value, static_cast<uint64_t>(count), SQLITE_STATIC);
  return *this;
}

SqliteRun& SqliteRun::key(const LibraryKey& value) {
  std::byte* to = key_bytes_[key_count_++ % 2];
  for (int i = 0; i < 16; ++i) {
    const uint64_t half = i < 8 ? value.high : value.low;
    to[i] = static_cast<std::byte>(half >> (56 - 8 * (i % 8)));
  }
  return bytes(to, 16);
}

Status SqliteRun::next(bool* found) {
  *found = false;
  if (bind_result_ != SQLITE_OK) return statement_.database().fail(bind_result_);
  column_ = 0;
  const int result = sqlite3_step(statement_.handle());
  if (result == SQLITE_DONE) return {};
  if (result != SQLITE_ROW) return statement_.database().fail(result);
  *found = true;
  return {};
}

Status SqliteRun::finish() {
  bool found = false;
  return next(&found);
}

std::string_view SqliteRun::read_text() {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.handle(), column_));
  const int count = sqlite3_column_bytes(statement_.handle(), column_++);
  return text == nullptr ? std::string_view() : std::string_view(text, static_cast<size_t>(count));
}

std::span<const std::byte> SqliteRun::read_bytes() {
  const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement_.handle(), column_));
  const int count = sqlite3_column_bytes(statement_.handle(), column_++);
  return {bytes, bytes == nullptr ? 0 : static_cast<size_t>(count)};
}

bool SqliteRun::read_exactly(void* out, int64_t count) {
  const std::span<const std::byte> from = read_bytes();
  if (static_cast<int64_t>(from.size()) != count) return false;
  std::memcpy(out, from.data(), from.size());
  return true;
}

bool SqliteRun::read_key(LibraryKey* out) {
  std::byte from[16];
  if (!read_exactly(from, sizeof from)) return false;
  *out = {};
  for (int i = 0; i < 16; ++i) {
    uint64_t& half = i < 8 ? out->high : out->low;
    half = half << 8 | static_cast<uint64_t>(from[i]);
  }
  return true;
}

}  // namespace ocellus
