// A prompt that is added as a whole: its pictures are known before the first one is computed, so that the library's
// entries are read meanwhile.
#include "runtime/engine/engine.h"
#include "runtime/engine/picture_source.h"
#include "runtime/session/api_frame.h"
#include "runtime/session/session.h"

namespace ocellus {
namespace {

Status check_part(const ocellus_part& part) {
  if (part.kind < OCELLUS_PART_TEXT || part.kind > OCELLUS_PART_FRAME)
    return OCELLUS_FAIL(Code::kBadArgument, "a part of kind %d does not exist", part.kind);
  if (part.kind == OCELLUS_PART_FRAME) {
    if (part.frame == nullptr) return OCELLUS_FAIL(Code::kBadArgument, "a part that is a frame has none");
  } else if (part.byte_count < 0 || (part.bytes == nullptr && part.byte_count > 0)) {
    return OCELLUS_FAIL(Code::kBadArgument, "a part of a prompt has no %lld bytes",
                        static_cast<long long>(part.byte_count));
  }
  return {};
}

/// `frame` holds what the picture points to.
Status to_picture(const ocellus_part& part, const ImageLimits& limits, Frame* frame, Picture* out) {
  if (part.kind == OCELLUS_PART_FRAME) {
    OCELLUS_TRY(to_frame(*part.frame, frame));
    *out = {.frame = frame, .width = frame->width, .height = frame->height};
    return {};
  }
  ImageFacts facts;
  const auto* const bytes = static_cast<const uint8_t*>(part.bytes);
  OCELLUS_TRY(probe_image(bytes, part.byte_count, limits, &facts));
  *out = encoded_picture(bytes, part.byte_count, facts);
  return {};
}

}  // namespace

/// The session before a prompt was added.
struct Session::AddMark {
  PromptChunk::Mark chunk;
  int32_t image = 0;
  bool text_started = false;
  int64_t recent_count = 0;
  uint64_t prefix_hash = 0;
};

Status Session::add_parts(const ocellus_part* parts, int32_t count, int32_t* failed) {
  *failed = -1;
  for (int32_t i = 0; i < count; ++i)
    if (const Status status = check_part(parts[i]); !status.ok()) {
      *failed = i;
      return status;
    }
  OCELLUS_TRY(start_adding());
  const AddMark mark{engine_->memory().chunk.mark(), next_image(), text_started_, recent_count_, prefix_hash_};
  chunk_was_read_ = false;
  Status status;
  for (int32_t i = 0; i < count && status.ok(); ++i)
    if (status = look_ahead(parts[i]); !status.ok()) *failed = i;
  for (int32_t i = 0; i < count && status.ok(); ++i)
    if (status = add_part(parts[i]); !status.ok()) *failed = i;
  if (library_ != nullptr) engine_->pictures_ahead().clear(engine_->library_traffic());
  if (!status.ok()) take_back(mark);
  return status;
}

/// Identifies a picture, and starts the loads that there is room for. Where images are read in context, what stands
/// before them is part of what they are, and not known yet.
Status Session::look_ahead(const ocellus_part& part) {
  const EngineShape& shape = engine_->shape();
  PicturesAhead& ahead = engine_->pictures_ahead();
  if (library_ == nullptr || shape.in_context || part.kind == OCELLUS_PART_TEXT || !ahead.has_room()) return {};
  Frame frame;
  Picture picture;
  ViewPlan plan;
  EntryFacts facts;
  OCELLUS_TRY(stop_.check());
  OCELLUS_TRY(to_picture(part, shape.image_limits, &frame, &picture));
  OCELLUS_TRY(check_image_size(shape.image_limits, "picture", picture.width, picture.height));
  OCELLUS_TRY(plan_views(shape.preprocess, picture.width, picture.height, &plan));
  OCELLUS_TRY(describe_entry(picture, plan, &facts));
  ahead.add(facts);
  ahead.start_loads(wish_for({}), engine_->library_traffic(), engine_->queue());
  return {};
}

Status Session::add_part(const ocellus_part& part) {
  const auto size = static_cast<size_t>(part.byte_count);
  if (part.kind == OCELLUS_PART_TEXT)
    return add_text({static_cast<const char*>(part.bytes), size}, (part.flags & OCELLUS_TEXT_PARSE_SPECIAL) != 0);
  Frame frame;
  Picture picture;
  OCELLUS_TRY(to_picture(part, engine_->shape().image_limits, &frame, &picture));
  return add_picture(picture);
}

/// Where nothing was read meanwhile the session is as it was; else what was added since the last generate goes.
void Session::take_back(const AddMark& mark) {
  if (chunk_was_read_) return forget_prompt();
  EngineMemory& memory = engine_->memory();
  engine_->queue().join_transfers();
  const int32_t images = engine_->shape().links ? next_image() : mark.image;
  memory.chunk.rewind(mark.chunk);
  memory.waiting_views.forget_from(mark.chunk.row_count);
  for (int32_t i = mark.image; i < images; ++i) cache().release_reserved_image();
  text_started_ = mark.text_started;
  prefix_hash_ = mark.prefix_hash;
  forget_recent_tokens(mark.recent_count);
}

}  // namespace ocellus
