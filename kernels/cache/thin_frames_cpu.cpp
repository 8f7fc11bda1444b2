#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/cache/thin_frames.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cache/thin_frames_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

/// A key or value as floats.
struct Row {
  HWY_ALIGN float values[kMaxHeadDim];
  int64_t dim = 0;

  float load(const Half* from, int64_t count) {
    dim = count;
    expand_halves(from, count, values);
    return std::sqrt(dot(values, values, dim));
  }
};

/// Mean cosine of the slot's key with those at its place in the recent frames.
float mean_cosine(const ScoreFramesArgs& a, int64_t head, int64_t at, Row& key, Row& other) {
  const FrameRuns& frames = a.frames;
  const int64_t place = at < int64_t{frames.thinned} * frames.slots ? frames.note(head, at).place : at % frames.slots;
  const float length = key.load(frames.key(head, at), frames.head_dim) + 1e-9f;
  float sum = 0;
  for (int64_t frame = frames.count - a.recent; frame < frames.count; ++frame) {
    const float length_there = other.load(frames.key(head, frame * frames.slots + place), frames.head_dim) + 1e-9f;
    sum += dot(key.values, other.values, key.dim) / (length * length_there);
  }
  return sum / static_cast<float>(a.recent);
}

void measure_slots(const ScoreFramesArgs& a, int64_t head, int64_t begin, int64_t end) {
  const FrameRuns& frames = a.frames;
  const int64_t compared = int64_t{frames.count - a.recent} * frames.slots;
  Row key, other;
  for (int64_t at = begin; at < end; ++at) {
    a.norms.row(head)[at] = key.load(frames.value(head, at), frames.head_dim);
    a.novelty.row(head)[at] = at < compared ? -mean_cosine(a, head, at, key, other) : 0;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(measure_slots);

void cpu::score_frames(const ScoreFramesArgs& a, Queue& queue) {
  const FrameRuns& frames = a.frames;
  if (frames.head_dim > kMaxHeadDim)
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "score_frames got heads of %d values", frames.head_dim));
  const int64_t lines = int64_t{frames.heads} * frames.count;
  queue.parallel(lines, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t first = line % frames.count * frames.slots;
      HWY_DYNAMIC_DISPATCH(measure_slots)(a, line / frames.count, first, first + frames.slots);
    }
  });
  const int64_t thinned = frames.total() - frames.whole();
  queue.parallel(lines, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t head = line / frames.count, first = line % frames.count * frames.slots;
      for (int64_t at = first; at < first + frames.slots; ++at) {
        FrameNote& note = frames.note(head, at);
        if (at >= thinned) {
          const float mean = a.pool.mean(a.norms.row(head) + thinned, frames.whole(), frames.slots, at - thinned);
          note = {static_cast<int32_t>(at % frames.slots), std::max(mean, ScoreFramesArgs::kLeastValue)};
        }
        a.values.row(head)[at] = note.value;
      }
    }
  });
}

void cpu::compact_frames(const CompactFramesArgs& a, Queue& queue) {
  const FrameRuns& frames = a.frames;
  const size_t bytes = static_cast<size_t>(frames.head_dim) * sizeof(Half);
  queue.parallel(frames.heads, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t head = begin; head < end; ++head)
      for (int64_t to = 0; to < a.kept_count; ++to) {
        const int64_t from = a.kept.row(head)[to];
        if (from == to) continue;
        std::memcpy(frames.key(head, to), frames.key(head, from), bytes);
        std::memcpy(frames.value(head, to), frames.value(head, from), bytes);
        frames.note(head, to) = frames.note(head, from);
      }
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
