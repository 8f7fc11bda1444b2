// Sizes of views of Qwen's kind, which keep a picture's shape in whole rows, and the frames of clips that they take.
#pragma once

#include "runtime/models/family.h"

namespace ocellus {

/// Plans of ViewRules: a picture; one whose sides are enlarged to a row first; a frame of a clip, which is the same but
/// may have one row.
void plan_qwen_view(const PreprocessConfig& config, ViewPlan* plan);
void plan_enlarged_view(const PreprocessConfig& config, ViewPlan* plan);
void plan_qwen_frame(const PreprocessConfig& config, ViewPlan* plan);
/// The first, as if the picture had this size.
void plan_qwen_size(const PreprocessConfig& config, Size size, ViewPlan* plan);
/// Bounds of the first and the last of these; of the second and the last.
ViewBounds bound_qwen_views(const PreprocessConfig& config, const ImageLimits& limits);
ViewBounds bound_enlarged_views(const PreprocessConfig& config, const ImageLimits& limits);

/// Published bounds of a clip: frames, and rows of a frame and of all frames.
inline constexpr int32_t kLeastQwenFrames = 4, kMostQwenFrames = 768, kMostFrameRows = 768, kMostClipRows = 24576;

/// Returns the number of frames at two a second, of at most `most`.
int32_t count_sampled(int32_t frame_count, double duration, int32_t most);
/// ClipRules::sample: this number, evenly from the first frame to the last, as transformers' Qwen3VLVideoProcessor
/// takes them.
int32_t sample_evenly(int32_t frame_count, double duration, int32_t most, int32_t* indices);

}  // namespace ocellus
