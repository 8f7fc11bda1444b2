// Clips: frames of a video, with their times, in a prompt. A family's ClipRules choose the frames of a video and write
// the words around them; the frames themselves are pictures of one view.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/status.h"

namespace ocellus {

class Model;
struct ViewRules;

inline constexpr int32_t kMaxClipFrames = 999;
inline constexpr double kMaxClipSeconds = 24.0 * 3600.0;  // times are less

struct ClipTimes {
  int32_t frame_count = 0;
  const double* seconds = nullptr;  // one time a frame, never decreasing
  double duration = 0;              // 0: the time of the last frame
};

/// Text before a frame, zero-terminated.
struct ClipText {
  char text[256] = {};
};

struct ClipRules {
  int32_t most_frames = 0;           // maximum frames of a clip; 0: the family takes no clips
  const ViewRules* views = nullptr;  // rules that make a frame one view
  /// Writes the indices of at most `most` of `frame_count` frames that are evenly spaced in `duration` seconds; returns
  /// their number.
  int32_t (*sample)(int32_t frame_count, double duration, int32_t most, int32_t* indices) = nullptr;
  /// Writes the text before a frame, which is tokenised by itself.
  void (*write_before)(const ClipTimes& clip, int32_t frame, ClipText* out) = nullptr;
  const char* after[2] = {"", ""};  // texts after the last frame, each tokenised by itself
};

/// Finds the rules of the model's family. kUnsupported if it takes no clips.
Status clip_rules(const Model& model, const ClipRules** out);

/// Counts the tokens of the texts around the frames of a clip of `frames` frames, for the longest times.
Status count_clip_tokens(const Model& model, int32_t frames, int64_t* out);

/// See ocellus_model_sample_clip.
Status sample_clip(const Model& model, int32_t frame_count, double duration, int32_t most, int32_t* indices,
                   int32_t* count);

/// kBadArgument for a number of frames out of range, and for times that decrease or are not finite.
Status check_clip_times(const ClipTimes& clip);

}  // namespace ocellus
