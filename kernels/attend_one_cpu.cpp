#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attend_one.h"
#include "kernels/highway_targets.h"
#include "platform/arena.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attend_one_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/vectors-inl.h"

#ifndef OCELLUS_KERNELS_ATTEND_ONE_SHARED
#define OCELLUS_KERNELS_ATTEND_ONE_SHARED
namespace ocellus {
namespace {

constexpr int64_t kMaxHeadDim = 256;
/// Query heads that share loaded keys and values.
constexpr int kHeadTile = 4;
/// Slots whose scores are reduced together; score rows have this much room behind their last slot.
constexpr int64_t kSlotTile = 4;
/// Floats of a score row: a piece of slots, rounded up to whole vectors.
constexpr int64_t kScoreRow = kAttendSplitSlots + 16;

/// What one piece of slots gives one query head: [E] weighted sum of values, relative to the piece's maximum; then that
/// maximum and the sum of weights.
struct Partial {
  float* data;
  int64_t dim;
  float& maximum() const { return data[dim]; }
  float& sum() const { return data[dim + 1]; }
  static int64_t floats(int64_t dim) { return dim + 8; }
};

/// Walks the stretches of consecutive slots that make up live slots [first, first + count) of a list of runs.
class SlotWalk {
 public:
  SlotWalk(const KvRun* runs, int64_t first, int64_t count) : run_(runs), skip_(first), left_(count) {}

  bool next(const KvRun** run, int64_t* slot, int64_t* count) {
    if (left_ <= 0) return false;
    while (skip_ >= run_->slots) skip_ -= run_++->slots;
    *run = run_;
    *slot = skip_;
    *count = std::min<int64_t>(run_->slots - skip_, left_);
    skip_ += *count;
    left_ -= *count;
    return true;
  }

 private:
  const KvRun* run_;
  int64_t skip_, left_;
};

/// One task: slots [first, first + count) of one session for one key/value head.
struct Piece {
  const float* queries;  // [H / G, E], the group's heads
  const KvRun* runs;
  int64_t first, count;
  int64_t group, dim, kv_head, layer;
  float* partials;  // [H / G] partials
};

}  // namespace
}  // namespace ocellus
#endif  // OCELLUS_KERNELS_ATTEND_ONE_SHARED

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR
/// to[0..3] = the sum of the vector's 4-lane blocks.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_block_sum(D d, V v, float* to) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    store_block_sum(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), to);
  } else {
    hn::StoreU(v, d, to);
  }
}
#endif

/// to[0..3] = sums over the lanes of a, b, c and e.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_sums(D d, V a, V b, V c, V e, float* to) {
#if HWY_TARGET == HWY_SCALAR
  const V each[4] = {a, b, c, e};
  for (int i = 0; i < 4; ++i) hn::StoreU(each[i], d, to + i);
#else
  const hn::Repartition<uint64_t, D> pairs;
  const auto ab = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  const V blocks =
      hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)), hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce)));
  store_block_sum(d, blocks, to);
#endif
}

/// scores[h][i] = queries[h] . keys[i], for kHeads heads. Writes up to kSlotTile - 1 scores behind the last slot.
template <class D, int kHeads>
HWY_INLINE void score_slots(D d, const Half* keys, int64_t count, int64_t dim, const float* queries, float* scores) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += kSlotTile) {
    const Half* key[kSlotTile];  // behind the end, the last slot again
    for (int64_t s = 0; s < kSlotTile; ++s) key[s] = keys + std::min(i + s, count - 1) * dim;
    hn::Vec<D> sums[kSlotTile][kHeads];
    for (int64_t s = 0; s < kSlotTile; ++s) {
      for (int h = 0; h < kHeads; ++h) sums[s][h] = hn::Zero(d);
    }
    for (int64_t e = 0; e < dim; e += lanes) {
      for (int64_t s = 0; s < kSlotTile; ++s) {
        const auto k = load_halves(d, key[s] + e);
        for (int h = 0; h < kHeads; ++h) {
          sums[s][h] = hn::MulAdd(k, hn::LoadU(d, queries + h * dim + e), sums[s][h]);
        }
      }
    }
    for (int h = 0; h < kHeads; ++h) {
      store_sums(d, sums[0][h], sums[1][h], sums[2][h], sums[3][h], scores + h * kScoreRow + i);
    }
  }
}

