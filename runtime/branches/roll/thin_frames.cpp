#include "runtime/branches/roll/thin_frames.h"

#include <algorithm>
#include <cmath>

#include "kernels/cache/favour_rows.h"
#include "kernels/cache/select_slots.h"

namespace ocellus {
namespace {

/// Pooling of a layer: wide in the first quarter of the layers, none in the last, as published; no wider than the grid.
FramePool pool_of(const ThinPolicy& policy, const FrameRuns& frames, int64_t layers, int32_t cols) {
  constexpr int32_t kWidths[] = {7, 5, 3, 1};
  FramePool pool;
  const int64_t quarter = std::min<int64_t>(frames.layer / std::max<int64_t>(layers / 4, 1), 3);
  if (!policy.pools || quarter == 3) return pool;
  pool = {.axes = static_cast<int32_t>(3 - quarter), .width = kWidths[quarter], .cols = cols};
  if (pool.axes == 1) return pool;
  if (cols < 1 || frames.slots % cols != 0) return {};
  // The paper's code never pools wider than there are frames, in grids alone either.
  const int32_t most = std::min({pool.width, frames.count - frames.thinned, cols, frames.slots / cols});
  pool.width = most - (most % 2 == 0 ? 1 : 0);
  return pool;
}

/// Slots that one layer's heads keep.
struct ThinCounts {
  int64_t kept = 0;    // all
  int64_t recent = 0;  // slots of recent frames
  int64_t novel = 0;   // older slots chosen by novelty
};

ThinCounts count_slots(const ThinPolicy& policy, const FrameRuns& frames, int32_t kept_frames, int32_t* recent) {
  const auto share = static_cast<double>(policy.novel), all = static_cast<double>(kept_frames);
  const auto by_share = static_cast<int32_t>(policy.recent * static_cast<float>(frames.count));
  const int32_t most = std::min(frames.count - frames.thinned, std::max(1, static_cast<int32_t>(share * all)));
  *recent = std::clamp(by_share, 1, most);
  ThinCounts counts{.kept = int64_t{kept_frames} * frames.slots};
  if (policy.novel == 0) return counts;
  counts.recent = int64_t{*recent} * frames.slots;
  const auto by_norm = static_cast<int64_t>((1 - share) * static_cast<double>(counts.kept) + 0.5);
  counts.novel = std::max<int64_t>(counts.kept - by_norm - counts.recent, 0);
  return counts;
}

/// Lists the kept slots of every head in memory.kept.
void choose_slots(const ThinMemory& m, const FrameRuns& frames, const ThinCounts& counts, Queue& queue) {
  constexpr float kFirst = 1e30f;
  SelectSlotsArgs args;
  args.scores = m.novelty;
  args.window = counts.recent;
  args.budget = counts.novel;
  args.rows.count = frames.total();
  args.kept.text = m.kept;
  args.kept.text_counts = m.counts.data;
  args.scratch = m.selection;
  if (counts.recent > 0) {
    select_slots(args, queue);
    favour_rows({.scores = m.values,
                 .reasons = m.values,
                 .rows = m.kept,
                 .counts = m.counts.data,
                 .most_listed = counts.recent + counts.novel,
                 .amount = kFirst},
                queue);
  }
  args.scores = m.values;
  args.window = 0;
  args.budget = counts.kept;
  select_slots(args, queue);
}

FrameRuns list_frames(const ThinMemory& m, const SessionCache& cache) {
  FrameRuns frames{.runs = m.runs.device.data,
                   .count = cache.image_count(),
                   .slots = cache.image(0).slots,
                   .notes = cache.shape().notes_offset(),
                   .heads = cache.shape().kv_heads,
                   .head_dim = cache.shape().head_dim};
  for (int32_t i = 0; i < frames.count; ++i) {
    m.runs.host.data[i] = cache.image_block(i, 0);
    frames.thinned += cache.image(i).thinned ? 1 : 0;
  }
  return frames;
}

int32_t columns_of(const StoredImage& image, int64_t view_rows) {
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(view_rows)) + 0.5);
  return image.cols > 0 ? image.cols : side * side == view_rows ? static_cast<int32_t>(side) : 0;
}

}  // namespace

Status ThinMemory::lay_out(const KvShape& kv, int64_t images, const DeviceTraits& device, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  const int64_t slots = images * kv.image_slots;
  const auto take = [&](const char* name, int64_t rows, int64_t cols, auto* out) {
    return take_rows(sink, name, kLife, Phase::kNone, rows, cols, out);
  };
  OCELLUS_TRY(runs.lay_out(sink, "images to thin", kLife, Phase::kNone, 1, images));
  OCELLUS_TRY(take("novelty of slots", kv.kv_heads, slots, &novelty));
  OCELLUS_TRY(take("pooled norms of values", kv.kv_heads, slots, &values));
  OCELLUS_TRY(take("norms of values", kv.kv_heads, slots, &norms));
  OCELLUS_TRY(take("slots that stay", kv.kv_heads, slots, &kept));
  OCELLUS_TRY(take("counts of slots that stay", 1, kv.kv_heads, &counts));
  return take("choice of slots", 1, select_slots_scratch_bytes(slots, kv.kv_heads, device), &selection);
}

bool can_thin(const SessionCache& cache) {
  const int32_t count = cache.image_count();
  const auto is_like = [&](int32_t i, const StoredImage& first) {
    const StoredImage& image = cache.image(i);
    return image.slots == first.slots && image.cols == first.cols;
  };
  for (int32_t i = 0; i < count; ++i)
    if (!is_like(i, cache.image(0))) return false;
  return count > 1 && !cache.image(count - 1).thinned;
}

Status thin_frames(const ThinPolicy& policy, const ThinMemory& m, int32_t kept, int64_t view_rows, SessionCache& cache,
                   Queue& queue) {
  FrameRuns frames = list_frames(m, cache);
  const int32_t cols = columns_of(cache.image(frames.count - 1), view_rows);
  int32_t recent = 0;
  const ThinCounts counts = count_slots(policy, frames, kept, &recent);
  queue.upload(m.runs, frames.count);
  for (; frames.layer < cache.shape().layer_count; ++frames.layer) {
    score_frames({.frames = frames,
                  .recent = recent,
                  .pool = pool_of(policy, frames, cache.shape().layer_count, cols),
                  .novelty = m.novelty,
                  .values = m.values,
                  .norms = m.norms},
                 queue);
    choose_slots(m, frames, counts, queue);
    compact_frames({.frames = frames, .kept = m.kept, .kept_count = counts.kept}, queue);
  }
  cache.keep_thinned(kept);
  return queue.finish();
}

}  // namespace ocellus
