// Column sums of attention in two passes. The first finds the maximum score of every line and the sum of its weights,
// as attend_rows does; the second computes the scores of the chunk's own rows once more and adds up each slot's share.
// The first stores scores as slots by lines, the second as lines by slots, so that neither adds across the lanes of a
// vector: a slot's shares are added in the order of the lines.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/cache/score_rows.h"
#include "kernels/cache/score_rows_plan.h"
#include "kernels/rows/rope_angles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cache/score_rows_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/kv_rows-inl.h"
#include "kernels/base/products-inl.h"
#include "kernels/base/vectors-inl.h"
#include "kernels/rows/rope-inl.h"
#include "platform/round_up.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Keys of one run, layer and key/value head, as f32 and rotated to the run's present positions.
class RunKeys {
 public:
  RunKeys(const ScoreRowsArgs& args, const KvRun& run, int64_t kv_head, const ScoreThreadScratch& scratch)
      : rope_(args.past.rope), run_(run), dim_(args.rows.head_dim), s_(scratch) {
    if (run.packed) {
      packed_ = packed_rows(run, args.past.layer, kv_head, args.rows.head_dim);
      offsets_.read(packed_, kKeyOffsets);
      steps_.read(packed_, kKeySteps);
    } else {
      halves_ = run_keys(run, args.past.layer.index, kv_head);
    }
    // Rotating a key by the run's shift is rotating the query back by it.
    if (run.position_shift != 0) set_rope_angles(rope_, run.position_shift, s_.angles);
  }

  void expand(int64_t slot, int64_t count, float* to) const {
    if (halves_ != nullptr) expand_halves(halves_ + slot * dim_, count * dim_, to);
    for (int64_t i = 0; i < count; ++i) {
      if (halves_ == nullptr) decode(slot + i, to + i * dim_);
      if (run_.position_shift != 0) rotate_head(rope_, s_.angles, to + i * dim_);
    }
  }

 private:
  void decode(int64_t slot, float* to) const {
    expand_codes(packed_.keys, slot, offsets_.data(), steps_.data(), dim_, to);
  }

  const RopeParams& rope_;
  const KvRun& run_;
  const int64_t dim_;
  const ScoreThreadScratch& s_;
  PackedRows packed_ = {};
  ScaleRow offsets_, steps_;
  const Half* halves_ = nullptr;
};

/// Copies the query of line m, scaled so that scores come out in powers of two, exp(x) = 2^(x log2 e), to
/// to[0], to[step], ...
void copy_query(const ScoreRowsArgs& args, int64_t kv_head, int64_t m, float* to, int64_t step) {
  const int64_t dim = args.rows.head_dim, group = args.query_heads / args.rows.heads;
  const float scale = std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(dim));
  const float* query = args.query.row(m / group) + (kv_head * group + m % group) * dim;
  for (int64_t e = 0; e < dim; ++e) to[e * step] = query[e] * scale;
}

/// One task of the first pass: column c is line first + c.
class LineBlock {
 public:
  LineBlock(const ScoreRowsArgs& args, const AttendRowsPlan& plan, int64_t kv_head, int64_t first_row,
            const ScoreThreadScratch& scratch)
      : args_(args),
        s_(scratch),
        dim_(args.rows.head_dim),
        group_(plan.group),
        kv_head_(kv_head),
        first_row_(first_row),
        lines_(std::min(plan.rows, args.query.rows - first_row) * plan.group),
        columns_(attend_padded(lines_)) {}

  void measure(ScoreLine* out) {
    std::fill_n(s_.across, dim_ * columns_, 0.0f);
    for (int64_t m = 0; m < lines_; ++m) copy_query(args_, kv_head_, first_row_ * group_ + m, s_.across + m, columns_);
    std::fill_n(s_.sums, columns_, 0.0f);
    std::fill_n(s_.maxima, columns_, -kInfinity);
    if (args_.past.calibration.on) find_slopes();
    visit_runs(false, [&](int64_t slots, bool calibrated) {
      score(slots);
      if (calibrated) calibrate(slots);
      absorb(slots);
    });
    absorb_own_rows();
    const int64_t first = args_.row_count - args_.query.rows + first_row_;
    for (int64_t m = 0; m < lines_; ++m) {
      const float weight = args_.observers.weight(first + m / group_, args_.row_count - 1);
      out[m] = {s_.maxima[m], score_factor(s_.maxima[m], s_.sums[m], args_.adds_one, weight)};
    }
  }

