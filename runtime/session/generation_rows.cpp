// The rows of a step: position, attention and sampling of each session of a batch.
#include <algorithm>
#include <bitset>

#include "runtime/forward/sampler.h"
#include "runtime/session/generation.h"

namespace ocellus {
namespace {

/// Without guesses; their rows follow the first `begin`.
GuessRowsArgs guess_args(const StepScratch& s, int64_t begin) {
  GuessRowsArgs args;
  args.steps = s.steps.device.data;
  args.tiles = s.runs.all.device.data;
  args.tiles_per_row = s.runs.all.device.cols;
  args.local_tiles = s.runs.local.device.data;
  args.local_tiles_per_row = s.runs.local.device.cols;
  args.ring_starts = args.local_tiles_per_row > 0 ? s.runs.ring_starts.device.data : nullptr;
  args.begin = static_cast<int32_t>(begin);
  return args;
}

/// True if text is to be packed when `more` tokens have been read. A rolling context's record of its pages does not
/// cover blocks.
bool packs_text(const TextPacker* packer, Session& session, int32_t more) {
  return packer != nullptr && !session.room().is_rolling() && packer->is_due(session.cache(), more);
}

}  // namespace

/// Fills session i's row of the step: its position, its limits, its sampler.
Status Generation::place_row(int32_t i) {
  ConversationState& state = conversation(i).state();
  Room& room = sessions_[i]->room();
  Part& part = parts_[i];
  SessionCache& cache = conversation(i).cache();
  const StepScratch& s = scratch_;
  const int64_t unread = part.goes_on ? 0 : 1;  // the newest token of an answer is not read
  const int64_t whole = std::max<int64_t>(params_[i].max_tokens + part.thought.most_left() - unread, 0);
  const int64_t slice = params_[i].slice_tokens > 0 ? params_[i].slice_tokens - unread : whole;
  const int64_t wanted = std::min(whole, slice);  // tokens to read
  if (Roller* const roller = room.roller()) roller->release_for_answer(room, part.thought.is_ahead() ? whole : wanted);
  cache.move_sinks(state.next_position);
  const SlotDropper* const dropper = engine_.memory().branches.dropper.get();
  part.eviction = dropper != nullptr ? dropper->begin(cache) : StepEviction();
  const int64_t packed = part.eviction.on != 0 ? cache.kept().most_packed() : 0;
  const AnswerRoom left{.text = room.for_text({}), .positions = room.for_positions({}), .packed = packed};
  const auto steps_of = [&](int64_t most) {
    return dropper != nullptr ? dropper->plan(part.eviction, state.next_position, left, most) : left.steps(most);
  };
  if (part.thought.is_ahead()) part.thought.leave_room(steps_of(whole).steps + unread, params_[i].max_tokens);
  const AnswerSteps planned = steps_of(wanted);
  part.most_steps = planned.steps - (part.goes_on ? 1 : 0);
  if (forced_ != nullptr && part.most_steps < forced_->count - 1)
    return OCELLUS_FAIL(Code::kFull, "%d tokens do not fit: the session has room for %lld; plan more text tokens",
                        forced_->count, static_cast<long long>(part.most_steps));
  OCELLUS_TRY(cache.reserve_text(planned.slots));
  OCELLUS_TRY(cache.reserve_spare(planned.spare));

  StepRow& row = s.steps.host.data[part.row];
  row = StepRow();
  list_runs(i);
  row.active = 1;
  row.forced = forced_ != nullptr ? 1 : 0;
  row.masked = part.form != nullptr ? 1 : 0;
  if (part.goes_on) row.token = state.unread_token;
  row.position = part.next.position = static_cast<int32_t>(state.next_position);
  if (s.runs.has_rings()) list_ring(cache.ring(), part.row, s);
  row.eviction = part.next.eviction = part.eviction;
  row.drawn_count = conversation(i).drawn_count();
  row.sampler = sampler_params(params_[i]);
  OCELLUS_TRY(set_logit_biases(params_[i].logit_bias, params_[i].logit_bias_count, engine_.text().config.vocabulary,
                               &row.sampler.biases));
  // Only the position in the ring matters once the ring is full.
  const int64_t rounds = state.recent_count / kRecentTokens;
  row.recent.count =
      static_cast<int32_t>(state.recent_count % kRecentTokens + kRecentTokens * std::min<int64_t>(rounds, 1));
  const int32_t* const recent = conversation(i).recent_tokens();
  std::copy(recent, recent + kRecentTokens, row.recent.tokens);
  part.on_device = true;
  return {};
}

/// Lists the runs that session i's next step attends to, and sets the place of that step's token in the list.
void Generation::list_runs(int32_t i) {
  const SessionCache& cache = sessions_[i]->cache();
  const TileLimits limits = TileLimits::of_steps(engine_.shape().device, cache.shape().scales);
  int32_t first_page = 0;
  cache.list_for_steps(limits, scratch_.runs.all.host.row(parts_[i].row), &first_page);
  StepRow& row = scratch_.steps.host.data[parts_[i].row];
  StepPlace& next = parts_[i].next;
  row.new_tile = next.new_tile = first_page + static_cast<int32_t>(cache.text_slots() / kPageSlots);
  row.new_slot = next.new_slot = static_cast<int32_t>(cache.text_slots() % kPageSlots);
}

bool Generation::has_text_to_pack(int32_t more) const {
  for (int32_t i = 0; i < count_; ++i)
    if (parts_[i].active && packs_text(scratch_.packer, *sessions_[i], more)) return true;
  return false;
}

/// Packs between two steps, while none is running: state of a row that only the device has is kept.
Status Generation::pack_text() {
  const TraceRange range(engine_.trace(), "compress");
  const StepScratch& s = scratch_;
  Queue& queue = engine_.queue();
  for (int32_t i = 0; i < count_; ++i) {
    if (!parts_[i].active || !packs_text(s.packer, *sessions_[i], 0)) continue;
    OCELLUS_TRY(s.packer->pack(engine_.text(), sessions_[i]->cache(), queue));
    const int32_t row = parts_[i].row;
    list_runs(i);
    if (!queue.on_cuda()) continue;
    const StagedRows<KvRun>& runs = s.runs.all;
    queue.copy(runs.device.row(row), runs.host.row(row), runs.host.cols * int64_t{sizeof(KvRun)});
    StepRow& on_device = s.steps.device.data[row];
    queue.copy(&on_device.new_tile, &s.steps.host.data[row].new_tile, sizeof on_device.new_tile);
  }
  return queue.status();
}

/// Lays out the batch: one row for each active session, in order, then inactive rows.
Status Generation::place_rows() {
  const StepScratch& s = scratch_;
  Queue& queue = engine_.queue();
  int32_t rows = 0;
  for (int32_t i = 0; i < count_; ++i) {
    if (!parts_[i].active) continue;
    parts_[i].row = rows++;
    OCELLUS_TRY(place_row(i));
    const bool has_form = parts_[i].form != nullptr;
    const Guesser* const guesser = conversation(i).guesser();
    has_forms_ = has_forms_ || has_form;
    tries_guesses_ = tries_guesses_ || (guesser != nullptr && (guesser->is_on() || has_form || forced_ != nullptr));
  }
  shape_.rows = step_rows(rows, engine_.shape().sessions, engine_.shape().device);
  std::fill(s.steps.host.data + rows, s.steps.host.data + shape_.rows, StepRow());
  queue.upload(s.steps, shape_.rows);
  s.runs.upload(rows, queue);
  if (queue.on_cuda() && s.attend_scratch.data != nullptr)
    queue.fail(queue.cuda()->fill(s.attend_scratch.data, 0, s.attend_scratch.rows * s.attend_scratch.cols));
  return queue.status();
}

/// Makes the next step smaller if enough answers have ended: those that go on move into the first rows. Everything a
/// row needs is on the device, where an earlier step may still be under way. A session whose last result is not read
/// yet may have a token to settle, so its row waits for that.
void Generation::give_up_rows() {
  const auto rows =
      static_cast<int32_t>(std::count_if(parts_, parts_ + count_, [](const Part& part) { return part.on_device; }));
  const int64_t needed = step_rows(rows, engine_.shape().sessions, engine_.shape().device);
  if (rows == 0 || needed >= shape_.rows || rows < active_count()) return;
  const TraceRange range(engine_.trace(), "give up rows");
  settle_rows();
  std::bitset<kMaxSessions> taken;
  for (int32_t i = 0; i < count_; ++i) {
    if (!parts_[i].on_device) parts_[i].row = kNoRow;
    if (parts_[i].on_device && parts_[i].row < rows) taken[static_cast<size_t>(parts_[i].row)] = true;
  }
  int32_t free = 0;
  for (int32_t i = 0; i < count_; ++i) {
    if (parts_[i].row < rows) continue;
    while (taken[static_cast<size_t>(free)]) ++free;
    move_step_row(scratch_, parts_[i].row, free, engine_.queue());
    mark_active(i, false);
    parts_[i].row_before = parts_[i].row;
    parts_[i].row = free++;
    parts_[i].moved_at = started_;
  }
  shape_.rows = needed;
}

/// Writes the masks of the next step: of each session's own row, and of its guesses.
void Generation::write_masks() {
  for (int32_t i = 0; i < count_ && has_forms_; ++i) {
    Part& part = parts_[i];
    if (!part.on_device || !part.active || part.form == nullptr) continue;
    if (part.thought.next() != kNoToken) continue;
    if (part.thought.is_open()) {
      part.form->write_thought_mask(scratch_.sampling.masks.row(part.row), scratch_.sampling.masks.cols);
      continue;
    }
    const TokenId thought = part.thought.is_ahead() ? engine_.model().thought_marks().begin_token() : kNoToken;
    const int64_t begin = now_ns();
    const Status status =
        part.form->write_masks(part.row, part.guesses, guessed_tokens_, thought, scratch_.sampling.masks);
    stats_[i].constraint_ms += elapsed_ms(begin, now_ns());
    if (status.ok()) continue;
    finish(i, stop_for(status), status);
    part.on_device = false;
    mark_active(i, false);
  }
}

/// Places guessed tokens, as much as there is room for in the session and in the step: more rows, of all
/// sessions together, would round differently.
void Generation::place_guesses() {
  guessed_rows_ = 0;
  for (int32_t i = 0; i < count_; ++i) parts_[i].guesses = {};
  if (!tries_guesses_) return;
  const EngineShape& shape = engine_.shape();
  const int64_t share = std::min((shape.guessing_rows - shape_.rows) / active_count(), shape.answer_rows - 1);
  GuessRowsArgs args = guess_args(scratch_, shape_.rows);
  for (int32_t i = 0; i < count_; ++i) {
    Part& part = parts_[i];
    if (!part.on_device || !part.thought.is_past()) continue;
    const int64_t room = part.most_steps - started_ - part.gained;
    const int64_t wanted = int64_t{params_[i].max_tokens} - stats_[i].generated_tokens - 1;
    const auto most = static_cast<int32_t>(std::max<int64_t>(std::min({share, room, wanted}), 0));
    if (most == 0) continue;
    const int64_t rows = shape_.rows + guessed_rows_;
    GuessedRows& guesses = part.guesses;
    guesses = {.of = part.row, .first = static_cast<int32_t>(rows)};
    Status status;
    if (forced_ != nullptr) {
      // They are right; what each of their rows gives is the one after it.
      const TokenId* const given = forced_->tokens + started_ + part.gained;
      std::copy_n(given, most, args.tokens + rows);
      std::copy_n(given + 1, most, scratch_.sampling.forced.row(started_ % kResultSteps) + rows);
      guesses.count = most;
    } else {
      status = conversation(i).guesser()->propose(most, rows, part.form, &args.tokens[rows], &guesses.count);
    }
    if (!status.ok()) finish(i, stop_for(status), status);
    guessed_rows_ += guesses.count;
    stats_[i].drafted_tokens += guesses.count;
    if (shape.kv.local.window > 0) conversation(i).cache().ring().reserve(1 + guesses.count);
    if (guesses.count > 0) args.guesses[args.sessions++] = guesses;
  }
  if (guessed_rows_ == 0) return;
  args.end = static_cast<int32_t>(recorded_rows(shape_.rows + guessed_rows_, shape.step_rows, shape.device));
  std::copy(std::begin(args.tokens), std::end(args.tokens), guessed_tokens_);
  guess_rows(args, engine_.queue());
}

}  // namespace ocellus
