// Generation: read the waiting prompt, then one token per step for every unfinished session.
//
// The device keeps a StepRow for every session and advances it on its own, so the host only launches steps and reads
// the tokens they chose. On CUDA the host launches one step more than it has read tokens of: the end of an answer is
// detected while the device works on the next step, whose slot is then simply not committed.
//
// Scoring is the same with given tokens: the device reads each from host memory when its step is done. Where guesses
// are planned, a step has several of them: all are right.
#include "runtime/session/generation.h"

#include <algorithm>

#include "kernels/sampling/sample_row.h"

namespace ocellus {
namespace {

/// Appends the time of a step that gave `tokens`: an equal part for each.
void note_times(float ms, int32_t tokens, HostView<float> times, int64_t* count) {
  for (int32_t t = 0; t < tokens && *count < times.cols; ++t) times.data[(*count)++] = ms / static_cast<float>(tokens);
}

/// Median and 95th percentile of the times of the tokens after the first; reorders them.
void summarise_times(float* times_ms, int64_t count, ocellus_generate_stats* stats) {
  if (count == 0) return;
  std::sort(times_ms, times_ms + count);
  stats->token_median_ms = times_ms[count / 2];
  stats->token_p95_ms = times_ms[std::min(count - 1, count * 95 / 100)];
}

/// Fills what the conversation knows, and begins its next account.
void summarise(Conversation& conversation, ocellus_generate_stats* s) {
  const SessionCache& cache = conversation.cache();
  s->image_count = cache.image_count();
  conversation.stats().report(s);
  const CacheBytes bytes = cache.bytes();
  s->kv_bytes = bytes.payload + bytes.scales;
  s->kv_scale_bytes = bytes.scales;
  s->kv_waste_bytes = bytes.waste;
  s->kv_block_bytes = bytes.blocks;
  s->kv_shared_bytes = bytes.shared;
  s->kv_block_elements = bytes.block_elements;
  s->kv_bytes_full = cache.full_bytes();
  conversation.stats() = PromptStats();
}

/// Tells a receiver of the answer's tokens one and the probabilities that its step found. Returns false to stop.
bool report_token(const Tokenizer& tokenizer, const ocellus_generate_params& p, TokenId token, float log_probability,
                  const TopTokens& top) {
  const auto describe = [&](TokenId id, float logarithm) -> ocellus_token_probability {
    const std::string_view text = tokenizer.piece(id, true);
    return {text.data(), static_cast<int32_t>(text.size()), id, logarithm};
  };
  ocellus_token_probability listed[kMostTopTokens];
  for (int32_t t = 0; t < top.count; ++t) listed[t] = describe(top.tokens[t], top.log_probabilities[t]);
  const ocellus_token_probability chosen = describe(token, log_probability);
  return p.on_token(p.token_user, &chosen, listed, top.count) == 0;
}

/// Gives a part of an answer, or of its thought, to the caller; false if that wants no more.
bool deliver(const Engine& engine, const ocellus_generate_params& p, AnswerThought* thought, bool is_thought,
             std::string_view text) {
  const ocellus_text_function receiver = is_thought ? p.on_thought : p.on_text;
  if (!is_thought) text = thought->visible(text);
  if (text.empty() || receiver == nullptr) return true;
  const TraceRange range(engine.trace(), "deliver text");
  return receiver(is_thought ? p.thought_user : p.user, text.data(), static_cast<int32_t>(text.size())) == 0;
}

}  // namespace

/// If an answer was cut, and nothing was added since, its newest token is read by a decode step, as it would have
/// been without the cut.
Status Generation::read_prompt(int32_t i) {
  Prompt& prompt = sessions_[i]->prompt();
  conversation(i).begin_answer();
  parts_[i].thought = {engine_.model().thought_marks(), params_[i], &conversation(i).state().thought};
  parts_[i].goes_on = conversation(i).state().unread_token != kNoToken;
  if (params_[i].constraint != nullptr)
    OCELLUS_TRY(engine_.memory().branches.begin_form(params_[i].constraint, conversation(i).slot(), parts_[i].goes_on,
                                                     &sessions_[i]->stop_signal(), &parts_[i].form));
  if (parts_[i].goes_on) return prompt.read_nothing();
  OCELLUS_TRY(prompt.read_to_answer());
  if (!conversation(i).state().is_answerable)
    return OCELLUS_FAIL(Code::kBadArgument, "there is nothing to answer: add text or an image first");
  if (parts_[i].form != nullptr) OCELLUS_TRY(parts_[i].form->follow(conversation(i)));
  conversation(i).begin_guesses(static_cast<ocellus_draft>(params_[i].draft));
  return {};
}

/// Sessions whose prompt cannot be read are excluded; the others of a batch continue, as they do when one is stopped
/// later.
void Generation::read_prompts() {
  for (int32_t i = 0; i < count_; ++i) {
    const Status status = read_prompt(i);
    parts_[i].active = status.ok() && params_[i].max_tokens > 0;
    stats_[i].stop = status.ok() ? OCELLUS_STOP_MAX_TOKENS : stop_for(status);
    if (status.ok()) continue;
    sessions_[i]->prompt().forget();
    if (result_.ok()) result_ = status;
  }
}

/// Sets the tokens that follow step `started_` and are not sampled, before the step is launched: all of them if they
/// are scored, else those around a thought.
void Generation::force_next_tokens() {
  TokenId* const forced = scratch_.sampling.forced.row(started_ % kResultSteps);
  if (forced_ != nullptr) {
    forced[parts_[0].row] = forced_->tokens[started_ + parts_[0].gained];
    return;
  }
  for (int32_t i = 0; i < count_; ++i) {
    Part& part = parts_[i];
    if (!part.on_device) continue;
    const TokenId token = part.thought.next();
    if (token != kNoToken) forced[part.row] = token;
    if (part.thought.is_written == (token != kNoToken)) continue;
    part.thought.is_written = token != kNoToken;
    set_step_flag(&scratch_.steps.device.data[part.row].forced, part.thought.is_written, engine_.queue());
  }
}

/// Step 0: the first token of an answer comes from the last row of its prompt, that of an answer that goes on
/// from a decode step. In a batch of both kinds the one are out while the others have theirs.
Status Generation::start_first_tokens() {
  const TraceRange range(engine_.trace(), "first token");
  int64_t cut = 0;
  for (int32_t i = 0; i < count_; ++i) cut += parts_[i].active && parts_[i].goes_on ? 1 : 0;
  const bool both = cut > 0 && cut < active_count();
  const auto mark_those_that = [&](bool go_on, bool is_active) {
    for (int32_t i = 0; i < count_; ++i)
      if (parts_[i].active && parts_[i].goes_on == go_on) mark_active(i, is_active);
  };
  force_next_tokens();
  write_masks();
  if (cut > 0 && has_text_to_pack(0)) OCELLUS_TRY(pack_text());
  if (both) mark_those_that(true, false);
  if (cut < active_count()) {
    const DeviceView<float> hidden = scratch_.hidden;
    for (int32_t i = 0; i < count_; ++i)
      if (parts_[i].active && !parts_[i].goes_on)
        engine_.queue().copy(hidden.row(parts_[i].row), conversation(i).last_hidden(),
                             hidden.cols * static_cast<int64_t>(sizeof(float)));
    OCELLUS_TRY(enqueue_first_token(engine_.text(), shape_.rows, scratch_, engine_.queue()));
  }
  if (both) mark_those_that(true, true);
  if (both) mark_those_that(false, false);
  if (cut > 0) {
    OCELLUS_TRY(run_forward());
    OCELLUS_TRY(sample_step(shape_.rows, scratch_, engine_.queue()));
  }
  if (both) mark_those_that(false, true);
  engine_.queue().record_result(started_++);
  return engine_.queue().status();
}

void Generation::mark_active(int32_t i, bool active) {
  set_step_flag(&scratch_.steps.device.data[parts_[i].row].active, active, engine_.queue());
}

/// A step gives the token of the previous step the evicted slot. If no step followed, that is done here; if one
/// followed and its own token was not accepted, nothing is left to do.
void Generation::settle_rows() {
  const auto waits = [](const Part& part) { return part.row != kNoRow && part.unsettled && !part.on_device; };
  if (std::none_of(parts_, parts_ + count_, waits)) return;
  shape_.most_tiles = 0;
  for (int32_t i = 0; i < count_; ++i) {
    if (parts_[i].row == kNoRow) continue;
    mark_active(i, waits(parts_[i]));
    shape_.most_tiles = std::max<int64_t>(shape_.most_tiles, parts_[i].next.new_tile + 1);
  }
  scratch_.dropper->settle(engine_.text(), shape_, scratch_, engine_.queue());
  for (int32_t i = 0; i < count_; ++i) {
    if (parts_[i].row != kNoRow) mark_active(i, parts_[i].on_device);
    if (waits(parts_[i])) parts_[i].unsettled = false;
  }
}

/// A step whose result is not needed any more may still be under way in the caller's memory, so the device is waited
/// for; then the counts tell what lives.
void Generation::settle_newest() {
  for (int32_t i = 0; i < count_; ++i) parts_[i].on_device = false;
  settle_rows();
  Queue& queue = engine_.queue();
  const bool by_block = engine_.shape().kv.counts_blocks();
  for (int32_t i = 0; by_block && i < count_; ++i)
    for (int32_t e = 0; e < conversation(i).cache().kept().count(); ++e)
      conversation(i).cache().kept().fetch_counts(e, queue);
  const bool known = !queue.on_cuda() || queue.finish().ok();
  for (int32_t i = 0; by_block && i < count_; ++i) conversation(i).cache().kept().note_added(known);
}

/// Runs the forward pass of a decode step for the rows that take part in step `started_`: continued answers only, if it
/// is step 0. It is prepared for the present tiles, not for those that the answer may need later: on a GPU that could
/// change the order of its sums.
///
/// A session that decodes alone on the CPU stops between layers. A batch stops between steps only, because one of its
/// sessions must not end the step of the others, and so does a GPU, whose steps are recorded. So does a step with
/// eviction: a skipped layer would keep slots that the others dropped.
Status Generation::run_forward() {
  shape_.most_tiles = 0;
  for (int32_t i = 0; i < count_; ++i) {
    Part& part = parts_[i];
    if (!part.on_device || (started_ == 0 && !part.goes_on)) continue;
    part.last_step = started_;
    StepPlace last = part.next;
    for (int32_t k = 0; k < part.guesses.count; ++k) move_place(last, kPageSlots);
    shape_.most_tiles = std::max<int64_t>(shape_.most_tiles, last.new_tile + 1);
    move_place(part.next, kPageSlots);
  }
  const bool stops = count_ == 1 && !engine_.queue().on_cuda() && !engine_.shape().kv.has_ledger;
  StepShape shape = shape_;
  shape.rows += guessed_rows_;
  return engine_.run_forward(shape, scratch_, stops ? &sessions_[0]->stop_signal() : nullptr);
}

/// Takes sessions that have finished, or are full, out of the next step; false if none is left.
bool Generation::leave_finished() {
  bool any = false;
  for (int32_t i = 0; i < count_; ++i) {
    Part& part = parts_[i];
    if (part.on_device && (!part.active || started_ + part.gained > part.most_steps)) {
      part.on_device = false;
      mark_active(i, false);
    }
    any = any || part.on_device;
  }
  return any;
}

/// Launches the forward pass of the next step for all sessions that can take part; false if none can, or if it failed.
bool Generation::begin_step() {
  if (!leave_finished()) return false;
  give_up_rows();
  force_next_tokens();
  place_guesses();
  is_begun_ = active_count() > 0 && run_forward().ok();
  return is_begun_;
}

/// Launches the next step, or what is left of it, likewise.
bool Generation::start_step() {
  if (is_begun_)
    force_next_tokens();  // as the result since then has it
  else if (!begin_step())
    return false;
  is_begun_ = false;
  if (!leave_finished()) return false;
  write_masks();
  if (active_count() == 0 || !sample_step(shape_.rows + guessed_rows_, scratch_, engine_.queue()).ok()) return false;
  engine_.queue().record_result(started_++);
  return engine_.queue().ok();
}

/// Delivers tokens to every session until all have finished.
Status Generation::answer() {
  Queue& queue = engine_.queue();
  int64_t before = now_ns();
  for (int64_t step = 0; active_count() > 0; ++step) {
    const TraceRange range(engine_.trace(), step == 0 ? "first token" : "decode step");
    for (int32_t i = 0; i < count_; ++i) {
      const Status status = parts_[i].active && step > 0 ? sessions_[i]->stop_signal().check() : Status();
      if (!status.ok()) finish(i, stop_for(status), status);
    }
    if (started_ == step && has_text_to_pack(0)) OCELLUS_TRY(pack_text());
    // No step is running when the token of this one fills a block: it is packed before the next step.
    // Nor is one when the host writes the token of the next step around a thought.
    const bool may_write = std::any_of(
        parts_, parts_ + count_, [](const Part& part) { return part.active && part.thought.may_write_after_next(); });
    // And a constrained answer's next mask needs the token before it, but not so the forward pass.
    const bool has_to_pack = has_text_to_pack(1);
    const bool waits = has_to_pack || may_write || tries_guesses_ || has_forms_;
    while (active_count() > 0 && started_ - step < (queue.on_cuda() && !waits ? 2 : 1) && start_step()) {
    }
    if (queue.on_cuda() && has_forms_ && !has_to_pack && !tries_guesses_ && started_ > step) (void)begin_step();
    OCELLUS_TRY(queue.status());
    if (started_ <= step) break;
    queue.wait_for_result(step);
    OCELLUS_TRY(queue.status());
    const int64_t done = now_ns();
    int32_t tokens = 0;
    OCELLUS_TRY(accept_results(step, &tokens));
    engine_.note_cache_use();
    const int64_t now = now_ns();
    if (step > 0) {
      EngineMemory& memory = engine_.memory();
      note_times(static_cast<float>(elapsed_ms(before, now)), tokens, memory.token_times, &timed_tokens_);
      if (memory.branches.guessing != nullptr)
        memory.branches.guessing->note_step(shape_.rows + guessed_rows_, static_cast<float>(elapsed_ms(before, done)));
    }
    if (step == 0) first_token_ns_ = now;
    before = last_token_ns_ = now;
  }
  return {};
}

/// Accepts the results of step `step`, those of guesses as long as they are what was sampled; then the session's row is
/// the last of those. *tokens: the most that a session got.
Status Generation::accept_results(int64_t step, int32_t* tokens) {
  for (int32_t i = 0; i < count_; ++i) {
    Part& part = parts_[i];
    if (!part.active) continue;
    OCELLUS_TRY(accept_result(i, step, step < part.moved_at ? part.row_before : part.row));
    const GuessedRows& guesses = part.guesses;
    int32_t right = 0;
    while (right < guesses.count && part.active) {
      const int32_t row = guesses.first + right;
      if (conversation(i).state().unread_token != guessed_tokens_[row]) break;
      ++right;
      ++part.gained;
      move_place(part.next, kPageSlots);
      OCELLUS_TRY(accept_result(i, step, row));
    }
    if (right > 0) move_step_row(scratch_, guesses.first + right - 1, part.row, engine_.queue());
    if (step > 0) ++stats_[i].decode_steps;
    stats_[i].accepted_tokens += right;
    *tokens = std::max(*tokens, right + 1);
  }
  return {};
}

/// The token that step `step` has read has its own slot now, or will take another one's.
void Generation::read_token(int32_t i, int64_t step) {
  Part& part = parts_[i];
  ConversationState& state = conversation(i).state();
  SessionCache& cache = conversation(i).cache();
  if (engine_.shape().kv.local.window > 0) cache.ring().commit_token();
  const bool evicts = part.eviction.evicts(static_cast<int32_t>(state.next_position));
  part.unsettled = evicts && part.last_step == step;
  if (evicts) {
    cache.note_replaced();
  } else {
    ++part.eviction.slots;
    cache.note_text_position(cache.text_slots(), state.next_position);
    cache.commit_text(1);
  }
  conversation(i).note_token(state.unread_token);
  state.prefix_hash = prefix_of(state.prefix_hash, kEndOfPiece);
  state.unread_token = kNoToken;
  state.is_answerable = false;  // the last hidden row is the prompt's, no longer the newest
  ++state.next_position;
  ++state.row_count;
}

/// Handles session i's token of a row of step `step`. A decode step has also read the token before it, whose slot is
/// now live.
Status Generation::accept_result(int32_t i, int64_t step, int32_t row) {
  if (step > 0 || parts_[i].goes_on) read_token(i, step);
  const StepResult& result = scratch_.sampling.results.row(step % kResultSteps)[row];
  stats_[i].logits_hash = result.logits_hash;
  ++conversation(i).drawn_count();
  if (result.token == kNoTokenSampled)
    return OCELLUS_FAIL(Code::kBadFile, "the model's output is not a number: the weights are damaged");
  const TokenId given = parts_[i].thought.next();
  if (forced_ != nullptr)
    accept_forced(result.log_probability);
  else
    accept_token(i, given != kNoToken ? given : result.token, step, row);
  if (parts_[i].active && step + parts_[i].gained >= parts_[i].most_steps) finish(i, OCELLUS_STOP_FULL);
  return {};
}

void Generation::accept_token(int32_t i, TokenId token, int64_t step, int32_t row) {
  const ocellus_generate_params& p = params_[i];
  if (!p.ignore_end && engine_.tokenizer().is_end_of_generation(token)) return finish(i, OCELLUS_STOP_END_TOKEN);
  Conversation& own = conversation(i);
  own.state().unread_token = token;
  own.remember(token);
  if (own.guesser() != nullptr) own.guesser()->note(own.state().token_count, token);
  const ThoughtPart part = parts_[i].thought.accept(token);
  ocellus_generate_stats& stats = stats_[i];
  ++(part == ThoughtPart::kAnswer    ? stats.generated_tokens
     : part == ThoughtPart::kThought ? stats.thought_tokens
                                     : stats.thought_mark_tokens);
  AnswerForm* const form = parts_[i].form;
  std::string_view piece = engine_.tokenizer().piece(token, false);
  if (part == ThoughtPart::kAnswer && form != nullptr) {
    piece = form->text_of(token);
    const Status status = form->accept(token);
    if (!status.ok()) return finish(i, stop_for(status), status);
  }
  const int64_t at = step % kResultSteps;
  if (part == ThoughtPart::kAnswer && p.on_token != nullptr &&
      !report_token(engine_.tokenizer(), p, token, scratch_.sampling.results.row(at)[row].log_probability,
                    scratch_.sampling.tops.row(at)[row]))
    finish(i, OCELLUS_STOP_CALLBACK);
  Utf8Stream& characters = own.characters();
  const std::string_view text = part == ThoughtPart::kMark ? characters.finish() : characters.push(piece);
  const bool goes_on = deliver(engine_, p, &parts_[i].thought, part != ThoughtPart::kAnswer, text);
  if (parts_[i].active && !goes_on) finish(i, OCELLUS_STOP_CALLBACK);
  const int64_t tokens = int64_t{stats.generated_tokens} + stats.thought_tokens + stats.thought_mark_tokens;
  const bool ends_slice = p.slice_tokens > 0 && tokens >= p.slice_tokens;
  if (parts_[i].active && form != nullptr && form->is_complete()) finish(i, OCELLUS_STOP_END_TOKEN);
  if (parts_[i].active && (stats.generated_tokens >= p.max_tokens || ends_slice)) finish(i, OCELLUS_STOP_MAX_TOKENS);
}

/// A final end token is not read, as in generation: the chat template writes it.
void Generation::accept_forced(float log_probability) {
  const int32_t index = stats_[0].generated_tokens++;
  const TokenId token = forced_->tokens[index];
  if (forced_->log_probabilities != nullptr) forced_->log_probabilities[index] = log_probability;
  if (forced_->total != nullptr && index >= forced_->unscored) *forced_->total += double{log_probability};
  const bool is_last = index + 1 == forced_->count;
  if (is_last && engine_.tokenizer().is_end_of_generation(token)) return finish(0, OCELLUS_STOP_END_TOKEN);
  conversation(0).state().unread_token = token;
  conversation(0).remember(token);
  if (is_last) finish(0, OCELLUS_STOP_MAX_TOKENS);
}

/// Ends one session's answer; the others continue. `status`: its failure.
void Generation::finish(int32_t i, ocellus_stop stop, Status status) {
  if (result_.ok()) result_ = status;
  parts_[i].active = false;
  stats_[i].stop = stop;
  const ConversationState& state = conversation(i).state();
  if (Guesser* const guesser = conversation(i).guesser(); guesser != nullptr && forced_ == nullptr)
    guesser->keep_answer(state.answer_begin, state.token_count, state.unread_token);
  // If the answer may go on, an incomplete character stays buffered.
  if (stop == OCELLUS_STOP_CALLBACK || stop == OCELLUS_STOP_MAX_TOKENS) return;
  AnswerThought& thought = parts_[i].thought;
  (void)deliver(engine_, params_[i], &thought, thought.is_open(), conversation(i).characters().finish());
}

Status Generation::run() {
  read_prompts();
  const ArenaScope scope(engine_.arena());
  OCELLUS_TRY(engine_.take_scratch(&scratch_));
  scratch_.trace = engine_.trace();
  const int64_t start = now_ns();
  first_token_ns_ = last_token_ns_ = start;
  Status status;
  if (active_count() > 0) {
    status = place_rows();
    if (status.ok()) status = start_first_tokens();
    if (status.ok()) status = answer();
    settle_newest();
  }
  float* times = engine_.memory().token_times.data;
  for (int32_t i = 0; i < count_; ++i) {
    stats_[i].first_token_ms = elapsed_ms(start, first_token_ns_);
    stats_[i].decode_ms = elapsed_ms(first_token_ns_, last_token_ns_);
    if (i == 0) summarise_times(times, timed_tokens_, &stats_[0]);
    stats_[i].token_median_ms = stats_[0].token_median_ms;
    stats_[i].token_p95_ms = stats_[0].token_p95_ms;
  }
  return result_.ok() ? status : result_;
}

void Generation::settle(Status status) {
  engine_.queue().clear();
  for (int32_t i = 0; i < count_; ++i) {
    if (parts_[i].active) finish(i, stop_for(status));
    conversation(i).cache().drop_uncommitted();
    summarise(conversation(i), &stats_[i]);
    StopSignal& stop = sessions_[i]->stop_signal();
    stop.set_deadline(session_deadlines_[i]);
    if (stats_[i].stop == OCELLUS_STOP_CANCELLED) stop.acknowledge();
    conversation(i).set_checkpoint();
  }
}

Status generate(Session* const* sessions, const ocellus_generate_params* params, ocellus_generate_stats* stats,
                int32_t count) {
  if (count < 1 || count > kMaxSessions)
    return OCELLUS_FAIL(Code::kBadArgument, "between 1 and %d sessions can be decoded together, not %d", kMaxSessions,
                        count);
  for (int32_t i = 0; i < count; ++i) {
    if (&sessions[i]->engine() != &sessions[0]->engine())
      return OCELLUS_FAIL(Code::kBadArgument, "sessions that are decoded together must belong to one engine");
    const Engine& engine = sessions[i]->engine();
    OCELLUS_TRY(check_generate_params(engine.shape(), engine.text().config.vocabulary, params[i]));
    for (int32_t k = 0; k < i; ++k)
      if (sessions[k] == sessions[i]) return OCELLUS_FAIL(Code::kBadArgument, "a session was given twice");
  }
  const TraceRange range(sessions[0]->engine().trace(), "generate");
  Generation generation(sessions, params, stats, count, nullptr);
  const Status status = generation.run();
  generation.settle(status);
  if (!status.ok() && last_failure().code != status.code())
    return OCELLUS_FAIL(status.code(), "one of the sessions was stopped: %s", code_name(status.code()));
  return status;
}

}  // namespace ocellus