 private:
  bool is_calibrated(const KvRun& run) const { return args_.past.calibration.on && run.calibrated; }

  /// Calls absorb(slots, whether they are calibrated) for blocks of expanded keys. Short runs share a block: in the
  /// past their order does not matter.
  template <class Absorb>
  void visit_runs(bool calibrated_only, Absorb absorb) {
    int64_t filled = 0;
    bool calibrated = false;
    for (int32_t i = 0; i < args_.past.count; ++i) {
      const KvRun& run = args_.past.runs[i];
      const int64_t live = live_slots(run, args_.past.layer.index, args_.rows.heads, kv_head_);
      if (live == 0 || (calibrated_only && !is_calibrated(run))) continue;
      if (filled > 0 && calibrated != is_calibrated(run)) {
        absorb(filled, calibrated);
        filled = 0;
      }
      calibrated = is_calibrated(run);
      const RunKeys keys(args_, run, kv_head_, s_);
      for (int64_t slot = 0; slot < live;) {
        const int64_t count = std::min(kAttendSlots - filled, live - slot);
        keys.expand(slot, count, s_.along + filled * dim_);
        slot += count;
        filled += count;
        if (filled < kAttendSlots) continue;
        absorb(filled, calibrated);
        filled = 0;
      }
    }
    if (filled > 0) absorb(filled, calibrated);
  }

  void absorb_own_rows() {
    const KvLayerRows& own = args_.rows;
    const int64_t chunk_row = args_.row_count - args_.query.rows + first_row_;
    const int64_t visible = args_.observers.see_all ? args_.row_count : chunk_row + lines_ / group_;
    for (int64_t slot = 0; slot < visible; slot += kAttendSlots) {
      const int64_t slots = std::min(kAttendSlots, visible - slot);
      for (int64_t i = 0; i < slots; ++i)
        expand_halves(own.keys + own.at(slot + i, kv_head_), dim_, s_.along + i * dim_);
      score(slots);
      // Row r of the block does not see slots after chunk_row + r.
      for (int64_t i = args_.observers.see_all ? slots : std::max<int64_t>(0, chunk_row - slot + 1); i < slots; ++i)
        std::fill_n(s_.scores + i * columns_, std::min((slot + i - chunk_row) * group_, columns_), -kInfinity);
      absorb(slots);
    }
  }

  /// Rows are computed in fours; those after the last slot hold leftovers and are not used.
  void score(int64_t slots) {
    multiply<false>({s_.along, dim_, 1}, s_.across, columns_, slots, dim_, columns_, nullptr, s_.scores, columns_);
  }

  void find_slopes() {
    std::fill_n(s_.lows, columns_, kInfinity);
    std::fill_n(s_.highs, columns_, -kInfinity);
    int64_t seen = 0;
    visit_runs(true, [&](int64_t slots, bool) {
      seen += slots;
      score(slots);
      widen_ends(s_.scores, slots, columns_, s_.lows, s_.highs);
    });
    for (int64_t m = 0; m < columns_; ++m) {
      const ScoreSlope slope = ScoreSlope::of(args_.past.calibration, s_.lows[m], s_.highs[m], seen);
      s_.slopes[m] = slope.slope;
      s_.lows[m] = slope.low;
      s_.bases[m] = slope.base;
    }
  }

  void calibrate(int64_t slots) {
    const FloatTag d;
    for (int64_t column = 0; column < columns_; column += kLanes) {
      const FloatVec slope = hn::LoadU(d, s_.slopes + column), low = hn::LoadU(d, s_.lows + column);
      const FloatVec base = hn::LoadU(d, s_.bases + column);
      for (int64_t i = 0; i < slots; ++i) {
        float* scores = s_.scores + i * columns_ + column;
        hn::StoreU(hn::MulAdd(slope, hn::Sub(hn::LoadU(d, scores), low), base), d, scores);
      }
    }
  }

