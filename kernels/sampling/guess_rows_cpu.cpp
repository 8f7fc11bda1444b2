#include <algorithm>

#include "kernels/backends.h"
#include "kernels/sampling/guess_rows.h"
#include "kernels/sampling/sample_row.h"

namespace ocellus {

void cpu::guess_rows(const GuessRowsArgs& a, Queue& queue) {
  if (!queue.ok()) return;
  for (int32_t row = a.begin; row < a.end; ++row) {
    StepRow& guess = a.steps[row];
    const GuessedRows* const guesses = guesses_of(a, row);
    if (guesses == nullptr) {
      guess.active = 0;
      continue;
    }
    const int64_t of = guesses->of;
    KvRun* const tiles = a.tiles + row * a.tiles_per_row;
    std::copy_n(a.tiles + of * a.tiles_per_row, a.tiles_per_row, tiles);
    std::copy_n(a.local_tiles + of * a.local_tiles_per_row, a.local_tiles_per_row,
                a.local_tiles + row * a.local_tiles_per_row);
    if (a.ring_starts != nullptr) a.ring_starts[row] = a.ring_starts[of];
    guess = a.steps[row == guesses->first ? of : row - 1];
    move_on(guess, a.tokens[row], tiles);
    guess.step = a.steps[of].step;
  }
}

}  // namespace ocellus
