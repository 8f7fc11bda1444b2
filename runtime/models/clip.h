// Clips: frames of a video, with their times, in a prompt. A family's ClipRules choose the frames of a video and write
// the words around them; a frame, or a group of consecutive ones, is a picture of one view.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/status.h"

namespace ocellus {

class Model;
struct ViewRules;
struct VisionConfig;

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
  int32_t group = 1;                 // frames that are one picture, 1 or 2; a last one without another is one, too
  const ViewRules* views = nullptr;  // rules of all pictures if clips are planned; null: unchanged
  const ViewRules* frame_views = nullptr;  // rules of frames alone; null: those of pictures
  /// Returns the maximum rows of a frame of a clip of `frames` frames, in families whose views have any size.
  int32_t (*rows)(int32_t frames) = nullptr;
  /// Writes the indices of at most `most` of `frame_count` frames that are evenly spaced in `duration` seconds; returns
  /// their number. As the model's authors do, and as transformers' class does; null: alike.
  int32_t (*sample)(int32_t frame_count, double duration, int32_t most, int32_t* indices) = nullptr;
  int32_t (*sample_as_transformers)(int32_t frame_count, double duration, int32_t most, int32_t* indices) = nullptr;
  /// The pictures of a clip stand at the same lines and columns, as one block, at times this number of positions
  /// apart. Null: each is as others.
  int32_t (*time_step)(const ClipTimes& clip) = nullptr;
  /// Writes the text before a frame that begins a group, which is tokenised by itself. Null: none.
  void (*write_before)(const ClipTimes& clip, int32_t frame, ClipText* out) = nullptr;
  const char* after[2] = {"", ""};  // texts after the last frame, each tokenised by itself

  /// Returns the number of pictures that the frames of a clip are.
  int32_t group_count(int32_t frames) const { return (frames + group - 1) / group; }
};

/// Index of the i-th of `count` frames that are evenly spaced in a video, from its first on.
inline int32_t evenly_spaced(int32_t i, int32_t count, int32_t frame_count) {
  return static_cast<int32_t>(int64_t{i} * frame_count / count);
}

/// Returns the rules of a tower's family, or empty ones if it has none.
ClipRules clips_of(const VisionConfig& vision);

/// Finds the rules of the model's family. kUnsupported if it takes no clips.
Status clip_rules(const Model& model, const ClipRules** out);

/// Counts the tokens of the texts around the frames of a clip of `frames` frames, for the longest times.
Status count_clip_tokens(const Model& model, int32_t frames, int64_t* out);

/// See ocellus_model_sample_clip. `sampling`: an ocellus_clip_sampling.
Status sample_clip(const Model& model, int32_t sampling, int32_t frame_count, double duration, int32_t most,
                   int32_t* indices, int32_t* count);

/// kBadArgument for a number of frames out of range, and for times that decrease or are not finite.
Status check_clip_times(const ClipTimes& clip);

}  // namespace ocellus
