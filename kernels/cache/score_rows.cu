// Column sums of attention in two passes on tensor cores. The first finds the maximum score of every line and the sum
// of its weights; with calibration it first runs over the calibrated slots only, for their minimum and maximum scores.
// The second pass computes the scores of the chunk's own rows once more and adds up each slot's share. No sum is shared
// between blocks except those of split tiles, which are combined in their order.
#include <cmath>
#include <numbers>

#include "kernels/backends.h"
#include "kernels/base/launch.cuh"
#include "kernels/cache/score_rows.h"
#include "kernels/cache/score_rows_tile.cuh"

namespace ocellus {
namespace cuda {
namespace {

/// State of one of a lane's lines.
struct Extremes {
  float low = INFINITY, high = -INFINITY;
};
struct Weights {
  float largest = -INFINITY, sum = 0;
};

/// Score `column` (of eight) of half `half` of this lane, as a power of two.
template <class T>
__device__ float scaled(const ScoreWork& work, const StageScores<T>& scores, int n, int half, int i) {
  return scores[n][2 * half + i] * work.scale;
}

/// Adds the calibrated slots of a stage to the extremes of a lane's lines.
template <class T>
__device__ void take_extremes(const ScoreWork& work, const StageNotes<T>& notes, const StageScores<T>& scores,
                              Extremes (&lines)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int n = 0; n < T::kStage / 8; ++n) {
    const int live = notes.calibrated[n / 2] != 0 ? notes.live[n / 2] : 0;
    const int column = n % 2 * 8 + lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float score = scaled<T>(work, scores, n, half, i);
        if (column + i >= live) continue;
        lines[half].low = fminf(lines[half].low, score);
        lines[half].high = fmaxf(lines[half].high, score);
      }
    }
  }
}

/// Masks slots that are not live or come after the line, and calibrates. `limit`: own rows that the line sees.
template <class T>
__device__ float visible_score(const ScoreWork& work, const StageNotes<T>& notes, int stage, const ScoreSlope& slope,
                               int limit, int n, int i, float score) {
  const int column = n % 2 * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i;
  const int own = own_row_of_piece<T>(work, stage, n / 2);
  if (work.slopes != nullptr && notes.calibrated[n / 2] != 0) score = fmaf(slope.slope, score - slope.low, slope.base);
  return column < (own < 0 ? notes.live[n / 2] : limit - own) ? score : -INFINITY;
}

/// Adds a stage to the maximum score and the sum of weights of a lane's lines. NaN scores are in no maximum but stay in
/// the sum.
template <class T>
__device__ void take_weights(const ScoreWork& work, const StageNotes<T>& notes, int stage,
                             const ScoreSlope (&slopes)[2], const int (&limits)[2], StageScores<T>& scores,
                             Weights (&lines)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = -INFINITY;
#pragma unroll
    for (int n = 0; n < T::kStage / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float score =
            visible_score<T>(work, notes, stage, slopes[half], limits[half], n, i, scaled<T>(work, scores, n, half, i));
        scores[n][2 * half + i] = score;
        largest = fmaxf(largest, score);
      }
    }
    largest = fmaxf(row_max(largest), lines[half].largest);
    const float base = largest == -INFINITY ? 0.0f : largest;  // a line that has seen nothing yet
    float sum = lines[half].sum * exp2_of(lines[half].largest - base);
#pragma unroll
    for (int n = 0; n < T::kStage / 8; ++n)
      sum += exp2_of(scores[n][2 * half] - base) + exp2_of(scores[n][2 * half + 1] - base);
    lines[half] = {largest, sum};
  }
}

/// Writes a line's result for the next kernel.
template <bool kExtremes>
__device__ void finish_line(const ScoreWork& work, int64_t line, const ScorePart& part) {
  if constexpr (kExtremes)
    work.slopes[line] = ScoreSlope::of(work.calibration, part.first, part.second, part.slots);
  else
    work.measured[line] = {
        part.first,
        score_factor(part.first, part.second, work.adds_one,
                     work.observers.weight(work.first_row + static_cast<int>(line % work.lines) / work.group,
                                           work.row_count - 1))};
}

