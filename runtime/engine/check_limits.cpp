#include "runtime/engine/check_limits.h"

#include "runtime/engine/branch.h"
#include "runtime/engine/engine_shape.h"
#include "runtime/models/family.h"

namespace ocellus {
namespace {

// Like kMaxSessions and kMaxImages, for limits used in this file only.
constexpr int64_t kMaxPixels = int64_t{1} << 28;
constexpr int64_t kMaxWholePixels = 2 * kMaxPixels;  // progressive CMYK

/// Checks which views are kept.
Status check_views(const ocellus_limits& limits) {
  OCELLUS_TRY(check_range("the views that are kept", limits.kept_views, 0, OCELLUS_MOST_KEPT_VIEWS));
  if (!(limits.view_change >= 0 && limits.view_change <= 1))
    return OCELLUS_FAIL(Code::kBadArgument, "the change of a view (view_change) must be between 0 and 1, not %g",
                        static_cast<double>(limits.view_change));
  if (limits.view_change > 0 && limits.kept_views == 0)
    return OCELLUS_FAIL(Code::kBadArgument,
                        "views are compared with those that are kept (view_change): plan some (kept_views)");
  return {};
}

Status check_picture_sizes(const ocellus_limits& limits) {
  OCELLUS_TRY(check_range("the pixels of a picture", limits.max_image_pixels, 1, kMaxPixels));
  OCELLUS_TRY(check_range("the pixels of a picture on the device", limits.max_gpu_pixels, 0, kMaxPixels));
  OCELLUS_TRY(
      check_range("the pixels of a picture that is decoded as a whole", limits.max_whole_pixels, 0, kMaxWholePixels));
  OCELLUS_TRY(check_range("the longest side of a picture", limits.max_image_side, 0, kMostImageSide));
  return check_depth({limits.depth_near, limits.depth_far});
}

}  // namespace

Status check_range(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "%s must be between %lld and %lld, not %lld", name,
                      static_cast<long long>(least), static_cast<long long>(most), static_cast<long long>(value));
}

/// As if all frames were those of one clip.
int32_t planned_images(const Model& model, const ocellus_limits& limits) {
  const int32_t group = model.has_vision() ? clips_of(model.vision()).group : 1;
  return limits.max_images + divide_up(limits.max_clip_frames, group);
}

Status check_limits(const Model& model, const ocellus_limits& limits) {
  if (limits.struct_bytes != sizeof limits)
    return OCELLUS_FAIL(Code::kBadArgument, "the limits were not set up by ocellus_limits_init");
  OCELLUS_TRY(check_range("the device", limits.device, OCELLUS_DEVICE_AUTO, OCELLUS_DEVICE_CUDA));
  OCELLUS_TRY(check_range("the GPU's memory", limits.gpu_memory, OCELLUS_GPU_MEMORY_AUTO, OCELLUS_GPU_MEMORY_MAPPED));
  OCELLUS_TRY(
      check_range("the CPU's arithmetic (cpu_math)", limits.cpu_math, OCELLUS_CPU_MATH_F16, OCELLUS_CPU_MATH_BF16));
  for (const Branch* branch : all_branches())
    if (branch->check != nullptr) OCELLUS_TRY(branch->check(limits));
  OCELLUS_TRY(check_range("max_top_logprobs", limits.max_top_logprobs, 0, OCELLUS_MOST_TOP_LOGPROBS));
  OCELLUS_TRY(check_range("batch_invariant", limits.batch_invariant, 0, 1));
  OCELLUS_TRY(check_range("lean", limits.lean, 0, 1));
  OCELLUS_TRY(check_range("the number of threads", limits.thread_count, 0, ThreadPool::kMaxThreads));
  OCELLUS_TRY(check_range("the number of sessions", limits.max_sessions, 1, kMaxSessions));
  OCELLUS_TRY(check_range("the number of images", limits.max_images, 0, kMaxImages));
  OCELLUS_TRY(check_range("the number of frames of clips", limits.max_clip_frames, 0, kMaxClipFrames));
  OCELLUS_TRY(check_range("the number of text tokens", limits.max_text_tokens, 1, kMaxTextTokens));
  OCELLUS_TRY(check_range("the rows of a prompt chunk", limits.max_prompt_rows, 0, kMaxTextTokens));
  OCELLUS_TRY(check_range("the tiles of a picture", limits.max_tiles, 0, 4096));
  OCELLUS_TRY(check_range("the rows of a picture", limits.max_image_rows, 0, 1 << 16));
  OCELLUS_TRY(check_range("the planned rows of a picture", limits.planned_image_rows, 0, 1 << 16));
  OCELLUS_TRY(check_range("the views encoded together", limits.max_encode_views, 0, 4096));
  OCELLUS_TRY(check_views(limits));
  OCELLUS_TRY(check_picture_sizes(limits));
  OCELLUS_TRY(check_range("the budget", limits.budget_bytes, 0, INT64_MAX));
  if (planned_images(model, limits) > 0 && !model.has_vision())
    return OCELLUS_FAIL(Code::kBadArgument,
                        "images were planned, but no mmproj file was opened: give the model's mmproj file");
  const bool bounds_rows = limits.max_image_rows > 0 || limits.planned_image_rows > 0;
  if (bounds_rows && model.has_vision() && !model.vision().any_size)
    return OCELLUS_FAIL(
        Code::kBadArgument, "this model's views have one size, of %d rows: plan no bound of a picture's rows (%s)",
        model.vision().tokens_per_view(), limits.max_image_rows > 0 ? "max_image_rows" : "planned_image_rows");
  return {};
}

}  // namespace ocellus
