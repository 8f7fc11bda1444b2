#include "runtime/branches/library/sqlite_words.h"

#include <bit>

#include "runtime/branches/library/image_library.h"

namespace ocellus {
namespace {

static_assert(kMaxSearchWords <= 64, "a word is a bit");

void write_share(const Fts5ExtensionApi* api, Fts5Context* search, sqlite3_context* result, int, sqlite3_value**) {
  int asked = 0, places = 0;
  for (int i = 0; i < api->xPhraseCount(search); ++i) asked += api->xPhraseSize(search, i) > 0 ? 1 : 0;
  uint64_t found = 0;
  int status = api->xInstCount(search, &places);
  for (int i = 0; i < places && status == SQLITE_OK; ++i) {
    int word = 0, column = 0, offset = 0;
    status = api->xInst(search, i, &word, &column, &offset);
    found |= uint64_t{1} << (word & 63);
  }
  if (status != SQLITE_OK) return sqlite3_result_error_code(result, status);
  sqlite3_result_double(result, asked > 0 ? static_cast<double>(std::popcount(found)) / asked : 0);
}

}  // namespace

Status add_word_share(SqliteDatabase& database) {
  fts5_api* api = nullptr;
  SqliteStatement statement;
  OCELLUS_TRY(statement.prepare(database, "SELECT fts5(?)"));
  int result = sqlite3_bind_pointer(statement.handle(), 1, &api, "fts5_api_ptr", nullptr);
  if (result == SQLITE_OK) result = sqlite3_step(statement.handle());
  if (result != SQLITE_ROW || api == nullptr) return database.fail(result);
  result = api->xCreateFunction(api, "word_share", nullptr, write_share, nullptr);
  return result == SQLITE_OK ? Status() : database.fail(result);
}

}  // namespace ocellus
