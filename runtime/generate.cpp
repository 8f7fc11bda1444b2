// Generating: read what waits, then one token per step for every session that still has something to say.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "runtime/engine.h"
#include "runtime/session.h"

namespace ocellus {
namespace {

SamplerParams sampler_params(const ocellus_generate_params& p) {
  return {.temperature = p.temperature,
          .top_k = p.top_k,
          .top_p = p.top_p,
          .min_p = p.min_p,
          .repetition_penalty = p.repetition_penalty,
          .seed = p.seed};
}

Status check_params(const ocellus_generate_params& p) {
  if (p.struct_bytes != sizeof p)
    return OCELLUS_FAIL(Code::kBadArgument, "the parameters were not set up by ocellus_generate_params_init");
  if (p.max_tokens < 0) return OCELLUS_FAIL(Code::kBadArgument, "max_tokens must be 0 or more, not %d", p.max_tokens);
  return check_sampler_params(sampler_params(p));
}

/// Median and 95th percentile of the times of the tokens after the first; reorders them.
void summarise_times(float* times_ms, int64_t count, ocellus_generate_stats* stats) {
  if (count == 0) return;
  std::sort(times_ms, times_ms + count);
  stats->token_median_ms = times_ms[count / 2];
  stats->token_p95_ms = times_ms[std::min(count - 1, count * 95 / 100)];
}

ocellus_stop stop_for(Status status) {
  switch (status.code()) {
    case Code::kCancelled: return OCELLUS_STOP_CANCELLED;
    case Code::kDeadline: return OCELLUS_STOP_DEADLINE;
    case Code::kFull: return OCELLUS_STOP_FULL;
    default: return OCELLUS_STOP_FAILED;
  }
}

}  // namespace

/// One call of generate(): sessions, what each has still to do, and the buffers of a step.
class Generation {
 public:
  Generation(Session* const* sessions, const ocellus_generate_params* params, ocellus_generate_stats* stats,
             int32_t count)
      : sessions_(sessions), params_(params), stats_(stats), count_(count), engine_(sessions[0]->engine()) {}

  /// Always to be followed by settle().
  Status run();
  /// Whatever happened: no session is left active, statistics are complete, deadlines are the sessions' own again.
  void settle(Status status);

 private:
  Status read_prompt(int32_t i);
  Status first_tokens();
  Status step();
  Status choose_token(int32_t i, float* logits);
  void accept_token(int32_t i, TokenId token);
  void deliver(int32_t i, std::string_view text);
  void finish(int32_t i, ocellus_stop stop);
  void summarise(int32_t i);
  Status prepare_row(int32_t i, int64_t row, int64_t* run_count);
  /// A session that decodes alone stops between layers. A batch stops between steps only: one of its sessions must not
  /// end the step of the others.
  const StopSignal* step_signal() { return count_ == 1 ? &sessions_[0]->stop_ : nullptr; }
  bool active(int32_t i) const { return active_[i]; }
  int64_t active_count() const { return std::count(active_, active_ + count_, true); }

