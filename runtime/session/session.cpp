#include "runtime/session/session.h"

#include "runtime/engine/engine.h"
#include "runtime/engine/picture_source.h"
#include "runtime/session/synthetic_image.h"

namespace ocellus {

void Session::open(Engine& engine, int32_t slot) {
  conversation_.open(engine, slot);
  open_ = true;
  reuse_.reset();
  room_.stop_rolling();
  reset();
}

void Session::close() {
  reset();
  open_ = false;
  engine().give_slot_back(index());
}

void Session::reset() {
  prompt_.reset();
  conversation_.reset();
}

Status Session::mark() {
  const CachePolicy& policy = engine().shape().policy;
  if (policy.lists_chunks() || policy.waits_for_prompt() || policy.packs_oldest() || policy.evicts_answers() ||
      room_.is_rolling())
    return OCELLUS_FAIL(Code::kUnsupported,
                        "the beginning of this conversation changes when more is read: plan no eviction, calibquant or "
                        "kivi (evict, kv_scheme) and no rolling context, or read it again");
  OCELLUS_TRY(prompt_.start());
  OCELLUS_TRY(prompt_.read());
  conversation_.set_mark();
  return {};
}

bool Session::rewind() {
  prompt_.reset();
  const bool found = !room_.is_rolling() && conversation_.go_to_mark();
  if (!found) reset();
  return found;
}

Status Session::acknowledge_cancel(Status status) {
  if (status.code() == Code::kCancelled) stop_signal().acknowledge();
  return status;
}

Status Session::add_system(std::string_view text) {
  OCELLUS_TRY(begin_message(Role::kSystem));
  OCELLUS_TRY(prompt_.add_text(text, false));
  return prompt_.end_message();
}

Status Session::begin_message(Role role) {
  const ConversationState& state = conversation_.state();
  if (role == Role::kSystem && state.has_text && !state.message.any)
    return OCELLUS_FAIL(Code::kBadArgument, "the system prompt comes before everything else: reset the session first");
  OCELLUS_TRY(prompt_.begin_message(role));
  conversation_.state().thought = {};
  return {};
}

Status Session::open_answer() {
  OCELLUS_TRY(prompt_.open_answer());
  conversation_.state().thought = engine().model().thought_marks().begin();
  return {};
}

/// All that comes before the text after which the model answers may have to be read and compressed before it.
Status Session::end_turn() {
  const CachePolicy& policy = engine().shape().policy;
  if (!policy.compresses() || policy.when != CompressAt::kBeforeSuffix) {
    OCELLUS_TRY(prompt_.end_message());
    return open_answer();
  }
  const PromptLayout& layout = engine().model().layout();
  const char* const text = layout.text_before_answer(conversation_.state().message.thinks);
  if (text[0] != '\0') OCELLUS_TRY(prompt_.end_message());
  OCELLUS_TRY(prompt_.add_closing(text[0] != '\0' ? text : layout.user.after));
  conversation_.state().message.open_answer();
  conversation_.state().thought = engine().model().thought_marks().begin();
  return {};
}

Status Session::let_think(bool thinks) {
  const ConversationState& state = conversation_.state();
  if (state.has_text || state.message.any)
    return OCELLUS_FAIL(Code::kBadArgument, "a model is told to think before everything else: reset the session first");
  conversation_.state().message.thinks = thinks;
  return {};
}

Status Session::add_frame(const Frame& frame) {
  return prompt_.add_picture({.frame = &frame, .width = frame.width, .height = frame.height});
}

Status Session::add_encoded_image(const uint8_t* bytes, int64_t byte_count) {
  ImageFacts facts;
  OCELLUS_TRY(probe_image(bytes, byte_count, engine().shape().pictures.limits, &facts));
  return prompt_.add_picture(encoded_picture(bytes, byte_count, facts));
}

Status Session::add_synthetic_image() {
  const TraceRange range(engine().trace(), "add image");
  const EngineShape& shape = engine().shape();
  const int32_t tokens = shape.session.synthetic_tokens;
  if (tokens == 0) return OCELLUS_FAIL(Code::kFull, "no synthetic tokens were planned: plan some");
  OCELLUS_TRY(prompt_.start());
  OCELLUS_TRY(prompt_.read());
  OCELLUS_TRY(room_.check({.images = 1, .positions = tokens}, {}));
  int32_t ordinal = 0;
  OCELLUS_TRY(cache().reserve_image(&ordinal));
  const Status status = fill_synthetic_image(cache(), ordinal, engine().queue());
  if (!status.ok()) {
    engine().queue().clear();
    cache().drop_uncommitted();
    return status;
  }
  ConversationState& state = conversation_.state();
  cache().note_image_position(ordinal, state.next_position);
  cache().commit_image(ordinal, shape.kv.image_slots, tokens);
  state.next_position += tokens;
  state.row_count += tokens;
  state.is_answerable = false;
  engine().note_cache_use();
  return {};
}

}  // namespace ocellus
