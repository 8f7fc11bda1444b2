#pragma once

#include "kernels/base/kv_run.h"
#include "kernels/base/step_row.h"
#include "platform/queue.h"

namespace ocellus {

/// Maximum rows of a step that tries guesses.
inline constexpr int32_t kMostGuessingRows = 8;

/// Guesses of one session: rows first .. first + count - 1, after its own row `of`.
struct GuessedRows {
  int32_t of = 0;
  int32_t first = 0;
  int32_t count = 0;
};

/// Fills the rows of guessed tokens: each is what the session's own row would be if the token had been sampled after
/// those before it (move_on), except that its result is one of the same step. Rows from `begin` on that no session has
/// are made inactive.
///
/// Shapes    steps [end]; tiles [end, tiles_per_row], the list of a session's own row is copied; local_tiles and
///           ring_starts alike, or null; all in the device's memory. `tokens` by row. Sessions' rows and tiles are
///           below `begin`
struct GuessRowsArgs {
  StepRow* steps = nullptr;
  KvRun* tiles = nullptr;
  int64_t tiles_per_row = 0;
  KvRun* local_tiles = nullptr;
  int64_t local_tiles_per_row = 0;
  int32_t* ring_starts = nullptr;
  int32_t begin = 0, end = 0;
  int32_t sessions = 0;
  GuessedRows guesses[kMostGuessingRows] = {};
  int32_t tokens[kMostGuessingRows] = {};
};
void guess_rows(const GuessRowsArgs& args, Queue& queue);

/// Returns the guesses that row `row` belongs to; null if none.
OCELLUS_EVERYWHERE inline const GuessedRows* guesses_of(const GuessRowsArgs& args, int32_t row) {
  for (int32_t i = 0; i < args.sessions; ++i) {
    const GuessedRows& guesses = args.guesses[i];
    if (row >= guesses.first && row < guesses.first + guesses.count) return &guesses;
  }
  return nullptr;
}

}  // namespace ocellus
