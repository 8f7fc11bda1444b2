// The frames of a rolling session are thinned in place, once they fill their slots (InfiniPot-V, Kim et al. 2025):
// their slots are scored, select_slots ranks them, and what is kept moves to the front.
#pragma once

#include "kernels/base/kv_run.h"
#include "platform/everywhere.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Facts of a slot in a layer and head, for when other slots of its frame have been dropped.
struct FrameNote {
  int32_t place = 0;  // slot in its frame
  float value = 0;    // pooled norm of its value, from when its frame was whole
};

/// Frames, oldest first, in f16 runs of as many live slots each. The first `thinned` runs hold what is left of older
/// frames, by age, with a note for every slot; notes of whole frames are written by score_frames.
struct FrameRuns {
  const KvRun* runs = nullptr;  // [count], in device memory
  int32_t count = 0;
  int32_t slots = 0;  // live slots of each
  int32_t thinned = 0;
  int64_t notes = 0;  // bytes from a run's data to its notes, [layers, G, capacity]
  int32_t layer = 0;
  int32_t heads = 0;
  int32_t head_dim = 0;

  OCELLUS_EVERYWHERE int64_t total() const { return int64_t{count} * slots; }
  OCELLUS_EVERYWHERE int64_t whole() const { return int64_t{count - thinned} * slots; }
  /// Note of the head's slot number `at` of all.
  OCELLUS_EVERYWHERE FrameNote& note(int64_t head, int64_t at) const {
    const KvRun& run = runs[at / slots];
    const int64_t line = int64_t{layer} * heads + head;
    return reinterpret_cast<FrameNote*>(run.data + notes)[line * run.capacity + at % slots];
  }
  OCELLUS_EVERYWHERE Half* key(int64_t head, int64_t at) const {
    return run_keys(runs[at / slots], layer, head) + at % slots * head_dim;
  }
  OCELLUS_EVERYWHERE Half* value(int64_t head, int64_t at) const {
    return run_values(runs[at / slots], layer, head) + at % slots * head_dim;
  }
};

/// Mean over `width` neighbours (odd) along each of `axes` axes, zeros beyond the ends included. Three: time, lines and
/// columns of the frames' grid; two: lines and columns; one: all slots in order; none.
struct FramePool {
  int32_t axes = 0;
  int32_t width = 1;
  int32_t cols = 1;  // columns of the grid; lines = slots / cols

  /// `norms`: the whole frames' values; `at`: a slot of theirs.
  OCELLUS_EVERYWHERE float mean(const float* norms, int64_t whole, int32_t slots, int64_t at) const {
    if (axes == 0) return norms[at];
    const int64_t half = width / 2, lines = slots / cols;
    const int64_t frame = at / slots, line = at % slots / cols, col = at % cols;
    const int64_t times = axes == 3 ? half : 0;
    float sum = 0, size = static_cast<float>(width);
    if (axes == 1) {
      for (int64_t i = at - half; i <= at + half; ++i) sum += i >= 0 && i < whole ? norms[i] : 0;
      return sum / size;
    }
    for (int64_t t = frame - times; t <= frame + times; ++t)
      for (int64_t y = line - half; y <= line + half; ++y)
        for (int64_t x = col - half; x <= col + half; ++x)
          if (t >= 0 && t * slots < whole && y >= 0 && y < lines && x >= 0 && x < cols)
            sum += norms[t * slots + y * cols + x];
    return sum / (axes == 3 ? size * size * size : size * size);
  }
};

/// Scores the slots of frames by head, without a query.
///
/// Novelty   novelty[g][j] = - mean over the last `recent` frames of cos(k_gj, the key at j's place in that frame), and
///           0 in those frames (TaR)
/// Values    values[g][j] = pool of |v_gj| over the whole frames; of slots that have a note, the note's (VaN). At least
///           kLeastValue. In whole frames it is noted, with the slot's place
///
/// Shapes    novelty, values, norms [G, >= total]; 1 <= recent <= count - thinned. All in device memory
/// Types     f16, sums in f32; norms is scratch
/// Divisible E by 8; slots by pool.cols if the pool has more than one axis
/// Errors    kInternal for heads of more than kMaxHeadDim values on the CPU
struct ScoreFramesArgs {
  static constexpr float kLeastValue = 1e-20f;  // so that favour_rows has a reason

  FrameRuns frames;
  int32_t recent = 1;
  FramePool pool;
  DeviceView<float> novelty = {};
  DeviceView<float> values = {};
  DeviceView<float> norms = {};
};
void score_frames(const ScoreFramesArgs& args, Queue& queue);

/// Moves the kept slots of every head to the front: slot i takes the key, the value and the note of slot kept[g][i].
///
/// Shapes    kept [G, >= kept_count], ascending numbers < total. In device memory
/// Divisible E by 8; on CUDA all runs start on 16 bytes
struct CompactFramesArgs {
  FrameRuns frames;
  DeviceView<const int32_t> kept = {};
  int64_t kept_count = 0;
};
void compact_frames(const CompactFramesArgs& args, Queue& queue);

}  // namespace ocellus
