// Draft: what an answer may go on with, guessed from what was said before, and how much of it is worth trying.
//
// The guess is read in one step with the token before it. Every row of that step samples as it would alone, with the
// random number of its place, so the answer is the same with and without: a row whose token was guessed wrong, and
// those after it, are dropped. (With one guessed token at each place, accepting it if the sampled one equals it has the
// same probability as speculative sampling's ratio: Leviathan et al. 2023, "Fast inference from transformers via
// speculative decoding", algorithm 1.)
#pragma once

#include <cstdint>

#include "runtime/branches/draft/step_times.h"
#include "runtime/engine/branch.h"

namespace ocellus {

/// Memory of drafts of one session.
struct DraftMemory {
  TokenId* said = nullptr;     // the last answer
  TokenId* history = nullptr;  // ring of the tokens of the conversation
  int64_t capacity = 0;        // maximum number of tokens in either
};

/// The draft of one session. What was said last stays through resets; the chances of guesses, too.
class Draft final : public Guesser, public SetUpObject {
 public:
  Draft() = default;
  Draft(const DraftMemory& memory, const StepTimes* times) : memory_(memory), times_(times) {}

  void remember(int64_t count, TokenId token) override { memory_.history[count % memory_.capacity] = token; }
  void begin(ocellus_draft kind, uint64_t prompt) override;
  void keep_answer(int64_t begin, int64_t count, TokenId last) override;
  void note(int64_t count, TokenId token) override;
  bool is_on() const override { return uses_said_ || uses_history_; }
  Status propose(int32_t most, int64_t rows, AnswerForm* form, TokenId* tokens, int32_t* count) override;

 private:
  enum class Source : uint8_t { kNone, kSaid, kHistory };
  /// Chances that a guess is right: after a wrong one, after few and after many that were right.
  static constexpr int kChances = 3;
  struct Chance {
    float right = 1, tried = 2;
  };
  static int chance_after(int32_t right) { return right == 0 ? 0 : right < 4 ? 1 : 2; }

  /// Writes what may follow the newest token, at most `most` tokens; returns their number.
  int32_t guess(int32_t most, TokenId* out) const;
  /// Returns how many of `most` guesses are worth trying in a step that has `rows` rows without them: all of them, if a
  /// source was named, else those that promise 15 % more tokens in the same time.
  int32_t worth_trying(int32_t most, int64_t rows) const;
  TokenId at(int64_t number) const;
  void align(int64_t count, TokenId token);
  bool align_said(TokenId before, TokenId token);
  bool align_history(int64_t count, TokenId before, TokenId token);

  DraftMemory memory_;
  const StepTimes* times_ = nullptr;
  uint64_t said_prompt_ = 0;
  int64_t said_count_ = 0;
  uint64_t prompt_ = 0;
  bool uses_said_ = false, uses_history_ = false, weighs_ = false;
  Source source_ = Source::kNone;
  int64_t next_ = 0;         // number of the guessed token in its source
  int64_t history_end_ = 0;  // tokens of the conversation
  int32_t right_ = 0;        // guesses that were right since the last wrong one
  Chance chances_[kChances];
};

}  // namespace ocellus