/// First pass. Block (tile, head; split): the extremes of calibrated scores, or maxima and sums of weights.
template <class T, bool kExtremes>
__global__ void __launch_bounds__(kScoreThreads, T::kBlocks)
    measure_lines(const __grid_constant__ ScoreWork work, int tiles, int stages_per_split) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ StageNotes<T> notes[2];
  __half* const tile = reinterpret_cast<__half*>(shared);
  __half* const stages = tile + T::kKept;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  // Late tiles see the most slots and run first.
  const int kv_head = static_cast<int>(blockIdx.x) % work.kv_heads;
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x) / work.kv_heads) * kScoreTile;
  const int own_rows = work.last_seen(min(first + kScoreTile, work.lines) - 1) + 1;
  const int pieces = work.run_count + (kExtremes ? 0 : divide_up(own_rows, kTileSlots));
  const int begin = static_cast<int>(blockIdx.y) * stages_per_split;
  const int end = min(divide_up(pieces, T::kPieces), begin + stages_per_split);

  wait_for_inputs();
  let_next_start();
  fetch_lines<T>(work, kv_head, first, kScoreTile, tile);
  if (begin < end) fetch_slots<T>(work, kv_head, own_rows, begin, stages, notes[0]);
  commit_copies();
  int m[2], limits[2];
  ScoreSlope slopes[2];
  for (int half = 0; half < 2; ++half) {
    m[half] = first + warp * kScoreFragment + half * 8 + lane / 4;
    const int line = min(m[half], work.lines - 1);
    limits[half] = work.last_seen(line) + 1;
    if (!kExtremes && work.slopes != nullptr) slopes[half] = work.slopes[int64_t{kv_head} * work.lines + line];
  }
  wait_for_copies<0>();
  __syncthreads();
  ScoreKept<T> kept;
  keep_rows<T>(tile, kept);

  Extremes extremes[2];
  Weights weights[2];
  int calibrated_slots = 0;
#pragma unroll 1
  for (int stage = begin; stage < end; ++stage) {
    const int room = (stage - begin) % 2;
    wait_for_copies<0>();
    __syncthreads();  // the stage has arrived for all, and all have finished the one whose memory is filled next
    if (stage + 1 < end)
      fetch_slots<T>(work, kv_head, own_rows, stage + 1, stages + (1 - room) * T::kStage * T::kStride, notes[1 - room]);
    commit_copies();
    StageScores<T> scores;
    score_rows_of_stage<T>(kept, stages + room * T::kStage * T::kStride, scores);
    if constexpr (kExtremes) {
      take_extremes<T>(work, notes[room], scores, extremes);
      for (int i = 0; i < T::kPieces; ++i) calibrated_slots += notes[room].calibrated[i] != 0 ? notes[room].live[i] : 0;
    } else {
      take_weights<T>(work, notes[room], stage, slopes, limits, scores, weights);
    }
  }

  for (int half = 0; half < 2; ++half) {
    ScorePart part{weights[half].largest, row_sum(weights[half].sum), calibrated_slots};
    if (kExtremes) part.first = row_min(extremes[half].low);
    if (kExtremes) part.second = row_max(extremes[half].high);
    if (lane % 4 != 0 || m[half] >= work.lines) continue;
    const int64_t line = int64_t{kv_head} * work.lines + m[half];
    if (gridDim.y == 1)
      finish_line<kExtremes>(work, line, part);
    else
      work.parts[blockIdx.y * int64_t{work.kv_heads} * work.lines + line] = part;
  }
}

/// Combines the parts of split tiles. One warp per line.
template <bool kExtremes>
__global__ void join_parts(const __grid_constant__ ScoreWork work, int splits) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t line_count = int64_t{work.kv_heads} * work.lines;
  const int64_t line = (int64_t{blockIdx.x} * kScoreThreads + threadIdx.x) / kWarp;
  wait_for_inputs();
  let_next_start();
  if (line >= line_count) return;
  const ScorePart* parts = work.parts + line;
  ScorePart all{kExtremes ? INFINITY : -INFINITY, kExtremes ? -INFINITY : 0.0f, 0};
  for (int i = lane; i < splits; i += kWarp) {
    const ScorePart part = parts[i * line_count];
    all.first = kExtremes ? fminf(all.first, part.first) : fmaxf(all.first, part.first);
    if (kExtremes) all.second = fmaxf(all.second, part.second);
    all.slots += part.slots;
  }
  all.first = kExtremes ? -warp_max(-all.first) : warp_max(all.first);
  if constexpr (kExtremes) {
    all.second = warp_max(all.second);
    for (int offset = kWarp / 2; offset > 0; offset /= 2) all.slots += __shfl_xor_sync(0xFFFFFFFFu, all.slots, offset);
  } else {
    for (int i = lane; i < splits; i += kWarp) {
      const ScorePart part = parts[i * line_count];
      all.second += part.second * exp2_of(part.first - all.first);
    }
    all.second = warp_sum(all.second);
  }
  if (lane == 0) finish_line<kExtremes>(work, line, all);
}