/// Turns `count` scores into weights; the row's last vector is filled up with zeros.
HWY_INLINE void weigh(float* scores, int64_t count, const Partial& partial) {
  const FloatTag d;
  for (int64_t i = count; i % kLanes != 0; ++i) scores[i] = -std::numeric_limits<float>::infinity();
  FloatVec maxima = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < count; i += kLanes) maxima = hn::Max(maxima, hn::LoadU(d, scores + i));
  partial.maximum() = hn::GetLane(hn::MaxOfLanes(d, maxima));
  const FloatVec maximum = hn::Set(d, partial.maximum());
  FloatVec sums = hn::Zero(d);
  for (int64_t i = 0; i < count; i += kLanes) {
    const FloatVec weight = exp2_of_negative(d, hn::Sub(hn::LoadU(d, scores + i), maximum));
    hn::StoreU(weight, d, scores + i);
    sums = hn::Add(sums, weight);
  }
  partial.sum() = hn::GetLane(hn::SumOfLanes(d, sums));
}

/// mixed[h][kVectors vectors] += sum over slots of weights[h][i] * values[i].
template <class D, int kHeads, int kVectors>
HWY_INLINE void mix_columns(D d, const Half* values, int64_t count, int64_t dim, const float* weights, float* mixed,
                            int64_t mixed_stride) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> sums[kHeads][kVectors];
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) sums[h][v] = hn::LoadU(d, mixed + h * mixed_stride + v * lanes);
  }
  for (int64_t i = 0; i < count; ++i) {
    hn::Vec<D> value[kVectors];
    for (int v = 0; v < kVectors; ++v) value[v] = load_halves(d, values + i * dim + v * lanes);
    for (int h = 0; h < kHeads; ++h) {
      const auto weight = hn::Set(d, weights[h * kScoreRow + i]);
      for (int v = 0; v < kVectors; ++v) sums[h][v] = hn::MulAdd(weight, value[v], sums[h][v]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[h][v], d, mixed + h * mixed_stride + v * lanes);
  }
}

template <class D, int kHeads>
void attend_heads(D d, const Piece& piece, int64_t first_head) {
  const int64_t dim = piece.dim;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t stride = Partial::floats(dim);
  HWY_ALIGN float queries[kHeads * kMaxHeadDim];
  HWY_ALIGN float weights[kHeads * kScoreRow];
  // Scores come out in powers of two: exp(x) = 2^(x log2 e).
  const float scale = 1.44269504f / std::sqrt(static_cast<float>(dim));
  for (int64_t i = 0; i < kHeads * dim; ++i) queries[i] = piece.queries[first_head * dim + i] * scale;

  const KvRun* run = nullptr;
  int64_t slot = 0, count = 0, done = 0;
  for (SlotWalk walk(piece.runs, piece.first, piece.count); walk.next(&run, &slot, &count); done += count) {
    const Half* keys = run_keys(*run, piece.layer, piece.kv_head) + slot * dim;
    score_slots<D, kHeads>(d, keys, count, dim, queries, weights + done);
  }
  float* mixed = piece.partials + first_head * stride;
  for (int h = 0; h < kHeads; ++h) {
    std::fill_n(mixed + h * stride, dim, 0.0f);
    weigh(weights + h * kScoreRow, piece.count, {mixed + h * stride, dim});
  }
  done = 0;
  for (SlotWalk walk(piece.runs, piece.first, piece.count); walk.next(&run, &slot, &count); done += count) {
    const Half* values = run_values(*run, piece.layer, piece.kv_head) + slot * dim;
    int64_t e = 0;
    for (; e + 4 * lanes <= dim; e += 4 * lanes) {
      mix_columns<D, kHeads, 4>(d, values + e, count, dim, weights + done, mixed + e, stride);
    }
    for (; e < dim; e += lanes) {
      mix_columns<D, kHeads, 1>(d, values + e, count, dim, weights + done, mixed + e, stride);
    }
  }
}

template <class D>
void attend_group(D d, const Piece& piece) {
  int64_t head = 0;
  for (; head + kHeadTile <= piece.group; head += kHeadTile) attend_heads<D, kHeadTile>(d, piece, head);
  switch (piece.group - head) {
    case 1: return attend_heads<D, 1>(d, piece, head);
    case 2: return attend_heads<D, 2>(d, piece, head);
    case 3: return attend_heads<D, 3>(d, piece, head);
  }
}

void attend_piece(const Piece& piece) {
  if (piece.dim % kLanes == 0) return attend_group(FloatTag(), piece);
  attend_group(EightTag(), piece);
}

