// Flash attention (Dao et al. 2022) on vectors: one pass over the slots with a running maximum and sum.
//
// A task holds up to 64 columns: the query rows of one block times the query heads of one group. Blocks of 64 slots are
// expanded to f32 once and serve all columns, rounded to bf16 where that is wanted and the CPU is faster so. Scores are
// stored as slots by columns, so that maximum, exponential and sum run down the columns without any reduction across
// lanes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/attention/attend_rows.h"
#include "kernels/attention/attend_rows_plan.h"
#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/base/pairs.h"
#include "kernels/rows/rope_angles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attend_rows_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/kv_rows-inl.h"
#include "kernels/base/products-inl.h"
#include "kernels/base/vectors-inl.h"
#include "kernels/rows/rope-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

/// Below every score, and finite, so that differences are numbers: for columns that have seen nothing yet.
constexpr float kNoScore = -1e30f;

/// Turns the scores of `slots` slots into weights relative to the new maximum of their column.
void update_weights(int64_t slots, int64_t columns, const AttendRowsScratch& s) {
  const FloatTag d;
  for (int64_t column = 0; column < columns; column += kLanes) {
    float* scores = s.weights + column;
    const FloatVec old_maximum = hn::LoadU(d, s.maxima + column);
    FloatVec maximum = old_maximum;
    for (int64_t i = 0; i < slots; ++i) maximum = hn::Max(maximum, hn::LoadU(d, scores + i * columns));
    const FloatVec rescale = exp2_of_negative(d, hn::Sub(old_maximum, maximum));
    FloatVec sum = hn::Mul(hn::LoadU(d, s.sums + column), rescale);
    for (int64_t i = 0; i < slots; ++i) {
      const FloatVec weight = exp2_of_negative(d, hn::Sub(hn::LoadU(d, scores + i * columns), maximum));
      hn::StoreU(weight, d, scores + i * columns);
      sum = hn::Add(sum, weight);
    }
    hn::StoreU(maximum, d, s.maxima + column);
    hn::StoreU(rescale, d, s.rescale + column);
    hn::StoreU(sum, d, s.sums + column);
  }
}

void calibrate(int64_t slots, int64_t columns, const AttendRowsScratch& s) {
  const FloatTag d;
  for (int64_t column = 0; column < columns; column += kLanes) {
    const FloatVec base = hn::LoadU(d, s.base + column), slope = hn::LoadU(d, s.slope + column);
    for (int64_t i = 0; i < slots; ++i) {
      float* scores = s.weights + i * columns + column;
      hn::StoreU(hn::MulAdd(slope, hn::LoadU(d, scores), base), d, scores);
    }
  }
}

/// Place of a task: its sequence, its key/value head, and its first row within the sequence.
struct TaskPlace {
  int64_t sequence, kv_head, first_row;
};

/// One task: column m = row * group + head of the group.
class QueryBlock {
 public:
  QueryBlock(const AttendRowsArgs& args, const AttendRowsPlan& plan, const TaskPlace& place,
             const AttendRowsScratch& scratch, CpuMath math)
      : args_(args),
        s_(scratch),
        pairs_(OCELLUS_PAIRS && math == CpuMath::kBf16 && has_pair_products()),
        dim_(args.rows.head_dim),
        group_(plan.group),
        kv_head_(place.kv_head),
        sequence_(place.sequence),
        sequence_rows_(args.query.rows / args.sequences),
        first_row_(place.first_row),
        rows_(std::min(plan.rows, sequence_rows_ - first_row_)),
        columns_(attend_padded(rows_ * group_)) {}

  void attend() {
    start();
    if (find_calibration()) {
      for_each_block(Slots::kPlain, [&](int64_t slots, int64_t hidden) HWY_ATTR { absorb_past(slots, hidden); });
      for_each_block(Slots::kCalibrated, [&](int64_t slots, int64_t hidden) HWY_ATTR {
        score(slots);
        calibrate(slots, columns_, s_);
        hide_columns(slots, hidden);
        mix(slots);
      });
    } else {
      for_each_block(Slots::kAll, [&](int64_t slots, int64_t hidden) HWY_ATTR { absorb_past(slots, hidden); });
    }
    attend_own_rows();
    write_output();
  }