/// Begins to copy the first pass's results for a stage's lines. Lines after the last have no share.
template <class T>
__device__ void fetch_measured(const ScoreWork& work, int kv_head, int first, float2* to) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= T::kStage) return;
  if (first + i < work.lines)
    copy_8_async(to + i, work.measured + int64_t{kv_head} * work.lines + first + i);
  else
    to[i] = make_float2(0, 0);
}

/// Returns the fact of the attention `share` = 2^exponent * factor that a slot gets from a line.
__device__ float fact_of(const ScoreWork& work, float exponent, float factor, float share, int line) {
  if (work.fact == AttentionFact::kEntropy)
    return share != 0 ? -std::numbers::ln2_v<float> * share * (exponent + log2f(factor))
                      : 0.0f;  // not a number stays so
  const bool dense = factor != 0 && exp2_of(exponent) >= kDensityShare;
  return dense ? 1.0f / static_cast<float>(work.last_seen(line) + 1) : 0.0f;
}

/// Adds a stage's shares to the sums of a lane's slots. Lines from `line` on; all see all slots if `sees_all`.
template <class T, bool kFacts>
__device__ void add_shares(const ScoreWork& work, const float2* measured, int line, bool sees_all, int first_slot,
                           const StageScores<T>& scores, float (&sums)[2], float (&told)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float shares[2] = {};
#pragma unroll
  for (int n = 0; n < T::kStage / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = n * 8 + lane % 4 * 2 + i;
      const float2 facts = measured[column];  // maximum score, factor
      int last_seen = 0x7FFFFFFF;
      if (!sees_all) last_seen = line + column < work.lines ? work.last_seen(line + column) : -1;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float exponent = fmaf(scores[n][2 * half + i], work.scale, -facts.x);
        const float share = exp2_of(exponent) * facts.y;
        const bool sees = first_slot + half * 8 <= last_seen;
        shares[half] += sees ? share : 0.0f;
        if (kFacts && sees) told[half] += fact_of(work, exponent, facts.y, share, line + column);
      }
    }
  }
  for (int half = 0; half < 2; ++half) sums[half] += shares[half];
}

/// Second pass. Block (tile of own rows, head).
template <class T, bool kFacts>
__global__ void __launch_bounds__(kScoreThreads, T::kBlocks) sum_columns(const __grid_constant__ ScoreWork work) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ float2 measured[2][T::kStage];
  __half* const tile = reinterpret_cast<__half*>(shared);
  __half* const stages = tile + T::kKept;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  // The first rows are seen by the most lines and run first.
  const int kv_head = static_cast<int>(blockIdx.x) % work.kv_heads;
  const int first = static_cast<int>(blockIdx.x) / work.kv_heads * kScoreTile;
  const int begin = work.observers.see_all ? 0 : max(0, first - work.first_row) * work.group / T::kStage;
  const int end = divide_up(work.lines, T::kStage);

  wait_for_inputs();
  let_next_start();
  fetch_keys<T>(work.keys + kv_head * work.head_stride + first * work.row_stride, work.row_stride,
                work.row_count - first, kScoreTile, work.head_dim, static_cast<int>(threadIdx.x), kScoreThreads, tile);
  fetch_lines<T>(work, kv_head, begin * T::kStage, T::kStage, stages);
  fetch_measured<T>(work, kv_head, begin * T::kStage, measured[0]);
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();
  ScoreKept<T> kept;
  keep_rows<T>(tile, kept);

  const int slot = first + warp * kScoreFragment + lane / 4;
  float sums[2] = {}, told[2] = {};
#pragma unroll 1
  for (int stage = begin; stage < end; ++stage) {
    const int room = (stage - begin) % 2;
    wait_for_copies<0>();
    __syncthreads();  // as in the first pass
    if (stage + 1 < end) {
      fetch_lines<T>(work, kv_head, (stage + 1) * T::kStage, T::kStage, stages + (1 - room) * T::kStage * T::kStride);
      fetch_measured<T>(work, kv_head, (stage + 1) * T::kStage, measured[1 - room]);
    }
    commit_copies();
    StageScores<T> scores;
    score_rows_of_stage<T>(kept, stages + room * T::kStage * T::kStride, scores);
    const int line = stage * T::kStage;
    const bool sees_all = line + T::kStage <= work.lines && first + kScoreTile <= work.last_seen(line) + 1;
    add_shares<T, kFacts>(work, measured[room], line, sees_all, slot, scores, sums, told);
  }
  for (int half = 0; half < 2; ++half) {
    const float sum = row_sum(sums[half]), all_told = kFacts ? row_sum(told[half]) : 0.0f;
    if (lane % 4 != 0 || slot + half * 8 >= work.row_count) continue;
    float& score = work.scores[kv_head * work.scores_stride + slot + half * 8];
    score = (work.adds ? score : 0.0f) + sum / static_cast<float>(work.group);
    if (kFacts) work.facts[kv_head * work.facts_stride + slot + half * 8] = all_told / static_cast<float>(work.group);
  }
}

