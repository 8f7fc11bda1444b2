// Generation: one call of generate() or score(). generation.cpp runs the steps; generation_rows.cpp describes each
// session to the device.
#pragma once

#include <algorithm>

#include "kernels/sampling/guess_rows.h"
#include "runtime/engine/engine.h"
#include "runtime/session/answer_thought.h"
#include "runtime/session/generate_params.h"
#include "runtime/session/session.h"

namespace ocellus {

/// One call of generate(): sessions, their remaining work, and the buffers of a step.
class Generation {
 public:
  /// Sets deadlines. `forced`: the given tokens of the only session; null: tokens are sampled.
  Generation(Session* const* sessions, const ocellus_generate_params* params, ocellus_generate_stats* stats,
             int32_t count, const ForcedAnswer* forced)
      : sessions_(sessions),
        params_(params),
        stats_(stats),
        count_(count),
        forced_(forced),
        engine_(sessions[0]->engine()) {
    for (int32_t i = 0; i < count; ++i) {
      StopSignal& stop = sessions[i]->stop_signal();
      session_deadlines_[i] = stop.deadline_ns();
      if (params[i].deadline_ns != 0) stop.set_deadline(params[i].deadline_ns);
      stats[i] = {};
      stats[i].stop = OCELLUS_STOP_FAILED;
    }
  }

  /// Must be followed by settle().
  Status run();
  /// Cleans up after success or failure: no session is left active, statistics are complete, the sessions' own
  /// deadlines are restored.
  void settle(Status status);

 private:
  static constexpr int32_t kNoRow = -1;
  /// A session's part in the batch. Its row takes part in step s if s <= most_steps; step 0 is the first token's.
  struct Part {
    bool active = false;     // still receives tokens
    bool on_device = false;  // its row takes part in launched steps
    bool goes_on = false;    // its answer was cut: step 0 reads the token before the cut
    bool unsettled = false;  // the newest accepted token has no slot of its own yet
    int32_t row = kNoRow;    // from step `moved_at` on; kNoRow: it was never placed, or its row was given up
    int32_t row_before = kNoRow;
    int64_t moved_at = 0;
    int64_t most_steps = 0;      // tokens of the answer for which there is room
    int64_t last_step = 0;       // newest step that the row took part in
    StepEviction eviction;       // the device's counts, up to the accepted tokens
    AnswerThought thought;       // its bound in this call
    AnswerForm* form = nullptr;  // null: the answer is free
    StepPlace next;              // the row of the step that is started next
    GuessedRows guesses;         // tried in the step that is under way
    int32_t gained = 0;          // number of right ones: tokens besides one a step
  };

  void read_prompts();
  Status read_prompt(int32_t i);
  Status place_rows();
  Status place_row(int32_t i);
  bool has_text_to_pack(int32_t more) const;
  Status pack_text();
  void list_runs(int32_t i);
  void give_up_rows();
  void settle_rows();
  void settle_newest();
  void mark_active(int32_t i, bool active);
  Status start_first_tokens();
  Status run_forward();
  bool leave_finished();
  bool begin_step();
  bool start_step();
  void place_guesses();
  void write_masks();
  Status answer();
  Status accept_results(int64_t step, int32_t* tokens);
  Status accept_result(int32_t i, int64_t step, int32_t row);
  void read_token(int32_t i, int64_t step);
  void accept_token(int32_t i, TokenId token, int64_t step, int32_t row);
  void accept_forced(float log_probability);
  void force_next_tokens();
  void finish(int32_t i, ocellus_stop stop, Status status = {});
  Conversation& conversation(int32_t i) { return sessions_[i]->conversation(); }
  int64_t active_count() const {
    return std::count_if(parts_, parts_ + count_, [](const Part& part) { return part.active; });
  }

  Session* const* sessions_;
  const ocellus_generate_params* params_;
  ocellus_generate_stats* stats_;
  int32_t count_;
  const ForcedAnswer* forced_;
  Engine& engine_;
  StepScratch scratch_;
  StepShape shape_;                            // without guesses
  bool tries_guesses_ = false;                 // every step must follow the token before it: others may come with it
  bool has_forms_ = false;                     // likewise: its mask
  int32_t guessed_rows_ = 0;                   // rows of guesses, after those of the shape
  int32_t guessed_tokens_[kMostGuessingRows];  // a token a row of them
  Part parts_[kMaxSessions];
  int64_t session_deadlines_[kMaxSessions];
  Status result_;          // the first failure of any session
  int64_t started_ = 0;    // number of launched steps, the first token's included
  bool is_begun_ = false;  // the forward pass of the next one is launched, too
  int64_t timed_tokens_ = 0;
  int64_t first_token_ns_ = 0;
  int64_t last_token_ns_ = 0;
};

}  // namespace ocellus
