#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/attention/attend_one.h"
#include "kernels/base/highway_targets.h"
#include "kernels/rows/rope_angles.h"
#include "platform/arena.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attend_one_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/attention/attend_one-inl.h"
#include "kernels/base/kv_rows-inl.h"
#include "kernels/base/vectors-inl.h"
#include "kernels/rows/rope-inl.h"
#include "platform/round_up.h"

#ifndef OCELLUS_KERNELS_ATTEND_ONE_SHARED
#define OCELLUS_KERNELS_ATTEND_ONE_SHARED
namespace ocellus {
namespace {

/// Query heads that share loaded keys and values.
constexpr int kHeadTile = 4;

/// Result of one piece of slots for one query head: [E] weighted sum of values, relative to the piece's maximum; then
/// that maximum and the sum of weights; then the minimum and the maximum score of the calibrated slots.
struct Partial {
  float* data;
  int64_t dim;
  float& maximum() const { return data[dim]; }
  float& sum() const { return data[dim + 1]; }
  float& low() const { return data[dim + 2]; }
  float& high() const { return data[dim + 3]; }
  static int64_t floats(int64_t dim) { return dim + 8; }
};

/// One task: live slots [first, first + count) of one session for one key/value head.
struct Piece {
  const AttendOneArgs& args;
  const float* angles;  // angles of the first run's shift; [rotated] for each of the session's runs
  int64_t session, kv_head;
  int64_t first, count;
  int64_t pieces;           // number of pieces of this session and head
  float* partials;          // [H / G]
  int64_t partials_stride;  // floats to the session's next piece
  float* scores;            // [H / G, kAttendScoreRow], kept until all pieces have theirs; null without calibration

  int64_t dim() const { return args.head_dim; }
  int64_t group() const { return args.query_heads / args.kv_heads; }
  const KvRun* runs() const { return args.runs + args.run_begin[session]; }
  int64_t live(const KvRun& run) const { return live_slots(run, args.layer.index, args.kv_heads, kv_head); }
};

/// Iterates over the contiguous ranges of slots in a piece.
class SlotWalk {
 public:
  explicit SlotWalk(const Piece& piece)
      : piece_(piece), run_(piece.runs()), live_(piece.live(*run_)), skip_(piece.first) {}

  bool next() {
    done_ += count_;
    skip_ += count_;
    if (done_ >= piece_.count) return false;
    while (skip_ >= live_) {
      skip_ -= live_;
      live_ = piece_.live(*++run_);
    }
    count_ = std::min(live_ - skip_, piece_.count - done_);
    return true;
  }
  const KvRun& run() const { return *run_; }
  int64_t run_index() const { return run_ - piece_.runs(); }
  int64_t slot() const { return skip_; }    // first slot of the range in the run
  int64_t count() const { return count_; }  // slots in the range
  int64_t done() const { return done_; }    // slots of the piece before the range

 private:
  const Piece& piece_;
  const KvRun* run_;
  int64_t live_, skip_;
  int64_t count_ = 0, done_ = 0;
};

}  // namespace
}  // namespace ocellus
#endif  // OCELLUS_KERNELS_ATTEND_ONE_SHARED

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

/// Turns `count` scores into weights; the row's last vector is padded with zeros.
HWY_INLINE void weigh(float* scores, int64_t count, float& greatest, float& total) {
  const FloatTag d;
  for (int64_t i = count; i % kLanes != 0; ++i) scores[i] = -std::numeric_limits<float>::infinity();
  FloatVec maxima = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < count; i += kLanes) maxima = hn::Max(maxima, hn::LoadU(d, scores + i));
  greatest = hn::GetLane(hn::MaxOfLanes(d, maxima));
  const FloatVec maximum = hn::Set(d, greatest);
  FloatVec sums = hn::Zero(d);
  for (int64_t i = 0; i < count; i += kLanes) {
    const FloatVec weight = exp2_of_negative(d, hn::Sub(hn::LoadU(d, scores + i), maximum));
    hn::StoreU(weight, d, scores + i);
    sums = hn::Add(sums, weight);
  }
  total = hn::GetLane(hn::SumOfLanes(d, sums));
}

