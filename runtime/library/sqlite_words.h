// How much of a search for words an entry answers, for SQLite's full text search.
#pragma once

#include "platform/status.h"
#include "runtime/library/sqlite_statement.h"

namespace ocellus {

/// Gives the connection the function word_share(words): of the words that are searched for the share, 0 to 1, that a
/// row has. Words without a letter or digit do not count. For databases with FTS5.
Status add_word_share(SqliteDatabase& database);

}  // namespace ocellus
