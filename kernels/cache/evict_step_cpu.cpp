#include <algorithm>
#include <cmath>

#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/cache/evict_step.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cache/evict_step_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/kv_rows-inl.h"
#include "kernels/base/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

/// to[s] = scale * query . key s, for contiguous f16 keys.
void score_keys(const float* query, const Half* keys, int64_t count, int64_t dim, float scale, float* to) {
  const EightTag d;
  for (int64_t s = 0; s < count; ++s) {
    auto sum = hn::Zero(d);
    for (int64_t e = 0; e < dim; e += static_cast<int64_t>(hn::Lanes(d)))
      sum = hn::MulAdd(hn::LoadU(d, query + e), load_halves(d, keys + s * dim + e), sum);
    to[s] = scale * hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

/// The same for rows of codes and several heads: queries [heads, E], to [heads, stride].
void score_codes(const PackedRows& rows, const float* queries, int64_t heads, int64_t count, float scale, float* to,
                 int64_t stride) {
  const EightTag d;
  const int64_t dim = rows.head_dim;
  const ScaleRow offsets(rows, kKeyOffsets), steps(rows, kKeySteps);
  HWY_ALIGN float key[kMaxHeadDim];
  for (int64_t s = 0; s < count; ++s) {
    expand_codes(rows.keys, s, offsets.data(), steps.data(), dim, key);
    for (int64_t h = 0; h < heads; ++h) {
      auto sum = hn::Zero(d);
      for (int64_t e = 0; e < dim; e += static_cast<int64_t>(hn::Lanes(d)))
        sum = hn::MulAdd(hn::LoadU(d, queries + h * dim + e), hn::Load(d, key + e), sum);
      to[h * stride + s] = scale * hn::GetLane(hn::SumOfLanes(d, sum));
    }
  }
}

void round_row(const float* from, int64_t count, Half* to) { round_to_halves(from, count, to); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {
namespace {

HWY_EXPORT(score_keys);
HWY_EXPORT(score_codes);
HWY_EXPORT(round_row);

/// Scratch on the CPU: rotated queries and keys of all rows, then scores of all rows' query heads.
struct EvictScratch {
  int64_t row_values, score_values;

  EvictScratch(int64_t slots, int32_t query_heads, int32_t kv_heads, int32_t head_dim)
      : row_values((int64_t{query_heads} + kv_heads) * head_dim), score_values(query_heads * slots) {}
  int64_t bytes(int64_t rows) const { return rows * (row_values + score_values) * static_cast<int64_t>(sizeof(float)); }
};

/// One row, layer and key/value head of a step.
class HeadStep {
 public:
  HeadStep(const EvictStepArgs& args, int64_t row, int64_t head)
      : args_(args),
        step_(args.tiles.steps[row]),
        tiles_(args.tiles.runs + row * args.tiles.per_row),
        head_(head),
        line_(int64_t{args.layer.index} * args.heads.kv + head) {}

  void settle() const {
    if (step_.eviction.settles == 0) return;
    const Place newest{&tiles_[step_.new_tile], step_.new_slot};
    const Place victim = find_victim(newest);
    if (victim.run == nullptr) return;  // all stay: the newest goes
    if (!victim.run->packed) return move(newest, victim);
    Place spare;
    const int32_t tile = find_spare(tiles_, step_.new_tile, line_, &spare.slot);
    if (tile < 0) return;
    spare.run = &tiles_[tile];
    close_gap(victim);
    move(newest, spare);
    ++live_count(*spare.run, line_);
  }

  void enter() const {
    const int64_t at = args_.ledger.first_slot(tiles_[step_.new_tile]) + step_.new_slot;
    args_.ledger.positions.row(line_)[at] = step_.position;
    if (args_.ledger.sums.data != nullptr) args_.ledger.sums.row(line_)[at] = 0;
  }

  int64_t count_live() const {
    int64_t count = 0;
    visit_live([&](const KvRun&, int32_t live) { count += live; });
    return count;
  }

  /// `queries`: the row's [H * E], then its keys [G * E], rotated; `scores`: [H, stride].
  void observe(const float* queries, float* scores, int64_t stride) const {
    const int64_t dim = args_.heads.dim, group = args_.heads.query / args_.heads.kv;
    const float* query = queries + head_ * group * dim;
    const float* key = queries + (args_.heads.query + head_) * dim;
    float* const first = scores + head_ * group * stride;
    const int64_t count = score_slots(query, key, first, stride);
    for (int64_t h = 0; h < group; ++h) {
      if (args_.calibration.on) calibrate(first + h * stride);
      make_probabilities(first + h * stride, count);
    }
    const SlotLedger& ledger = args_.ledger;
    int64_t at = 0;
    const auto note = [&](int64_t column) {
      float sum = 0;
      for (int64_t h = 0; h < group; ++h) sum += first[h * stride + at];
      ledger.latest.row(line_)[column] = sum / static_cast<float>(group);
      ++at;
    };
    visit_live([&](const KvRun& run, int32_t live) {
      for (int32_t s = 0; s < live; ++s) note(ledger.first_slot(run) + s);
    });
    note(ledger.first_slot(tiles_[step_.new_tile]) + step_.new_slot);
  }

 private:
  struct Place {
    const KvRun* run = nullptr;
    int32_t slot = 0;
  };

  /// Visits all live slots but the new one.
  template <class Visit>
  void visit_live(Visit visit) const {
    for (int32_t i = 0; i < step_.new_tile; ++i)
      visit(tiles_[i], live_slots(tiles_[i], args_.layer.index, args_.heads.kv, head_));
    visit(tiles_[step_.new_tile], step_.new_slot);
  }

  int64_t column(const Place& place) const { return args_.ledger.first_slot(*place.run) + place.slot; }

  /// Adds the latest attention to the sums, and finds the slot to evict.
  Place find_victim(const Place& newest) const {
    const SlotLedger& ledger = args_.ledger;
    const bool sums = ledger.sums.data != nullptr;
    if (sums) ledger.sums.row(line_)[column(newest)] += ledger.latest.row(line_)[column(newest)];
    uint64_t least = kNothingGoes;
    Place victim;
    visit_live([&](const KvRun& run, int32_t live) {
      const int64_t first = ledger.first_slot(run);
      for (int32_t s = 0; s < live; ++s) {
        if (sums) ledger.sums.row(line_)[first + s] += ledger.latest.row(line_)[first + s];
        const uint64_t order = order_of(first + s);
        if (order >= least) continue;
        least = order;
        victim = {&run, s};
      }
    });
    return victim;
  }

  void move_entry(int64_t from, int64_t to) const {
    const SlotLedger& ledger = args_.ledger;
    ledger.positions.row(line_)[to] = ledger.positions.row(line_)[from];
    if (ledger.sums.data != nullptr) ledger.sums.row(line_)[to] = ledger.sums.row(line_)[from];
  }

  /// Between slots of pages.
  void move(const Place& from, const Place& to) const {
    const int64_t dim = args_.heads.dim, layer = args_.layer.index;
    std::copy_n(run_keys(*from.run, layer, head_) + from.slot * dim, dim,
                run_keys(*to.run, layer, head_) + to.slot * dim);
    std::copy_n(run_values(*from.run, layer, head_) + from.slot * dim, dim,
                run_values(*to.run, layer, head_) + to.slot * dim);
    move_entry(column(from), column(to));
  }

  /// Drops a row of a packed block: the block's last live row takes its place.
  void close_gap(const Place& gap) const {
    const KvRun& run = *gap.run;
    const PackedRows rows = packed_rows(run, args_.layer, head_, args_.heads.dim);
    const int32_t last = --live_count(run, line_) - run.first;  // counted from the run's first slot
    for (const CodeMatrix& codes : {rows.keys, rows.values})
      std::copy_n(codes.row(last), codes.row_bytes, const_cast<uint8_t*>(codes.row(gap.slot)));
    move_entry(column({&run, last}), column(gap));
  }

  uint64_t order_of(int64_t column) const {
    const int32_t position = args_.ledger.positions.row(line_)[column];
    if (position == kStays) return kNothingGoes;
    if (args_.ledger.sums.data == nullptr) return order_by_age(position);
    const int32_t newest = step_.position - 1;
    if (position > newest - step_.eviction.recent) return kNothingGoes;
    return order_by_sum(args_.ledger.sums.row(line_)[column], position);
  }

  /// Scores of all live slots and the new one, for the heads of a group; returns their number.
  int64_t score_slots(const float* queries, const float* key, float* to, int64_t stride) const {
    const int64_t dim = args_.heads.dim, group = args_.heads.query / args_.heads.kv;
    const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
    int64_t count = 0;
    const auto score = [&](const Half* keys, int64_t slots) {
      for (int64_t h = 0; h < group; ++h)
        HWY_DYNAMIC_DISPATCH(score_keys)(queries + h * dim, keys, slots, dim, scale, to + h * stride + count);
      count += slots;
    };
    visit_live([&](const KvRun& run, int32_t live) {
      if (!run.packed) return score(run_keys(run, args_.layer.index, head_), live);
      const PackedRows rows = packed_rows(run, args_.layer, head_, args_.heads.dim);
      HWY_DYNAMIC_DISPATCH(score_codes)(rows, queries, group, live, scale, to + count, stride);
      count += live;
    });
    Half rounded[kMaxHeadDim];
    HWY_DYNAMIC_DISPATCH(round_row)(key, dim, rounded);
    score(rounded, 1);
    return count;
  }

  /// Calibrates the scores of packed slots, if there are two.
  void calibrate(float* scores) const {
    const auto visit_packed = [&](auto visit) {
      int64_t at = 0;
      visit_live([&](const KvRun& run, int32_t live) {
        for (int32_t s = 0; run.packed && s < live; ++s) visit(scores[at + s]);
        at += live;
      });
    };
    int64_t packed = 0;
    float low = INFINITY, high = -INFINITY;
    visit_packed([&](float score) {
      ++packed;
      low = std::min(low, score);
      high = std::max(high, score);
    });
    if (packed < 2) return;
    const KvCalibration& calibration = args_.calibration;
    const float slope = calibration.slope(high - low);
    visit_packed([&](float& score) { score = calibration.apply(score, low, slope); });
  }

  static void make_probabilities(float* scores, int64_t count) {
    const float most = *std::max_element(scores, scores + count);
    float sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += scores[i] = std::exp(scores[i] - most);
    for (int64_t i = 0; i < count; ++i) scores[i] /= sum;
  }

  const EvictStepArgs& args_;
  const StepRow& step_;
  KvRun* tiles_;
  int64_t head_, line_;
};

/// The row's queries and keys, rotated.
void rotate_row(const EvictStepArgs& a, int64_t row, float* to, Queue& queue) {
  const int64_t dim = a.heads.dim, queries = a.heads.query * dim, keys = a.heads.kv * dim;
  std::copy_n(a.query.row(row), queries, to);
  std::copy_n(a.key.row(row), keys, to + queries);
  cpu::rotate({.values = DeviceView<float>(to, 1, queries + keys),
               .head_dim = a.heads.dim,
               .params = a.rope,
               .angles = a.angles.slice_rows(row, 1)},
              queue);
}

void observe_rows(const EvictStepArgs& a, Queue& queue) {
  int64_t most = 0;
  for (int64_t b = 0; b < a.rows; ++b)
    if (a.tiles.steps[b].active != 0)
      for (int64_t g = 0; g < a.heads.kv; ++g) most = std::max(most, HeadStep(a, b, g).count_live() + 1);
  const EvictScratch scratch(most, a.heads.query, a.heads.kv, a.heads.dim);
  if (a.scratch.rows * a.scratch.cols < scratch.bytes(a.rows)) {
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "evict_step got %lld bytes of scratch instead of %lld",
                                   static_cast<long long>(a.scratch.rows * a.scratch.cols),
                                   static_cast<long long>(scratch.bytes(a.rows))));
  }
  float* const rotated = reinterpret_cast<float*>(a.scratch.data);
  float* const scores = rotated + a.rows * scratch.row_values;
  for (int64_t b = 0; b < a.rows; ++b)
    if (a.tiles.steps[b].active != 0) rotate_row(a, b, rotated + b * scratch.row_values, queue);
  queue.parallel(a.rows * a.heads.kv, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / a.heads.kv;
      if (a.tiles.steps[row].active == 0) continue;
      HeadStep(a, row, i % a.heads.kv)
          .observe(rotated + row * scratch.row_values, scores + row * scratch.score_values, most);
    }
  });
}

}  // namespace