 private:
  void start() {
    const float scale = std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(dim_));
    for (int64_t m = 0; m < columns_; ++m) {
      const bool used = m < rows_ * group_;
      const float* query = used ? query_of(m) : nullptr;
      for (int64_t e = 0; e < dim_; ++e) s_.queries[e * columns_ + m] = used ? query[e] * scale : 0.0f;
    }
    if (pairs_) pair_rows(s_.queries, dim_, columns_);
    std::fill_n(s_.mixed, columns_ * attend_padded(dim_), 0.0f);
    std::fill_n(s_.sums, columns_, 0.0f);
    std::fill_n(s_.maxima, columns_, kNoScore);
  }

  const float* query_of(int64_t m) const {
    return args_.query.row(sequence_ * sequence_rows_ + first_row_ + m / group_) + head_offset(m);
  }
  int64_t head_offset(int64_t m) const { return (kv_head_ * group_ + m % group_) * dim_; }

  /// Finds every column's line from scores of calibrated slots to calibrated scores. False: there is nothing to
  /// calibrate.
  bool find_calibration() {
    if (!args_.past.calibration.on) return false;
    if (calibrated_slots(rows_ - 1) < 2) return false;
    std::fill_n(s_.base, columns_, std::numeric_limits<float>::infinity());
    std::fill_n(s_.slope, columns_, -std::numeric_limits<float>::infinity());
    for_each_block(Slots::kCalibrated, [&](int64_t count, int64_t hidden) HWY_ATTR {
      float low[kAttendColumns], high[kAttendColumns];  // columns that do not see the block
      std::copy_n(s_.base, hidden, low);
      std::copy_n(s_.slope, hidden, high);
      score(count);
      widen_ends(s_.weights, count, columns_, s_.base, s_.slope);  // extremes of the scores so far
      std::copy_n(low, hidden, s_.base);
      std::copy_n(high, hidden, s_.slope);
    });
    for (int64_t m = 0; m < columns_; ++m) {
      const float low = s_.base[m], high = s_.slope[m];
      if (calibrated_slots(std::min(m / group_, rows_ - 1)) < 2) {
        s_.base[m] = 0.0f;
        s_.slope[m] = 1.0f;
        continue;
      }
      s_.slope[m] = args_.past.calibration.slope((high - low) / std::numbers::log2e_v<float>);
      s_.base[m] = low - args_.past.calibration.tau_low * std::numbers::log2e_v<float> - s_.slope[m] * low;
    }
    return true;
  }

  /// Number of calibrated slots that a row of the block sees.
  int64_t calibrated_slots(int64_t row) const {
    int64_t slots = 0;
    for (int32_t i = 0; i < args_.past.count; ++i) {
      const KvRun& run = args_.past.runs[i];
      if (is_calibrated(run) && hidden_rows(run) <= row) slots += live(run);
    }
    return slots;
  }
  /// Number of rows of the block before the first that sees a run.
  int64_t hidden_rows(const KvRun& run) const {
    return std::clamp<int64_t>(run.visible_from - (args_.first_row + first_row_), 0, rows_);
  }

  enum class Slots { kAll, kPlain, kCalibrated };

  /// Calls body(slots, hidden) for blocks of expanded slots that the first `hidden` columns do not see. Short runs
  /// share a block: in the past their order does not matter.
  template <class Body>
  HWY_INLINE void for_each_block(Slots which, Body body) {
    int64_t filled = 0, hidden = 0;
    uint16_t visible_from = 0;
    for (int32_t i = 0; i < args_.past.count; ++i) {
      const KvRun& run = args_.past.runs[i];
      if (which != Slots::kAll && is_calibrated(run) != (which == Slots::kCalibrated)) continue;
      // The division into blocks must not depend on which rows are processed together, and so on which runs they see.
      if (run.visible_from != visible_from && filled > 0) {
        body(filled, hidden);
        filled = 0;
      }
      visible_from = run.visible_from;
      if (hidden_rows(run) == rows_) continue;
      hidden = hidden_rows(run) * group_;
      const int64_t slots = live(run);
      if (run.position_shift != 0 && slots > 0) set_rope_angles(args_.past.rope, run.position_shift, angles_);
      for (int64_t slot = 0; slot < slots;) {
        const int64_t count = std::min<int64_t>(kAttendSlots - filled, slots - slot);
        expand_run(run, slot, count, filled);
        slot += count;
        filled += count;
        if (filled < kAttendSlots) continue;
        body(filled, hidden);
        filled = 0;
      }
    }
    if (filled > 0) body(filled, hidden);
  }
  int64_t live(const KvRun& run) const { return live_slots(run, args_.past.layer.index, args_.rows.heads, kv_head_); }

  void attend_own_rows() {
    const KvLayerRows& own = args_.rows;
    const RowSpan seen = own_rows_seen();
    // Slots share blocks in the same way whichever rows are worked on together.
    for (int64_t slot = seen.begin / kAttendSlots * kAttendSlots; slot < seen.end; slot += kAttendSlots) {
      const int64_t count = std::min(kAttendSlots, seen.end - slot);
      const int64_t at = sequence_ * own.sequence_stride + own.at(slot, kv_head_);
      expand(own.keys + at, own.values + at, own.row_stride, count, 0);
      score(count);
      if (args_.row_bias != nullptr) add_bias(slot, count);
      hide_own_rows(slot, count);
      mix(count);
    }
  }

  /// Adds the bias of the expanded chunk rows, of which the first is row `slot`.
  void add_bias(int64_t slot, int64_t count) {
    const FloatTag d;
    for (int64_t i = 0; i < count; ++i) {
      const FloatVec bias = hn::Set(d, args_.row_bias[slot + i] * std::numbers::log2e_v<float>);
      float* const scores = s_.weights + i * columns_;
      for (int64_t column = 0; column < columns_; column += kLanes)
        hn::StoreU(hn::Add(hn::LoadU(d, scores + column), bias), d, scores + column);
    }
  }

  /// Chunk rows that some row of the block sees.
  RowSpan own_rows_seen() const {
    const int64_t end = args_.first_row + first_row_ + rows_;
    switch (args_.bounds.kind) {
      case RowBounds::Kind::kCausal: return {0, static_cast<int32_t>(end)};
      case RowBounds::Kind::kAll: return {0, static_cast<int32_t>(args_.row_count)};
      case RowBounds::Kind::kListed: return {span_of(0).begin, span_of(rows_ - 1).end};
    }
    return {};
  }
  RowSpan span_of(int64_t row) const { return args_.bounds.spans[first_row_ + row]; }

  /// Hides the expanded chunk rows, of which the first is row `slot`, from the rows that do not see them.
  void hide_own_rows(int64_t slot, int64_t count) {
    if (args_.bounds.kind == RowBounds::Kind::kCausal) {
      const int64_t last_visible = args_.first_row + first_row_ - slot;  // to the first row of the block
      for (int64_t i = std::max<int64_t>(0, last_visible + 1); i < count; ++i) hide(i, 0, i - last_visible);
    } else if (args_.bounds.kind == RowBounds::Kind::kListed) {
      int64_t ended = 0, begun = 0;  // rows whose spans have ended before a slot, and begun
      for (int64_t i = 0; i < count; ++i) {
        while (ended < rows_ && span_of(ended).end <= slot + i) ++ended;
        while (begun < rows_ && span_of(begun).begin <= slot + i) ++begun;
        hide(i, 0, ended);
        hide(i, begun, rows_);
      }
    }
  }
  /// Hides slot i of a block from rows [first, end).
  void hide(int64_t i, int64_t first, int64_t end) {
    if (first < end)
      std::fill_n(s_.weights + i * columns_ + first * group_, (end - first) * group_,
                  -std::numeric_limits<float>::infinity());
  }

  /// Slots lie `stride` values apart.
  void expand(const Half* keys, const Half* values, int64_t stride, int64_t count, int64_t at) {
    const int64_t together = stride == dim_ ? count : 1;
    for (int64_t i = 0; i < count; i += together) {
      expand_halves(keys + i * stride, together * dim_, s_.keys + (at + i) * dim_);
      expand_halves(values + i * stride, together * dim_, s_.values + (at + i) * dim_);
    }
  }

  void expand_run(const KvRun& run, int64_t slot, int64_t count, int64_t at) {
    if (run.packed) {
      const PackedRows rows = packed_rows(run, args_.past.layer, kv_head_, static_cast<int32_t>(dim_));
      const ScaleRow key_offsets(rows, kKeyOffsets), key_steps(rows, kKeySteps);
      ValueScales of_values(rows);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t to = (at + i) * dim_;
        expand_codes(rows.keys, slot + i, key_offsets.data(), key_steps.data(), dim_, s_.keys + to);
        of_values.turn_to(slot + i);
        expand_codes(rows.values, slot + i, of_values.offsets(), of_values.steps(), dim_, s_.values + to);
      }
    } else {
      const int64_t from = slot * dim_;
      expand(run_keys(run, args_.past.layer.index, kv_head_) + from,
             run_values(run, args_.past.layer.index, kv_head_) + from, dim_, count, at);
    }
    // Turning the keys on is as good as turning the queries back, and here they are few.
    for (int64_t i = 0; run.position_shift != 0 && i < count; ++i)
      rotate_head(args_.past.rope, angles_, s_.keys + (at + i) * dim_);
  }

  /// Takes the expanded slots into the running softmax, but for the first `hidden` columns.
  void absorb_past(int64_t slots, int64_t hidden) {
    score(slots);
    hide_columns(slots, hidden);
    mix(slots);
  }
  void hide_columns(int64_t slots, int64_t hidden) {
    for (int64_t i = 0; hidden > 0 && i < slots; ++i)
      std::fill_n(s_.weights + i * columns_, hidden, -std::numeric_limits<float>::infinity());
  }
  // Keys and values just expanded are used up by these.
  void score(int64_t slots) {
    // Rows are computed in fours; those after the last slot hold leftovers and are not used.
    if (pairs_) {
      pair_neighbours(s_.keys, slots * dim_);
      multiply<false, true>({s_.keys, dim_ / 2, 1}, s_.queries, columns_, slots, dim_ / 2, columns_, nullptr,
                            s_.weights, columns_);
    } else {
      multiply<false>({s_.keys, dim_, 1}, s_.queries, columns_, slots, dim_, columns_, nullptr, s_.weights, columns_);
    }
  }
  void mix(int64_t slots) {
    update_weights(slots, columns_, s_);
    std::fill_n(s_.values + slots * dim_, kAttendPadding, 0.0f);
    const int64_t padded = attend_padded(dim_);
    if (pairs_) {
      pair_rows(s_.weights, slots, columns_);
      pair_rows(s_.values, slots, dim_);
      multiply<true, true>({s_.weights, 1, columns_}, s_.values, dim_, columns_, divide_up(slots, 2), padded,
                           s_.rescale, s_.mixed, padded);
    } else {
      multiply<true>({s_.weights, 1, columns_}, s_.values, dim_, columns_, slots, padded, s_.rescale, s_.mixed, padded);
    }
  }

  void write_output() const {
    const EightTag d;
    for (int64_t m = 0; m < rows_ * group_; ++m) {
      const float* mixed = s_.mixed + m * attend_padded(dim_);
      float* out = args_.output.row(sequence_ * sequence_rows_ + first_row_ + m / group_) + head_offset(m);
      const auto scale = hn::Set(d, 1.0f / s_.sums[m]);
      for (int64_t e = 0; e < dim_; e += static_cast<int64_t>(hn::Lanes(d))) {
        hn::StoreU(hn::Mul(hn::LoadU(d, mixed + e), scale), d, out + e);
      }
    }
  }

  const AttendRowsArgs& args_;
  const AttendRowsScratch s_;
  const bool pairs_;  // products of bf16, with sums in f32
  const int64_t dim_, group_, kv_head_, sequence_, sequence_rows_, first_row_, rows_, columns_;
  HWY_ALIGN float angles_[kMaxHeadDim];  // angles of the current run
};