/// `pieces`: maximum pieces of slots of any tile.
template <class T, bool kExtremes>
void measure(const ScoreWork& work, int64_t pieces, Queue& queue) {
  const ScorePlan plan = plan_score_tiles(work.lines, work.kv_heads, divide_up(pieces, T::kPieces));
  launch<measure_lines<T, kExtremes>>(
      queue, "score_rows",
      {.grid = dim3(static_cast<unsigned>(plan.tiles * work.kv_heads), static_cast<unsigned>(plan.splits)),
       .threads = kScoreThreads,
       .shared_bytes = T::kSharedBytes},
      work, plan.tiles, plan.stages_per_split);
  if (plan.splits == 1) return;
  const int64_t blocks = divide_up(int64_t{work.lines} * work.kv_heads, kScoreThreads / kWarp);
  launch<join_parts<kExtremes>>(queue, "score_rows", {.grid = static_cast<unsigned>(blocks), .threads = kScoreThreads},
                                work, plan.splits);
}

template <int kDim>
void score(const ScoreWork& work, Queue& queue) {
  using T = ScoreTile<kDim>;
  if (work.slopes != nullptr) measure<T, true>(work, work.run_count, queue);
  measure<T, false>(work, work.run_count + divide_up(work.row_count, kTileSlots), queue);
  const int64_t tiles = divide_up(work.row_count, kScoreTile);
  const LaunchShape shape{
      .grid = static_cast<unsigned>(tiles * work.kv_heads), .threads = kScoreThreads, .shared_bytes = T::kSharedBytes};
  if (work.fact == AttentionFact::kNone)
    launch<sum_columns<T, false>>(queue, "score_rows", shape, work);
  else
    launch<sum_columns<T, true>>(queue, "score_rows", shape, work);
}

ScoreWork describe(const ScoreRowsArgs& args) {
  ScoreWork work{};
  work.query = static_cast<const __half*>(args.query.data);
  work.query_stride = args.query.stride;
  work.keys = reinterpret_cast<const __half*>(args.rows.keys);
  work.head_stride = args.rows.head_stride;
  work.row_stride = args.rows.row_stride;
  work.runs = args.past.runs;
  work.run_count = args.past.count;
  work.layer = args.past.layer.index;
  work.head_dim = args.rows.head_dim;
  work.group = args.query_heads / args.rows.heads;
  work.kv_heads = args.rows.heads;
  work.lines = static_cast<int>(args.query.rows) * work.group;
  work.first_row = static_cast<int>(args.row_count - args.query.rows);
  work.row_count = static_cast<int>(args.row_count);
  work.scale = std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(args.rows.head_dim));
  work.calibration = args.past.calibration;
  std::byte* const behind_lines = args.scratch.data + score_lines_bytes(args.query.rows, args.query_heads);
  work.measured = reinterpret_cast<ScoreLine*>(args.scratch.data);
  if (args.past.calibration.on && args.past.count > 0) work.slopes = reinterpret_cast<ScoreSlope*>(behind_lines);
  work.parts = reinterpret_cast<ScorePart*>(behind_lines + score_slopes_bytes(args.query.rows, args.query_heads));
  work.scores = args.scores.data;
  work.scores_stride = args.scores.stride;
  work.observers = args.observers;
  work.adds = args.adds;
  work.adds_one = args.adds_one;
  work.fact = args.fact;
  work.facts = args.facts.data;
  work.facts_stride = args.facts.stride;
  return work;
}

}  // namespace

void score_rows(const ScoreRowsArgs& args, Queue& queue) {
  check_score_rows(args, queue);
  if (args.rows.head_dim > kMaxHeadDim)
    queue.fail(OCELLUS_FAIL(Code::kUnsupported, "score_rows has no kernel for heads of %d values", args.rows.head_dim));
  if (!queue.ok()) return;
  const ScoreWork work = describe(args);
  if (work.head_dim > kAttendLongestTile) return score<kMaxHeadDim>(work, queue);
  switch (attend_tile_dim(work.head_dim)) {
    case 32: return score<32>(work, queue);
    case 64: return score<64>(work, queue);
    case 80: return score<80>(work, queue);
    case 96: return score<96>(work, queue);
    case 128: return score<128>(work, queue);
    default: return score<256>(work, queue);
  }
}

}  // namespace cuda
}  // namespace ocellus