/// Some of the query heads of a piece's group.
template <class D, int kHeads>
class HeadTile {
 public:
  HeadTile(const Piece& piece, int64_t first_head) : piece_(piece), first_head_(first_head) {}

  void score(float* scores) {
    const int64_t dim = piece_.dim();
    const float* from = piece_.args.query.row(piece_.session) + (piece_.kv_head * piece_.group() + first_head_) * dim;
    HWY_ALIGN float queries[kHeads * kMaxHeadDim];
    // Scores are powers of two: exp(x) = 2^(x log2 e).
    const float scale = std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(dim));
    for (int64_t i = 0; i < kHeads * dim; ++i) queries[i] = from[i] * scale;
    for (SlotWalk walk(piece_); walk.next();) {
      if (walk.run().position_shift == 0)
        score_stretch(walk, queries, scores + walk.done());
      else
        score_moved(walk, queries, scores + walk.done());
    }
  }

  void weigh_and_mix(float* weights) {
    const int64_t dim = piece_.dim(), stride = Partial::floats(dim);
    float* mixed = piece_.partials + first_head_ * stride;
    for (int h = 0; h < kHeads; ++h) {
      std::fill_n(mixed + h * stride, dim, 0.0f);
      const Partial partial{mixed + h * stride, dim};
      weigh(weights + h * kAttendScoreRow, piece_.count, partial.maximum(), partial.sum());
    }
    for (SlotWalk walk(piece_); walk.next();) {
      const KvRun& run = walk.run();
      if (run.packed) {
        mix_codes<kHeads>(packed(run), walk.slot(), walk.count(), weights + walk.done(), dim, mixed, stride);
      } else {
        const HalfRows rows{run_values(run, piece_.args.layer.index, piece_.kv_head) + walk.slot() * dim, dim};
        mix_slots<D, kHeads>(D(), rows, walk.count(), weights + walk.done(), mixed, stride);
      }
    }
  }

 private:
  PackedRows packed(const KvRun& run) const {
    return packed_rows(run, piece_.args.layer, piece_.kv_head, piece_.args.head_dim);
  }
  void score_stretch(const SlotWalk& walk, const float* queries, float* scores) {
    const int64_t dim = piece_.dim();
    const KvRun& run = walk.run();
    if (run.packed) {
      return score_codes<kHeads>(packed(run), walk.slot(), walk.count(), queries, dim, scores);
    }
    const HalfRows rows{run_keys(run, piece_.args.layer.index, piece_.kv_head) + walk.slot() * dim, dim};
    score_slots<D, kHeads>(D(), rows, walk.count(), queries, dim, scores);
  }
  HWY_NOINLINE void score_moved(const SlotWalk& walk, const float* queries, float* scores) {
    const int64_t dim = piece_.dim();
    const RopeParams& rope = piece_.args.rope;
    HWY_ALIGN float turned[kHeads * kMaxHeadDim];
    std::copy_n(queries, kHeads * dim, turned);
    for (int h = 0; h < kHeads; ++h)
      rotate_head(rope, piece_.angles + walk.run_index() * rope.rotated, turned + h * dim);
    score_stretch(walk, turned, scores);
  }

  const Piece& piece_;
  const int64_t first_head_;
};

/// Calls body(tile, head) for the heads of a group in tiles of kHeadTile and a smaller one, from `head` on.
template <class D, class Body>
HWY_INLINE void for_each_tile(const Piece& piece, Body body) {
  int64_t head = 0;
  for (; head + kHeadTile <= piece.group(); head += kHeadTile) {
    HeadTile<D, kHeadTile> tile(piece, head);
    body(tile, head);
  }
  const auto last = [&](auto tile) HWY_ATTR { body(tile, head); };
  switch (piece.group() - head) {
    case 1: return last(HeadTile<D, 1>(piece, head));
    case 2: return last(HeadTile<D, 2>(piece, head));
    case 3: return last(HeadTile<D, 3>(piece, head));
  }
}