/// out[E] = the pieces of one head put together; partials lie `stride` floats apart.
void combine_pieces(float* first, int64_t stride, int64_t pieces, int64_t dim, float* out) {
  const EightTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  float maximum = first[dim];
  for (int64_t p = 1; p < pieces; ++p) maximum = HWY_MAX(maximum, first[p * stride + dim]);
  float sum = 0;
  for (int64_t p = 0; p < pieces; ++p) {
    const Partial partial{first + p * stride, dim};
    // From here on the place of the maximum holds the factor that brings the piece to the common maximum.
    partial.maximum() = hn::GetLane(exp2_of_negative(d, hn::Set(d, partial.maximum() - maximum)));
    sum += partial.maximum() * partial.sum();
  }
  for (int64_t e = 0; e < dim; e += lanes) {
    auto mixed = hn::Zero(d);
    for (int64_t p = 0; p < pieces; ++p) {
      const float* partial = first + p * stride;
      mixed = hn::MulAdd(hn::LoadU(d, partial + e), hn::Set(d, partial[dim]), mixed);
    }
    hn::StoreU(hn::Mul(mixed, hn::Set(d, 1.0f / sum)), d, out + e);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {
namespace {

/// Below this many multiplications a second thread costs more than it saves.
constexpr int64_t kSerialWork = 1 << 16;

int64_t piece_count(int64_t slots) { return (slots + kAttendSplitSlots - 1) / kAttendSplitSlots; }

int64_t live_slots(const AttendOneArgs& args, int64_t session) {
  int64_t slots = 0;
  for (int32_t i = args.run_begin[session]; i < args.run_begin[session + 1]; ++i) slots += args.runs[i].slots;
  return slots;
}

bool check(const AttendOneArgs& args, int64_t most_slots, Queue& queue) {
  const int64_t sessions = args.query.rows;
  for (int32_t i = args.run_begin[0]; i < args.run_begin[sessions]; ++i) {
    if (args.runs[i].position_shift == 0) continue;
    queue.fail(OCELLUS_FAIL(Code::kInternal, "cache run %d was moved by %d positions, which attend_one cannot read", i,
                            args.runs[i].position_shift));
  }
  const int64_t given = args.scratch.rows * args.scratch.cols;
  const int64_t needed = attend_one_scratch_bytes(sessions, most_slots, args.query_heads, args.head_dim);
  if (given < needed) {
    queue.fail(OCELLUS_FAIL(Code::kInternal, "attend_one got %lld bytes of scratch instead of %lld",
                            static_cast<long long>(given), static_cast<long long>(needed)));
  }
  return queue.ok();
}

}  // namespace

HWY_EXPORT(attend_piece);
HWY_EXPORT(combine_pieces);

int64_t attend_one_scratch_bytes(int64_t sessions, int64_t slots, int32_t query_heads, int32_t head_dim) {
  const int64_t partials = sessions * piece_count(slots) * query_heads;
  return aligned_bytes(partials * Partial::floats(head_dim) * static_cast<int64_t>(sizeof(float)));
}

void cpu::attend_one(const AttendOneArgs& args, Queue& queue) {
  const int64_t sessions = args.query.rows;
  int64_t most_slots = 0, all_slots = 0;
  for (int64_t b = 0; b < sessions; ++b) {
    const int64_t slots = live_slots(args, b);
    most_slots = std::max(most_slots, slots);
    all_slots += slots;
  }
  if (!queue.ok() || !check(args, most_slots, queue)) return;

  const int64_t kv_heads = args.kv_heads;
  const int64_t group = args.query_heads / kv_heads;
  const int64_t dim = args.head_dim;
  const int64_t pieces = piece_count(most_slots);
  const int64_t piece_floats = args.query_heads * Partial::floats(dim);
  float* partials = reinterpret_cast<float*>(args.scratch.data);

  const int64_t tasks = sessions * pieces * kv_heads;
  const bool serial = 2 * all_slots * args.query_heads * dim < kSerialWork;
  queue.parallel(tasks, serial ? tasks : 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t kv_head = task % kv_heads;
      const int64_t b = task / kv_heads / pieces;
      const int64_t first = task / kv_heads % pieces * kAttendSplitSlots;
      const int64_t count = std::min(live_slots(args, b) - first, kAttendSplitSlots);
      if (count <= 0) continue;
      const int64_t head = kv_head * group;
      HWY_DYNAMIC_DISPATCH(attend_piece)
      ({args.query.row(b) + head * dim, args.runs + args.run_begin[b], first, count, group, dim, kv_head, args.layer,
        partials + task / kv_heads * piece_floats + head * Partial::floats(dim)});
    }
  });
  // Cheap beside the pieces, and always in the same order.
  for (int64_t b = 0; b < sessions; ++b) {
    const int64_t used = piece_count(live_slots(args, b));
    for (int64_t head = 0; head < args.query_heads; ++head) {
      float* first = partials + b * pieces * piece_floats + head * Partial::floats(dim);
      float* out = args.output.row(b) + head * dim;
      if (used == 0)
        std::fill_n(out, dim, 0.0f);
      else
        HWY_DYNAMIC_DISPATCH(combine_pieces)(first, piece_floats, used, dim, out);
    }
  }
}

}  // namespace ocellus
#endif  // HWY_ONCE
