// A prompt that is added as a whole: its pictures are known before the first one is computed, so that stored ones are
// read ahead.
#include <algorithm>
#include <cstdio>

#include "runtime/engine/engine.h"
#include "runtime/engine/picture_source.h"
#include "runtime/models/clip.h"
#include "runtime/session/api_frame.h"
#include "runtime/session/session.h"

namespace ocellus {
namespace {

/// "frame 3 of the clip: ..." or "frames 3 and 4 of the clip: ..."
Status name_frames(const Status& status, int32_t first, int32_t count = 1) {
  char place[48];
  if (count == 1)
    std::snprintf(place, sizeof place, "frame %d of the clip", first + 1);
  else
    std::snprintf(place, sizeof place, "frames %d and %d of the clip", first + 1, first + 2);
  return prefix_failure(status, place);
}

ClipTimes times_of(const ocellus_clip& clip) { return {clip.frame_count, clip.seconds, clip.duration}; }

Status check_part(const ocellus_part& part);

Status check_clip(const ocellus_clip* clip) {
  if (clip == nullptr) return OCELLUS_FAIL(Code::kBadArgument, "a part that is a clip has none");
  if (clip->frame_count > 0 && (clip->frames == nullptr || clip->seconds == nullptr))
    return OCELLUS_FAIL(Code::kBadArgument, "a clip has frames and their times, not null");
  OCELLUS_TRY(check_clip_times(times_of(*clip)));
  for (int32_t i = 0; i < clip->frame_count; ++i) {
    const ocellus_part& frame = clip->frames[i];
    if (frame.kind != OCELLUS_PART_IMAGE && frame.kind != OCELLUS_PART_FRAME)
      return OCELLUS_FAIL(Code::kBadArgument, "frame %d of the clip is no picture but a part of kind %d", i + 1,
                          frame.kind);
    OCELLUS_TRY(name_frames(check_part(frame), i));
  }
  return {};
}

Status check_part(const ocellus_part& part) {
  if (part.kind < OCELLUS_PART_TEXT || part.kind > OCELLUS_PART_ENTRY)
    return OCELLUS_FAIL(Code::kBadArgument, "a part of kind %d does not exist", part.kind);
  if (part.kind == OCELLUS_PART_CLIP) return check_clip(part.clip);
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
  } else {
    ImageFacts facts;
    const auto* const bytes = static_cast<const uint8_t*>(part.bytes);
    OCELLUS_TRY(probe_image(bytes, part.byte_count, limits, &facts));
    *out = encoded_picture(bytes, part.byte_count, facts);
  }
  out->is_overview = (part.flags & OCELLUS_IMAGE_OVERVIEW) != 0;
  return {};
}

/// Consecutive frames of a clip that are one picture; stays where it is.
struct FrameGroup {
  Frame frames[2];
  Picture pictures[2];
  int32_t count = 0;
};

Status read_group(const ocellus_clip& clip, int32_t first, const PictureShape& shape, FrameGroup* group) {
  group->count = std::min(shape.clip_group, clip.frame_count - first);
  for (int32_t i = 0; i < group->count; ++i) {
    Picture& picture = group->pictures[i];
    const Status status = to_picture(clip.frames[first + i], shape.limits, &group->frames[i], &picture);
    OCELLUS_TRY(name_frames(status, first + i));
    picture.is_of_clip = true;
  }
  if (group->count > 1) group->pictures[0].next = &group->pictures[1];
  return {};
}

/// The size is that of the clip's first frame, or none.
Status check_sizes(const FrameGroup& group, int32_t first, Size size) {
  for (int32_t i = 0; i < group.count; ++i) {
    const Picture& frame = group.pictures[i];
    if (size == Size{} || size == Size{frame.width, frame.height}) continue;
    return OCELLUS_FAIL(Code::kBadImage,
                        "frame %d of the clip is %d x %d pixels and frame 1 is %d x %d: this model takes clips with "
                        "frames of one size",
                        first + i + 1, frame.width, frame.height, size.width, size.height);
  }
  return {};
}

/// Calls use(group, index of its first frame) for the groups of a clip, and names the frames of a failure.
template <class Use>
Status for_each_group(const ocellus_clip& clip, const PictureShape& shape, Use use) {
  Size size;
  for (int32_t first = 0; first < clip.frame_count; first += shape.clip_group) {
    FrameGroup group;
    OCELLUS_TRY(read_group(clip, first, shape, &group));
    if (shape.clip_group > 1 && first == 0) size = {group.pictures[0].width, group.pictures[0].height};
    OCELLUS_TRY(check_sizes(group, first, size));
    OCELLUS_TRY(name_frames(use(group.pictures[0], first), first, group.count));
  }
  return {};
}

bool looks_ahead(Session& session) {
  const PictureLinks* const links = session.conversation().links();
  return links != nullptr && links->looks_ahead();
}

Status look_ahead(Session& session, const Picture& picture) {
  ViewPlan plan;
  OCELLUS_TRY(session.stop_signal().check());
  OCELLUS_TRY(plan_picture(session.engine().shape().pictures, picture, &plan));
  return session.conversation().links()->look_ahead(picture, plan);
}

Status look_ahead(Session& session, const ocellus_part& part) {
  if (part.kind == OCELLUS_PART_TEXT || part.kind == OCELLUS_PART_ENTRY || !looks_ahead(session)) return {};
  const PictureShape& pictures = session.engine().shape().pictures;
  if (part.kind == OCELLUS_PART_CLIP)
    return for_each_group(*part.clip, pictures, [&](const Picture& picture, int32_t) {
      return looks_ahead(session) ? look_ahead(session, picture) : Status();
    });
  Frame frame;
  Picture picture;
  OCELLUS_TRY(to_picture(part, pictures.limits, &frame, &picture));
  return look_ahead(session, picture);
}

/// Adds the frames as pictures, between the family's texts.
Status add_clip(Session& session, const ocellus_clip& clip, bool is_numbered) {
  const ClipRules* rules = nullptr;
  OCELLUS_TRY(clip_rules(session.engine().model(), &rules));
  const PictureShape& pictures = session.engine().shape().pictures;
  if (clip.frame_count > pictures.clip_frames)
    return OCELLUS_FAIL(Code::kFull, "a clip has %d %s, and %d were planned: plan more frames of clips",
                        clip.frame_count, clip.frame_count == 1 ? "frame" : "frames", pictures.clip_frames);
  const ClipTimes times = times_of(clip);
  const int32_t groups = rules->group_count(clip.frame_count);
  OCELLUS_TRY(session.prompt().text().begin_clip(is_numbered));
  const auto add_group = [&](Picture picture, int32_t first) {
    if (rules->time_step != nullptr) picture.time = {first / rules->group, groups, rules->time_step(times)};
    if (rules->write_before != nullptr) {
      ClipText before;
      rules->write_before(times, first, &before);
      OCELLUS_TRY(session.prompt().text().add_words(before.text));
    }
    return session.prompt().add_picture(picture);
  };
  OCELLUS_TRY(for_each_group(clip, pictures, add_group));
  for (const char* text : rules->after)
    if (text[0] != '\0') OCELLUS_TRY(session.prompt().text().add_words(text));
  return session.prompt().text().end_clip(is_numbered);
}

Status add_part(Session& session, const ocellus_part& part) {
  const auto size = static_cast<size_t>(part.byte_count);
  if (part.kind == OCELLUS_PART_TEXT)
    return session.add_text({static_cast<const char*>(part.bytes), size},
                            (part.flags & OCELLUS_TEXT_PARSE_SPECIAL) != 0);
  const bool is_numbered = (part.flags & OCELLUS_IMAGE_NUMBERED) != 0;
  if (part.kind == OCELLUS_PART_CLIP) return add_clip(session, *part.clip, is_numbered);
  if (part.kind == OCELLUS_PART_ENTRY)
    return session.prompt().add_named_picture({static_cast<const char*>(part.bytes), size}, is_numbered);
  Frame frame;
  Picture picture;
  OCELLUS_TRY(to_picture(part, session.engine().shape().pictures.limits, &frame, &picture));
  return session.prompt().add_picture(picture, is_numbered);
}

}  // namespace

Status Session::add_parts(const ocellus_part* parts, int32_t count, int32_t* failed) {
  *failed = -1;
  for (int32_t i = 0; i < count; ++i)
    if (const Status status = check_part(parts[i]); !status.ok()) {
      *failed = i;
      return status;
    }
  OCELLUS_TRY(prompt_.start());
  const KeptText kept(conversation_);
  const Checkpoint before = prompt_.mark();
  Status status;
  for (int32_t i = 0; i < count && status.ok(); ++i)
    if (status = look_ahead(*this, parts[i]); !status.ok()) *failed = i;
  for (int32_t i = 0; i < count && status.ok(); ++i)
    if (status = add_part(*this, parts[i]); !status.ok()) *failed = i;
  if (PictureLinks* const links = conversation_.links()) links->forget_ahead();
  if (!status.ok()) prompt_.go_back(before);
  return status;
}

}  // namespace ocellus