  /// Adds scores to the maxima and sums of their columns. NaN scores stay in the sum.
  void absorb(int64_t slots) {
    const FloatTag d;
    for (int64_t column = 0; column < columns_; column += kLanes) {
      const float* scores = s_.scores + column;
      const FloatVec old_maximum = hn::LoadU(d, s_.maxima + column);
      FloatVec maximum = old_maximum;
      for (int64_t i = 0; i < slots; ++i) maximum = hn::Max(maximum, hn::LoadU(d, scores + i * columns_));
      FloatVec sum = hn::Mul(hn::LoadU(d, s_.sums + column), exp2_of_negative(d, hn::Sub(old_maximum, maximum)));
      for (int64_t i = 0; i < slots; ++i) {
        const FloatVec score = hn::LoadU(d, scores + i * columns_);
        const FloatVec weight = exp2_of_negative(d, hn::Sub(score, maximum));
        sum = hn::Add(sum, hn::IfThenElse(hn::IsNaN(score), score, weight));
      }
      hn::StoreU(maximum, d, s_.maxima + column);
      hn::StoreU(sum, d, s_.sums + column);
    }
  }

  const ScoreRowsArgs& args_;
  const ScoreThreadScratch s_;
  const int64_t dim_, group_, kv_head_, first_row_, lines_, columns_;
};

/// Runs task number `task` of the first pass. Late blocks see the most slots; starting with them leaves small ones for
/// the end.
void measure_lines(const ScoreRowsArgs& args, const AttendRowsPlan& plan, int64_t task,
                   const ScoreThreadScratch& scratch, ScoreLine* lines) {
  const int64_t heads = args.rows.heads, kv_head = task % heads;
  const int64_t first_row = (plan.blocks - 1 - task / heads) * plan.rows;
  LineBlock block(args, plan, kv_head, first_row, scratch);
  block.measure(lines + (kv_head * args.query.rows + first_row) * plan.group);
}

/// Data of a line for the second pass, besides the first pass's ScoreLine.
struct LineView {
  int64_t visible;  // own rows that it sees, from the block's first one on
  float term;       // kEntropy: log2 of its factor; kDensity: value that a dense row adds
};

/// Returns the fact of the attention `share` that slots get from a line.
template <AttentionFact kFact>
FloatVec fact_of(FloatVec exponent, FloatVec weight, FloatVec share, float term) {
  const FloatTag d;
  if (kFact == AttentionFact::kDensity)
    return hn::IfThenElseZero(hn::Ge(weight, hn::Set(d, kDensityShare)), hn::Set(d, term));
  const FloatVec log = hn::Mul(hn::Set(d, -std::numbers::ln2_v<float>), hn::Add(exponent, hn::Set(d, term)));
  return hn::IfThenElse(hn::Eq(share, hn::Zero(d)), hn::Zero(d), hn::Mul(share, log));
}

/// Adds the shares that own rows first .. get from `count` lines, and their facts. Scores are lines by slots.
template <AttentionFact kFact>
void add_shares(const ScoreLine* lines, const LineView* views, int64_t count, int64_t slots,
                const ScoreThreadScratch& s) {
  const FloatTag d;
  for (int64_t column = 0; column < slots; column += kLanes) {
    FloatVec sum = hn::Zero(d), facts = hn::Zero(d);
    for (int64_t m = 0; m < count; ++m) {
      const int64_t seen = views[m].visible - column;
      if (seen <= 0) continue;
      const auto visible = [&](FloatVec x) {
        return seen >= kLanes ? x : hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(seen)), x);
      };
      const FloatVec score = hn::LoadU(d, s.scores + m * kAttendSlots + column);
      const FloatVec exponent = hn::Sub(score, hn::Set(d, lines[m].largest));
      const FloatVec weight = exp2_of_negative(d, exponent);
      const FloatVec share = hn::Mul(weight, hn::Set(d, lines[m].factor));
      sum = hn::Add(sum, visible(share));
      if (kFact != AttentionFact::kNone)
        facts = hn::Add(facts, visible(fact_of<kFact>(exponent, weight, share, views[m].term)));
    }
    hn::StoreU(hn::Add(hn::LoadU(d, s.sums + column), sum), d, s.sums + column);
    if (kFact != AttentionFact::kNone) hn::StoreU(hn::Add(hn::LoadU(d, s.facts + column), facts), d, s.facts + column);
  }
}

/// Returns the second pass's data of a line whose row sees `visible` own rows, from row `first` on.
LineView view_line(AttentionFact fact, const ScoreLine& line, int64_t visible, int64_t first) {
  if (fact == AttentionFact::kEntropy) return {visible, std::log2(line.factor)};
  const bool counts = line.factor != 0;
  return {visible, counts ? 1.0f / static_cast<float>(visible + first) : 0.0f};
}