  Session* const* sessions_;
  const ocellus_generate_params* params_;
  ocellus_generate_stats* stats_;
  int32_t count_;
  Engine& engine_;
  GenerateScratch scratch_;
  bool active_[kMaxSessions] = {};
  int64_t session_deadlines_[kMaxSessions];
  Status result_;  // the first failure of any session
  int64_t timed_tokens_ = 0;
};

Status Generation::read_prompt(int32_t i) {
  Session& session = *sessions_[i];
  OCELLUS_TRY(session.start_adding());
  if (session.waiting_rows() == 0) engine_.chunk_owner = nullptr;
  OCELLUS_TRY(session.read_chunk());
  if (!session.has_answerable_)
    return OCELLUS_FAIL(Code::kBadArgument, "there is nothing to answer: add text or an image first");
  return {};
}

/// The first token of every session comes from the last row its prompt left behind.
Status Generation::first_tokens() {
  const DecodeScratch& s = scratch_.step;
  const int64_t rows = active_count();
  int64_t row = 0;
  for (int32_t i = 0; i < count_; ++i) {
    if (!active(i)) continue;
    const float* hidden = engine_.memory().last_hidden.row(sessions_[i]->index_);
    std::copy(hidden, hidden + s.hidden.cols, s.hidden.row(row++));
  }
  enqueue_logits(engine_.text(), s.hidden.slice_rows(0, rows), s.logits.slice_rows(0, rows), s.layer.matmul_scratch,
                 engine_.queue());
  OCELLUS_TRY(engine_.queue().status());
  row = 0;
  for (int32_t i = 0; i < count_; ++i)
    if (active(i)) OCELLUS_TRY(choose_token(i, s.logits.row(row++)));
  return {};
}

/// Samples session i's next token from its logits and decides whether it goes on.
Status Generation::choose_token(int32_t i, float* logits) {
  Session& session = *sessions_[i];
  const int64_t vocabulary = engine_.text().config.vocabulary;
  stats_[i].logits_hash = XXH3_64bits(logits, static_cast<size_t>(vocabulary) * sizeof(float));
  const int32_t* recent = engine_.memory().recent_tokens.row(session.index_);
  const TokenId token =
      sample_token(logits, vocabulary, sampler_params(params_[i]), recent,
                   std::min(session.recent_count_, kRecentTokens), session.drawn_count_++, scratch_.sampler);
  if (token < 0) return OCELLUS_FAIL(Code::kBadFile, "the model's output is not a number: the weights are damaged");
  accept_token(i, token);
  return {};
}

void Generation::accept_token(int32_t i, TokenId token) {
  Session& session = *sessions_[i];
  const ocellus_generate_params& p = params_[i];
  if (!p.ignore_end && engine_.tokenizer().is_end_of_generation(token)) return finish(i, OCELLUS_STOP_END_TOKEN);
  session.unread_token_ = token;
  session.remember_token(token);
  ++stats_[i].generated_tokens;
  deliver(i, session.utf8_.push(engine_.tokenizer().piece(token, false)));
  if (active(i) && stats_[i].generated_tokens >= p.max_tokens) finish(i, OCELLUS_STOP_MAX_TOKENS);
}

void Generation::deliver(int32_t i, std::string_view text) {
  const ocellus_generate_params& p = params_[i];
  if (text.empty() || p.on_text == nullptr) return;
  if (p.on_text(p.user, text.data(), static_cast<int32_t>(text.size())) != 0 && active(i))
    finish(i, OCELLUS_STOP_CALLBACK);
}

void Generation::finish(int32_t i, ocellus_stop stop) {
  active_[i] = false;
  stats_[i].stop = stop;
  const std::string_view rest = sessions_[i]->utf8_.finish();
  if (stop != OCELLUS_STOP_CALLBACK) deliver(i, rest);
}

/// Puts session i's unread token into row `row` of the step: reserves its slot, lists its runs.
Status Generation::prepare_row(int32_t i, int64_t row, int64_t* run_count) {
  Session& session = *sessions_[i];
  SessionCache& cache = session.cache();
  const DecodeScratch& s = scratch_.step;
  OCELLUS_TRY(session.check_room(1, 0));
  OCELLUS_TRY(cache.reserve_text(1));
  int32_t slot = 0;
  s.new_runs.data[row] = cache.text_place(cache.text_slots(), &slot);
  s.new_slots.data[row] = slot;
  s.tokens.data[row] = session.unread_token_;
  s.positions.data[row] = static_cast<int32_t>(session.next_position_);
  // The token attends to itself: its slot is live in this step's runs before it is in the cache's.
  for (int32_t r = 0; r < cache.run_count(); ++r) {
    KvRun run = cache.runs()[r];
    if (run.data == s.new_runs.data[row].data) run.slots = slot + 1;
    s.runs.data[(*run_count)++] = run;
  }
  s.run_begin.data[row + 1] = static_cast<int32_t>(*run_count);
  return {};
}

/// One token further for every active session.
Status Generation::step() {
  const DecodeScratch& s = scratch_.step;
  int64_t rows = 0;
  int64_t run_count = 0;
  s.run_begin.data[0] = 0;
  for (int32_t i = 0; i < count_; ++i) {
    if (!active(i)) continue;
    Status status = sessions_[i]->stop_.check();
    if (status.ok()) status = prepare_row(i, rows, &run_count);
    if (status.ok()) {
      ++rows;
      continue;
    }
    finish(i, stop_for(status));
    if (status.code() != Code::kFull && result_.ok()) result_ = status;
  }
  if (rows == 0) return {};
  OCELLUS_TRY(enqueue_decode_step(engine_.text(), rows, s, step_signal(), engine_.queue()));
  int64_t row = 0;
  for (int32_t i = 0; i < count_; ++i) {
    if (!active(i)) continue;
    Session& session = *sessions_[i];
    session.cache().commit_text(1);
    session.unread_token_ = kNoToken;
    session.has_answerable_ = false;  // the last hidden row is the prompt's, and the answer has moved on
    ++session.next_position_;
    OCELLUS_TRY(choose_token(i, s.logits.row(row++)));
  }
  engine_.note_cache_use();
  return {};
}

void Generation::summarise(int32_t i) {
  Session& session = *sessions_[i];
  ocellus_generate_stats& s = stats_[i];
  s.image_count = session.cache().image_count();
  s.image_tokens = session.prompt_.image_rows;
  s.prompt_tokens = session.prompt_.rows;
  s.preprocess_ms = session.prompt_.preprocess_ms;
  s.encode_ms = session.prompt_.encode_ms;
  s.prefill_ms = session.prompt_.prefill_ms;
  s.first_token_ms += s.preprocess_ms + s.encode_ms + s.prefill_ms;
  s.kv_bytes = session.cache().bytes();
  s.kv_bytes_full = session.cache().bytes();
  session.prompt_ = PromptStats();
}

Status Generation::run() {
  for (int32_t i = 0; i < count_; ++i) {
    StopSignal& stop = sessions_[i]->stop_;
    session_deadlines_[i] = stop.deadline_ns();
    if (params_[i].deadline_ns != 0) stop.set_deadline(params_[i].deadline_ns);
    stats_[i] = {};
    stats_[i].stop = OCELLUS_STOP_FAILED;
  }
  for (int32_t i = 0; i < count_; ++i) {
    const Status status = read_prompt(i);
    active_[i] = status.ok() && params_[i].max_tokens > 0;
    stats_[i].stop = status.ok() ? OCELLUS_STOP_MAX_TOKENS : stop_for(status);
    if (status.ok()) continue;
    // The others of a batch go on, as they do when one of them is stopped later.
    sessions_[i]->forget_prompt();
    if (result_.ok()) result_ = status;
  }
  const ArenaScope scope(engine_.arena());
  OCELLUS_TRY(scratch_.lay_out(engine_.model(), engine_.shape(), engine_.arena()));
  const int64_t start = now_ns();
  Status status;
  if (active_count() > 0) status = first_tokens();
  const int64_t first = now_ns();
  float* times = engine_.memory().token_times.data;
  for (int64_t before = first; status.ok() && active_count() > 0;) {
    status = step();
    const int64_t now = now_ns();
    if (timed_tokens_ < engine_.memory().token_times.cols)
      times[timed_tokens_++] = static_cast<float>(elapsed_ms(before, now));
    before = now;
  }
  for (int32_t i = 0; i < count_; ++i) {
    stats_[i].first_token_ms = elapsed_ms(start, first);
    stats_[i].decode_ms = elapsed_ms(first, now_ns());
    if (i == 0) summarise_times(times, timed_tokens_, &stats_[0]);
    stats_[i].token_median_ms = stats_[0].token_median_ms;
    stats_[i].token_p95_ms = stats_[0].token_p95_ms;
  }
  return result_.ok() ? status : result_;
}

void Generation::settle(Status status) {
  engine_.queue().clear();
  for (int32_t i = 0; i < count_; ++i) {
    if (active(i)) {
      sessions_[i]->cache().drop_uncommitted();
      finish(i, stop_for(status));
    }
    summarise(i);
    StopSignal& stop = sessions_[i]->stop_;
    stop.set_deadline(session_deadlines_[i]);
    if (stats_[i].stop == OCELLUS_STOP_CANCELLED) stop.acknowledge();
    sessions_[i]->set_checkpoint();
  }
}

Status generate(Session* const* sessions, const ocellus_generate_params* params, ocellus_generate_stats* stats,
                int32_t count) {
  if (count < 1 || count > kMaxSessions)
    return OCELLUS_FAIL(Code::kBadArgument, "between 1 and %d sessions can be decoded together, not %d", kMaxSessions,
                        count);
  for (int32_t i = 0; i < count; ++i) {
    OCELLUS_TRY(check_params(params[i]));
    if (&sessions[i]->engine() != &sessions[0]->engine())
      return OCELLUS_FAIL(Code::kBadArgument, "sessions that are decoded together must belong to one engine");
    for (int32_t k = 0; k < i; ++k)
      if (sessions[k] == sessions[i]) return OCELLUS_FAIL(Code::kBadArgument, "a session was given twice");
  }
  Generation generation(sessions, params, stats, count);
  const Status status = generation.run();
  generation.settle(status);
  if (!status.ok() && last_failure().code != status.code())
    return OCELLUS_FAIL(status.code(), "one of the sessions was stopped: %s", code_name(status.code()));
  return status;
}

}  // namespace ocellus
