// Score of a word search, as a function for SQLite's full text search.
#pragma once

#include "platform/status.h"
#include "runtime/branches/library/sqlite_statement.h"

namespace ocellus {

/// Adds the function word_share(words) to the connection: the fraction, 0 to 1, of the searched words that a row has.
/// Words without a letter or digit do not count. For databases with FTS5.
Status add_word_share(SqliteDatabase& database);

}  // namespace ocellus