/// One task of the second pass: own rows [first, first + 64) of a head.
void sum_columns(const ScoreRowsArgs& args, int64_t kv_head, int64_t first, const ScoreThreadScratch& s,
                 const ScoreLine* lines) {
  const KvLayerRows& own = args.rows;
  const int64_t dim = own.head_dim, group = args.query_heads / own.heads;
  const int64_t slots = std::min(kAttendSlots, args.row_count - first);
  for (int64_t i = 0; i < slots; ++i) expand_halves(own.keys + own.at(first + i, kv_head), dim, s.expanded + i * dim);
  for (int64_t e = 0; e < dim; ++e)
    for (int64_t i = 0; i < kAttendSlots; ++i)
      s.across[e * kAttendSlots + i] = i < slots ? s.expanded[i * dim + e] : 0.0f;
  std::fill_n(s.sums, kAttendSlots, 0.0f);
  std::fill_n(s.facts, kAttendSlots, 0.0f);

  // Lines before the first one that sees any of the rows are skipped; block boundaries stay.
  const int64_t first_query = args.row_count - args.query.rows, line_count = args.query.rows * group;
  const int64_t first_line = args.observers.see_all ? 0 : std::max<int64_t>(0, first - first_query) * group;
  for (int64_t line = first_line / kAttendColumns * kAttendColumns; line < line_count; line += kAttendColumns) {
    const int64_t count = std::min(kAttendColumns, line_count - line);
    const ScoreLine* const measured = lines + kv_head * line_count + line;
    LineView views[kAttendColumns];
    for (int64_t m = 0; m < count; ++m) {
      copy_query(args, kv_head, line + m, s.along + m * dim, 1);
      const int64_t visible = args.observers.see_all ? args.row_count : first_query + (line + m) / group + 1;
      views[m] = view_line(args.fact, measured[m], visible - first, first);
    }
    multiply<false>({s.along, dim, 1}, s.across, kAttendSlots, count, dim, attend_padded(slots), nullptr, s.scores,
                    kAttendSlots);
    if (args.fact == AttentionFact::kEntropy)
      add_shares<AttentionFact::kEntropy>(measured, views, count, slots, s);
    else if (args.fact == AttentionFact::kDensity)
      add_shares<AttentionFact::kDensity>(measured, views, count, slots, s);
    else
      add_shares<AttentionFact::kNone>(measured, views, count, slots, s);
  }
  float* out = args.scores.row(kv_head) + first;
  for (int64_t i = 0; i < slots; ++i) out[i] = (args.adds ? out[i] : 0.0f) + s.sums[i] / static_cast<float>(group);
  if (args.fact == AttentionFact::kNone) return;
  float* facts = args.facts.row(kv_head) + first;
  for (int64_t i = 0; i < slots; ++i) facts[i] = s.facts[i] / static_cast<float>(group);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(measure_lines);
HWY_EXPORT(sum_columns);

int64_t score_rows_scratch_bytes(int64_t window, int64_t row_count, int32_t query_heads, int32_t head_dim,
                                 const DeviceTraits& device) {
  const int64_t rows = std::min(window, row_count);
  const int64_t lines = score_lines_bytes(rows, query_heads);
  if (device.is_cuda()) return lines + score_slopes_bytes(rows, query_heads) + score_parts_bytes();
  return lines + ScoreThreadScratch::bytes(head_dim) * device.thread_count;
}

void cpu::score_rows(const ScoreRowsArgs& args, Queue& queue) {
  check_score_rows(args, queue);
  if (!queue.ok()) return;
  const int64_t heads = args.rows.heads, dim = args.rows.head_dim;
  auto* const lines = reinterpret_cast<ScoreLine*>(args.scratch.data);
  std::byte* const threads = args.scratch.data + score_lines_bytes(args.query.rows, args.query_heads);
  const auto scratch_of = [&](int worker) {
    return ScoreThreadScratch(threads + worker * ScoreThreadScratch::bytes(dim), dim);
  };
  const AttendRowsPlan plan = plan_attend_rows(args.query.rows, args.query_heads, heads, queue.thread_count());
  queue.parallel(plan.blocks * heads, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t task = begin; task < end; ++task)
      HWY_DYNAMIC_DISPATCH(measure_lines)(args, plan, task, scratch_of(worker), lines);
  });
  // The first rows are seen by the most lines.
  const int64_t blocks = divide_up(args.row_count, kAttendSlots);
  queue.parallel(blocks * heads, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t task = begin; task < end; ++task)
      HWY_DYNAMIC_DISPATCH(sum_columns)(args, task % heads, task / heads * kAttendSlots, scratch_of(worker), lines);
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