template <class Body>
HWY_INLINE void for_each_tile_of(const Piece& piece, Body body) {
  if (piece.dim() % kLanes == 0) return for_each_tile<FloatTag>(piece, body);
  for_each_tile<EightTag>(piece, body);
}

void attend_piece(const Piece& piece) {
  for_each_tile_of(piece, [](auto& tile, int64_t) HWY_ATTR {
    HWY_ALIGN float weights[kHeadTile * kAttendScoreRow];
    tile.score(weights);
    tile.weigh_and_mix(weights);
  });
}

/// The first half of attend_piece with calibration, which needs the extremes of all pieces.
void score_piece(const Piece& piece) {
  for_each_tile_of(piece,
                   [&](auto& tile, int64_t head) HWY_ATTR { tile.score(piece.scores + head * kAttendScoreRow); });
  for (int64_t head = 0; head < piece.group(); ++head) {
    const float* scores = piece.scores + head * kAttendScoreRow;
    float low = std::numeric_limits<float>::infinity(), high = -low;
    for (SlotWalk walk(piece); walk.next();) {
      if (!is_calibrated(walk.run())) continue;
      for (int64_t i = walk.done(); i < walk.done() + walk.count(); ++i) {
        low = std::min(low, scores[i]);
        high = std::max(high, scores[i]);
      }
    }
    const Partial partial{piece.partials + head * Partial::floats(piece.dim()), piece.dim()};
    partial.low() = low;
    partial.high() = high;
  }
}

/// KvCalibration's g, for one head's scores of a piece.
void calibrate(const Piece& piece, int64_t head) {
  float* scores = piece.scores + head * kAttendScoreRow;
  float low = std::numeric_limits<float>::infinity(), high = -low;
  float* const first = piece.partials - piece.first / kAttendSplitSlots * piece.partials_stride;
  for (int64_t p = 0; p < piece.pieces; ++p) {
    const Partial partial{first + p * piece.partials_stride + head * Partial::floats(piece.dim()), piece.dim()};
    low = std::min(low, partial.low());
    high = std::max(high, partial.high());
  }
  const KvCalibration& calibration = piece.args.calibration;
  const float slope = calibration.slope((high - low) / std::numbers::log2e_v<float>);
  const float least = low - calibration.tau_low * std::numbers::log2e_v<float>;
  for (SlotWalk walk(piece); walk.next();) {
    if (!is_calibrated(walk.run())) continue;
    for (int64_t i = walk.done(); i < walk.done() + walk.count(); ++i) scores[i] = least + slope * (scores[i] - low);
  }
}

/// The second half of attend_piece with calibration.
void finish_piece(const Piece& piece) {
  int64_t calibrated = 0;
  for (const KvRun* run = piece.runs(); run < piece.args.runs + piece.args.run_begin[piece.session + 1]; ++run)
    calibrated += is_calibrated(*run) ? piece.live(*run) : 0;
  for (int64_t head = 0; calibrated >= 2 && head < piece.group(); ++head) calibrate(piece, head);
  for_each_tile_of(
      piece, [&](auto& tile, int64_t head) HWY_ATTR { tile.weigh_and_mix(piece.scores + head * kAttendScoreRow); });
}

