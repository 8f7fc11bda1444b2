#include "runtime/session/session.h"

#include "runtime/engine/engine.h"
#include "runtime/engine/picture_source.h"

namespace ocellus {

void Session::open(Engine& engine, int32_t slot) {
  conversation_.open(engine, slot, pictures_);
  open_ = true;
  room_.roll(0, 0);
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
  if (policy.lists_chunks() || policy.waits_for_prompt() || policy.packs_oldest() || policy.facts.answers.drops_slots ||
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

Status Session::set_store(PictureStore* store, std::string_view owner) {
  OwnerName name;
  const bool is_named = store != nullptr || !owner.empty();
  if (is_named && (!is_owner_name(owner) || !name.assign(owner)))
    return OCELLUS_FAIL(Code::kBadArgument, "an owner has 1 to 64 characters of A-Z, a-z, 0-9, '.', '_' and '-'");
  if (PictureLinks* const links = conversation_.links()) links->set_store(store, name);
  return {};
}

Status Session::acknowledge_cancel(Status status) {
  if (status.code() == Code::kCancelled) stop_signal().acknowledge();
  return status;
}

Status Session::add_system(std::string_view text) {
  OCELLUS_TRY(prompt_.text().begin_message(Role::kSystem));
  OCELLUS_TRY(prompt_.text().add(text, false));
  return prompt_.text().end_message();
}

Status Session::add_frame(const Frame& frame) {
  return prompt_.add_picture({.frame = &frame, .width = frame.width, .height = frame.height});
}

Status Session::add_encoded_image(const uint8_t* bytes, int64_t byte_count) {
  ImageFacts facts;
  OCELLUS_TRY(probe_image(bytes, byte_count, engine().shape().pictures.limits, &facts));
  return prompt_.add_picture(encoded_picture(bytes, byte_count, facts));
}

}  // namespace ocellus
