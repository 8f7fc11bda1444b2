#include "runtime/session/guesses.h"

#include "kernels/sampling/sample_row.h"

namespace ocellus {

void Guesses::place(int32_t row, const TokenId* tokens, const StepScratch& s, Queue& queue) const {
  for (int32_t i = 0; i < count; ++i) {
    const int32_t to = first_row + i;
    move_step_row(s, i == 0 ? row : to - 1, to, queue);
    StepRow& guess = s.steps.host.data[to];
    move_on(guess, tokens[to], s.tiles.host.row(to));
    --guess.step;
  }
}

}  // namespace ocellus
