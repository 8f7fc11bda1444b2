#include "runtime/session/conversation.h"

#include <algorithm>

#include "runtime/cache/kept_states.h"
#include "runtime/engine/engine.h"

namespace ocellus {
namespace {

int32_t* marked_tokens(const Conversation& conversation) {
  Engine& engine = conversation.engine();
  return engine.memory().recent_tokens.row(engine.shape().sessions + conversation.slot());
}

}  // namespace

void PromptStats::report(ocellus_generate_stats* out) const {
  out->image_tokens = image_rows;
  out->prompt_tokens = rows;
  out->shared_image_hits = shared_image_hits;
  store.report(out);
  out->encoded_views = views.encoded;
  out->known_views = views.known;
  out->preprocess_ms = preprocess_ms;
  out->encode_ms = encode_ms;
  out->prefill_ms = prefill_ms;
  out->first_token_ms += preprocess_ms + encode_ms + prefill_ms;
}

void Conversation::open(Engine& engine, int32_t slot, PictureRows& pictures) {
  engine_ = &engine;
  slot_ = slot;
  stop_.set_deadline(0);
  state_.message.thinks = false;
  const BranchMemory& branches = engine.memory().branches;
  guesser_ = branches.guessing == nullptr ? nullptr : branches.guessing->open(slot);
  links_ = branches.linker == nullptr ? nullptr : branches.linker->open(*this, pictures);
}

void Conversation::reset() {
  cache().reset();
  const bool thinks = state_.message.thinks;
  state_ = {};
  state_.message.thinks = thinks;
  text_floor_ = 0;
  has_ncar_ = has_mark_ = false;
  drawn_count_ = 0;
  stats_ = {};
  characters_.finish();
  set_checkpoint();
  forget_late_cancel();
}

WaitingText Conversation::text() {
  const HostView<std::byte>& texts = engine_->memory().texts;
  return {reinterpret_cast<char*>(texts.row(slot_)), texts.cols, state_.text, text_floor_};
}

SessionCache& Conversation::cache() const { return engine_->memory().caches[slot_]; }

SessionCache& linked_cache(const Conversation& conversation) {
  LinkJoin* const join = conversation.engine().memory().branches.join();
  return join != nullptr ? join->images() : conversation.cache();
}

float* Conversation::last_hidden() const { return engine_->memory().last_hidden.row(slot_); }

const NcarState* Conversation::ncar() const { return has_ncar_ ? engine_->memory().ncar.data + slot_ : nullptr; }

const int32_t* Conversation::recent_tokens() const { return engine_->memory().recent_tokens.row(slot_); }

void Conversation::remember(TokenId token) {
  engine_->memory().recent_tokens.row(slot_)[state_.recent_count++ % kRecentTokens] = token;
}

void Conversation::note_prompt(const TokenId* tokens, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    note_token(tokens[i]);
    state_.prompt_hash = prefix_of(state_.prompt_hash, static_cast<uint64_t>(tokens[i]));
  }
}

void Conversation::note_token(TokenId token) {
  state_.prefix_hash = prefix_of(state_.prefix_hash, static_cast<uint64_t>(token));
  if (guesser_ != nullptr) guesser_->remember(state_.token_count, token);
  ++state_.token_count;
}

void Conversation::begin_guesses(ocellus_draft kind) {
  if (guesser_ != nullptr) guesser_->begin(kind, state_.prompt_hash);
  state_.prompt_hash = kEmptyPrefix;
  state_.answer_begin = state_.token_count;
}

void Conversation::forget_late_cancel() {
  if (!has_prompt_) stop_.acknowledge();
}

void Conversation::begin_prompt() {
  forget_late_cancel();
  has_prompt_ = true;
}

void Conversation::set_checkpoint() {
  has_prompt_ = false;
  checkpoint_ = {.state = state_, .cache = mark_with_state(cache(), place_, engine_->queue())};
}

void Conversation::set_mark() {
  text_floor_ = 0;
  text().settle();
  text_floor_ = state_.text.end;
  set_checkpoint();
  mark_ = checkpoint_;
  mark_.cache = mark_with_state(cache(), KeptState::kMark, engine_->queue());
  has_mark_ = true;
  std::copy_n(recent_tokens(), kRecentTokens, marked_tokens(*this));
}

bool Conversation::go_to_mark() {
  if (!has_mark_ || !cache().can_rewind(mark_.cache)) return false;
  checkpoint_ = mark_;
  go_back();
  std::copy_n(marked_tokens(*this), kRecentTokens, engine_->memory().recent_tokens.row(slot_));
  drawn_count_ = 0;
  stats_ = {};
  characters_.finish();
  forget_late_cancel();
  return true;
}

void Conversation::go_back() {
  // The last hidden row is still the checkpoint's if nothing was read since.
  const bool was_read = state_.next_position != checkpoint_.state.next_position;
  if (!cache().can_rewind(checkpoint_.cache)) {
    checkpoint_ = {};
    text_floor_ = 0;
    has_mark_ = false;
  }
  rewind_with_state(cache(), checkpoint_.cache, engine_->queue());
  restore(checkpoint_.state);
  state_.is_answerable = state_.is_answerable && !was_read;
  has_prompt_ = has_ncar_ = false;
  stats_.rows = stats_.image_rows = 0;
}

/// Clears the remembered tokens after the checkpoint: they have overwritten the oldest ones.
void Conversation::restore(const ConversationState& state) {
  int32_t* const recent = engine_->memory().recent_tokens.row(slot_);
  const int64_t overwritten = std::min<int64_t>(state_.recent_count - state.recent_count, kRecentTokens);
  for (int64_t i = 0; i < overwritten; ++i) recent[(state.recent_count + i) % kRecentTokens] = kNoToken;
  state_ = state;
}

}  // namespace ocellus
