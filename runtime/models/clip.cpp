#include "runtime/models/clip.h"

#include <array>
#include <cmath>

#include "runtime/models/family.h"
#include "runtime/models/model.h"

namespace ocellus {
namespace {

bool is_time(double seconds) { return seconds >= 0 && seconds < kMaxClipSeconds; }

Status check_time(const char* what, double seconds) {
  if (is_time(seconds)) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "%s must be 0 to less than %.0f seconds, not %g", what, kMaxClipSeconds,
                      seconds);
}

/// The times of a clip whose frames all come as late as they may.
constexpr auto kLatest = [] {
  std::array<double, kMaxClipFrames> times{};
  times.fill(kMaxClipSeconds - 1);
  return times;
}();

}  // namespace

ClipRules clips_of(const VisionConfig& vision) {
  const Family* const family = family_of(vision);
  return family == nullptr ? ClipRules() : family->clips;
}

Status clip_rules(const Model& model, const ClipRules** out) {
  const Family* const family = model.has_vision() ? family_of(model.vision()) : nullptr;
  *out = family == nullptr ? nullptr : &family->clips;
  if (family != nullptr && family->clips.most_frames > 0) return {};
  return OCELLUS_FAIL(Code::kUnsupported, "%s takes no clips: add the frames as pictures",
                      family == nullptr ? "a model without a vision part" : family->name);
}

Status count_clip_tokens(const Model& model, int32_t frames, int64_t* out) {
  const ClipRules* rules = nullptr;
  OCELLUS_TRY(clip_rules(model, &rules));
  // A smaller number of frames may have longer words, but then fewer frames have a text.
  const ClipTimes longest{frames, kLatest.data(), kLatest.back()};
  const auto count = [&](const char* text, int64_t times) {
    int64_t tokens = 0;
    OCELLUS_TRY(model.count_tokens(text, true, &tokens));
    *out += times * tokens;
    return Status();
  };
  *out = 0;
  for (const char* text : rules->after) OCELLUS_TRY(count(text, 1));
  if (rules->write_before == nullptr) return {};
  ClipText before;
  rules->write_before(longest, 0, &before);
  OCELLUS_TRY(count(before.text, 1));
  rules->write_before(longest, frames - 1, &before);
  const int32_t others = rules->group_count(frames) - 1;
  return others > 0 ? count(before.text, others) : Status();
}

Status sample_clip(const Model& model, int32_t sampling, int32_t frame_count, double duration, int32_t most,
                   int32_t* indices, int32_t* count) {
  const ClipRules* rules = nullptr;
  OCELLUS_TRY(clip_rules(model, &rules));
  if (frame_count < 1) return OCELLUS_FAIL(Code::kBadArgument, "a video has at least one frame, not %d", frame_count);
  if (most < 1 || most > kMaxClipFrames)
    return OCELLUS_FAIL(Code::kBadArgument, "a clip has 1 to %d frames, not %d", kMaxClipFrames, most);
  OCELLUS_TRY(check_time("the duration of a video", duration));
  if (sampling != OCELLUS_CLIP_AS_AUTHORS && sampling != OCELLUS_CLIP_AS_TRANSFORMERS)
    return OCELLUS_FAIL(Code::kBadArgument, "no rule for the frames of a clip has the number %d", sampling);
  const bool other = sampling == OCELLUS_CLIP_AS_TRANSFORMERS && rules->sample_as_transformers != nullptr;
  *count = (other ? rules->sample_as_transformers : rules->sample)(frame_count, duration, most, indices);
  return {};
}

Status check_clip_times(const ClipTimes& clip) {
  if (clip.frame_count < 1 || clip.frame_count > kMaxClipFrames)
    return OCELLUS_FAIL(Code::kBadArgument, "a clip has 1 to %d frames, not %d", kMaxClipFrames, clip.frame_count);
  OCELLUS_TRY(check_time("the duration of a clip", clip.duration));
  for (int32_t i = 0; i < clip.frame_count; ++i) {
    OCELLUS_TRY(check_time("the time of a clip's frame", clip.seconds[i]));
    if (i > 0 && clip.seconds[i] < clip.seconds[i - 1])
      return OCELLUS_FAIL(Code::kBadArgument, "the times of a clip go back: frame %d at %g s, frame %d at %g s", i,
                          clip.seconds[i - 1], i + 1, clip.seconds[i]);
  }
  const double last = clip.seconds[clip.frame_count - 1];
  if (clip.duration > 0 && last > clip.duration)
    return OCELLUS_FAIL(Code::kBadArgument, "a clip of %g s has a frame at %g s", clip.duration, last);
  return {};
}

}  // namespace ocellus