int64_t evict_step_scratch_bytes(int64_t rows, int64_t slots, int64_t tiles, int32_t query_heads, int32_t kv_heads,
                                 int32_t head_dim, KvFormat packed_format, const DeviceTraits& device) {
  if (device.is_cuda())
    return rows * query_heads * tiles * evict_tile_slots(packed_format) * static_cast<int64_t>(sizeof(float));
  return EvictScratch(slots, query_heads, kv_heads, head_dim).bytes(rows);
}

void cpu::evict_step(const EvictStepArgs& args, Queue& queue) {
  if (!queue.ok()) return;
  queue.parallel(args.rows * args.heads.kv, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      if (args.tiles.steps[i / args.heads.kv].active == 0) continue;
      const HeadStep head(args, i / args.heads.kv, i % args.heads.kv);
      head.settle();
      if (!args.settle_only) head.enter();
    }
  });
  if (args.settle_only) return;
  for (int64_t b = 0; b < args.rows; ++b) {
    const StepRow& step = args.tiles.steps[b];
    if (step.active != 0 && step.eviction.moves_sinks != 0)
      args.tiles.runs[b * args.tiles.per_row].position_shift = step.position - step.eviction.slots;
  }
  if (args.ledger.sums.data != nullptr) observe_rows(args, queue);
}

}  // namespace ocellus
#endif  // HWY_ONCE