/// Runs task number `task`. Late blocks see the most slots; starting with them leaves small ones for the end.
void attend_query_block(const AttendRowsArgs& args, const AttendRowsPlan& plan, int64_t task,
                        const AttendRowsScratch& scratch, CpuMath math) {
  const int64_t heads = args.rows.heads;
  const int64_t block = plan.blocks - 1 - task / heads % plan.blocks;
  const TaskPlace place{task / (heads * plan.blocks), task % heads, block * plan.rows};
  QueryBlock(args, plan, place, scratch, math).attend();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {
namespace {

bool check(const AttendRowsArgs& args, Queue& queue) {
  if (args.past.rope.rotated > kMaxHeadDim)
    queue.fail(OCELLUS_FAIL(Code::kInternal, "attend_rows cannot rotate %d values of a head", args.past.rope.rotated));
  const int64_t given = args.scratch.rows * args.scratch.cols;
  const int64_t needed = attend_rows_scratch_bytes(args.rows.head_dim, queue.traits());
  if (given < needed)
    queue.fail(OCELLUS_FAIL(Code::kInternal, "attend_rows got %lld bytes of scratch instead of %lld",
                            static_cast<long long>(given), static_cast<long long>(needed)));
  return queue.ok();
}

}  // namespace

HWY_EXPORT(attend_query_block);

int64_t attend_rows_scratch_bytes(int32_t head_dim, const DeviceTraits& device) {
  if (device.is_cuda()) return attend_split_scratch_bytes(head_dim, device.lean);
  return AttendRowsScratch::bytes(head_dim) * device.thread_count;
}

void cpu::attend_rows(const AttendRowsArgs& args, Queue& queue) {
  if (!queue.ok() || !check(args, queue)) return;
  const int64_t heads = args.rows.heads * args.sequences;
  const int64_t dim = args.rows.head_dim;
  const AttendRowsPlan plan = plan_attend_rows(args.query.rows / args.sequences, args.query_heads * args.sequences,
                                               heads, queue.thread_count());
  const CpuMath math = queue.traits().cpu_math;
  queue.parallel(plan.blocks * heads, 1, [&](int64_t begin, int64_t end, int worker) {
    const AttendRowsScratch scratch(args.scratch.data + worker * AttendRowsScratch::bytes(dim), dim);
    for (int64_t task = begin; task < end; ++task)
      HWY_DYNAMIC_DISPATCH(attend_query_block)(args, plan, task, scratch, math);
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