/// out[E] = the combined pieces of one head; partials are `stride` floats apart.
void combine_pieces(float* first, int64_t stride, int64_t pieces, int64_t dim, float* out) {
  const EightTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  float maximum = first[dim];
  for (int64_t p = 1; p < pieces; ++p) maximum = HWY_MAX(maximum, first[p * stride + dim]);
  float sum = 0;
  for (int64_t p = 0; p < pieces; ++p) {
    const Partial partial{first + p * stride, dim};
    // From here on the maximum is replaced by the factor that brings the piece to the common maximum.
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

/// Number of multiplications below which a second thread costs more than it saves.
constexpr int64_t kSerialWork = 1 << 16;

int64_t piece_count(int64_t slots) { return divide_up(slots, kAttendSplitSlots); }

int64_t count_slots(const AttendOneArgs& args, int64_t session, int64_t kv_head) {
  int64_t slots = 0;
  for (int32_t i = args.run_begin[session]; i < args.run_begin[session + 1]; ++i)
    slots += live_slots(args.runs[i], args.layer.index, args.kv_heads, kv_head);
  return slots;
}

/// Scratch, in floats: partials [B, pieces, H], angles [runs, rotated], live slots [B, G] as int32, and if calibrated
/// scores [B, pieces, H, kAttendScoreRow].
struct OneScratch {
  int64_t angles, counts, scores, total;

  OneScratch(int64_t sessions, int64_t pieces, int64_t runs, int64_t query_heads, int64_t head_dim, bool has_scores)
      : angles(sessions * pieces * query_heads * Partial::floats(head_dim)),
        counts(angles + runs * head_dim),
        scores(counts + sessions * query_heads),
        total(scores + (has_scores ? sessions * pieces * query_heads * kAttendScoreRow : 0)) {}
  int64_t bytes() const { return aligned_bytes(total * static_cast<int64_t>(sizeof(float))); }
};

int64_t most_slots(const AttendOneArgs& args) {
  int64_t most = 0;
  for (int64_t b = 0; b < args.query.rows; ++b)
    for (int64_t head = 0; head < args.kv_heads; ++head) most = std::max(most, count_slots(args, b, head));
  return most;
}

/// Division of one call into tasks.
class Work {
 public:
  explicit Work(const AttendOneArgs& args)
      : args_(args),
        sessions_(args.query.rows),
        group_(args.query_heads / args.kv_heads),
        pieces_(piece_count(most_slots(args))),
        scratch_(sessions_, pieces_, args.run_begin[sessions_], args.query_heads, args.head_dim, args.calibration.on) {}

  int64_t scratch_bytes() const { return scratch_.bytes(); }
  /// Fills in the data shared by all pieces.
  void prepare() {
    for (int64_t b = 0; b < sessions_; ++b) {
      for (int64_t head = 0; head < args_.kv_heads; ++head) {
        const int64_t slots = count_slots(args_, b, head);
        counts()[b * args_.kv_heads + head] = static_cast<int32_t>(slots);
        products_ += 2 * slots * group_ * args_.head_dim;
      }
    }
    set_angles();
  }

  int64_t tasks() const { return sessions_ * pieces_ * args_.kv_heads; }
  /// Tasks that a thread takes at a time.
  int64_t grain() const { return products_ < kSerialWork ? tasks() : 1; }
  int64_t pieces(int64_t session, int64_t kv_head) const {
    return piece_count(counts()[session * args_.kv_heads + kv_head]);
  }
  float* partial(int64_t session, int64_t piece, int64_t head) const {
    return floats() + ((session * pieces_ + piece) * args_.query_heads + head) * Partial::floats(args_.head_dim);
  }
  int64_t piece_stride() const { return args_.query_heads * Partial::floats(args_.head_dim); }

  Piece piece(int64_t task) const {
    const int64_t kv_head = task % args_.kv_heads, piece = task / args_.kv_heads % pieces_,
                  session = task / args_.kv_heads / pieces_;
    const int64_t slots = counts()[session * args_.kv_heads + kv_head], first = piece * kAttendSplitSlots;
    const int64_t head = kv_head * group_, row = (session * pieces_ + piece) * args_.query_heads + head;
    return {.args = args_,
            .angles = floats() + scratch_.angles + args_.run_begin[session] * args_.rope.rotated,
            .session = session,
            .kv_head = kv_head,
            .first = first,
            .count = std::min(slots - first, kAttendSplitSlots),
            .pieces = piece_count(slots),
            .partials = partial(session, piece, head),
            .partials_stride = piece_stride(),
            .scores = args_.calibration.on ? floats() + scratch_.scores + row * kAttendScoreRow : nullptr};
  }

 private:
  float* floats() const { return reinterpret_cast<float*>(args_.scratch.data); }
  int32_t* counts() const { return reinterpret_cast<int32_t*>(floats() + scratch_.counts); }

  /// Computes the angles by which shifted runs rotate the queries.
  void set_angles() const {
    float* const angles = floats() + scratch_.angles;
    for (int32_t i = args_.run_begin[0]; i < args_.run_begin[sessions_]; ++i) {
      const int32_t shift = args_.runs[i].position_shift;
      float* const to = angles + int64_t{i} * args_.rope.rotated;
      if (shift == 0) continue;
      if (i > args_.run_begin[0] && args_.runs[i - 1].position_shift == shift)
        std::copy_n(to - args_.rope.rotated, args_.rope.rotated, to);
      else
        set_rope_angles(args_.rope, -shift, to);
    }
  }

  const AttendOneArgs& args_;
  const int64_t sessions_, group_, pieces_;
  const OneScratch scratch_;
  int64_t products_ = 0;
};

bool check(const AttendOneArgs& args, const Work& work, Queue& queue) {
  const int64_t given = args.scratch.rows * args.scratch.cols, needed = work.scratch_bytes();
  if (given < needed) {
    queue.fail(OCELLUS_FAIL(Code::kInternal, "attend_one got %lld bytes of scratch instead of %lld",
                            static_cast<long long>(given), static_cast<long long>(needed)));
  }
  return queue.ok();
}

}  // namespace

HWY_EXPORT(attend_piece);
HWY_EXPORT(score_piece);
HWY_EXPORT(finish_piece);
HWY_EXPORT(combine_pieces);

int64_t attend_one_scratch_bytes(int64_t sessions, int64_t slots, int64_t runs, int32_t query_heads, int32_t head_dim,
                                 bool calibrated) {
  return OneScratch(sessions, piece_count(slots), runs, query_heads, head_dim, calibrated).bytes();
}

void cpu::attend_one(const AttendOneArgs& args, Queue& queue) {
  if (!queue.ok()) return;
  Work work(args);
  if (!check(args, work, queue)) return;
  work.prepare();
  const auto for_each_piece = [&](auto body) {
    queue.parallel(work.tasks(), work.grain(), [&](int64_t begin, int64_t end, int) {
      for (int64_t task = begin; task < end; ++task) {
        const Piece piece = work.piece(task);
        if (piece.count > 0) body(piece);
      }
    });
  };
  if (args.calibration.on) {
    for_each_piece([](const Piece& piece) { HWY_DYNAMIC_DISPATCH(score_piece)(piece); });
    for_each_piece([](const Piece& piece) { HWY_DYNAMIC_DISPATCH(finish_piece)(piece); });
  } else {
    for_each_piece([](const Piece& piece) { HWY_DYNAMIC_DISPATCH(attend_piece)(piece); });
  }
  // Cheap compared with the pieces, and always in the same order.
  const int64_t group = args.query_heads / args.kv_heads;
  for (int64_t b = 0; b < args.query.rows; ++b) {
    for (int64_t kv_head = 0; kv_head < args.kv_heads; ++kv_head) {
      const int64_t used = work.pieces(b, kv_head);
      for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        float* out = args.output.row(b) + head * args.head_dim;
        if (used == 0)
          std::fill_n(out, args.head_dim, 0.0f);
        else
          HWY_DYNAMIC_DISPATCH(combine_pieces)(work.partial(b, 0, head), work.piece_stride(), used, args.head_dim, out);
      }
    }
  }
}

}  // namespace ocellus
#endif  // HWY_ONCE
