// Flash attention (Dao et al. 2022) on vectors: one pass over the slots with a running maximum and sum.
//
// A task holds up to 64 columns: the query rows of one block times the query heads of one group. Blocks of 64 slots are
// expanded to f32 once and serve all columns. Scores are kept slots by columns, so that maximum, exponential and sum
// run down the columns without any reduction across lanes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attend_rows.h"
#include "kernels/attend_rows_plan.h"
#include "kernels/backends.h"
#include "kernels/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attend_rows_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

constexpr int kTileRows = 4;
constexpr int64_t kAllVisible = kAttendSlots;
// Accumulators must stay in registers: 4 x 4 of 32, or 4 x 2 of 16.
#if HWY_ARCH_ARM || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr int kTileVectors = 4;
#else
constexpr int kTileVectors = 2;
#endif

/// A left factor: element (i, k) at data[i * row_step + k * col_step].
struct LeftFactor {
  const float* data;
  int64_t row_step;
  int64_t col_step;
};

/// c[rows, kVectors * kLanes] = rescale * c + left * b; without kRescale, c = left * b. Rows in steps of kTileRows.
template <bool kRescale, int kVectors>
HWY_INLINE void multiply_columns(LeftFactor left, const float* b, int64_t b_stride, int64_t rows, int64_t depth,
                                 const float* rescale, float* c, int64_t c_stride) {
  const FloatTag d;
  for (int64_t row = 0; row < rows; row += kTileRows) {
    FloatVec sums[kTileRows][kVectors];
    for (int r = 0; r < kTileRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = hn::Zero(d);
        if (kRescale) {
          const float* old = c + (row + r) * c_stride + v * kLanes;
          sums[r][v] = hn::Mul(hn::LoadU(d, old), hn::Set(d, rescale[row + r]));
        }
      }
    }
    const float* a = left.data + row * left.row_step;
    for (int64_t k = 0; k < depth; ++k) {
      FloatVec right[kVectors];
      for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b + k * b_stride + v * kLanes);
      for (int r = 0; r < kTileRows; ++r) {
        const FloatVec factor = hn::Set(d, a[r * left.row_step + k * left.col_step]);
        for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(factor, right[v], sums[r][v]);
      }
    }
    for (int r = 0; r < kTileRows; ++r) {
      for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, c + (row + r) * c_stride + v * kLanes);
    }
  }
}

template <bool kRescale>
void multiply(LeftFactor left, const float* b, int64_t b_stride, int64_t rows, int64_t depth, int64_t cols,
              const float* rescale, float* c, int64_t c_stride) {
  int64_t col = 0;
  for (; col + kTileVectors * kLanes <= cols; col += kTileVectors * kLanes) {
    multiply_columns<kRescale, kTileVectors>(left, b + col, b_stride, rows, depth, rescale, c + col, c_stride);
  }
  for (; col + 2 * kLanes <= cols; col += 2 * kLanes) {
    multiply_columns<kRescale, 2>(left, b + col, b_stride, rows, depth, rescale, c + col, c_stride);
  }
  for (; col < cols; col += kLanes) {
    multiply_columns<kRescale, 1>(left, b + col, b_stride, rows, depth, rescale, c + col, c_stride);
  }
}

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

/// Where a task lies: its sequence, its key/value head, and its first row within the sequence.
struct TaskPlace {
  int64_t sequence, kv_head, first_row;
};

/// One task: column m = row * group + head of the group.
class QueryBlock {
 public:
  QueryBlock(const AttendRowsArgs& args, const AttendRowsPlan& plan, const TaskPlace& place,
             const AttendRowsScratch& scratch)
      : args_(args),
        s_(scratch),
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
    attend_runs();
    attend_own_rows();
    write_output();
  }

 private:
  void start() {
    // Scores come out in powers of two: exp(x) = 2^(x log2 e).
    const float scale = 1.44269504f / std::sqrt(static_cast<float>(dim_));
    for (int64_t m = 0; m < columns_; ++m) {
      const bool used = m < rows_ * group_;
      const float* query = used ? query_of(m) : nullptr;
      for (int64_t e = 0; e < dim_; ++e) s_.queries[e * columns_ + m] = used ? query[e] * scale : 0.0f;
    }
    std::fill_n(s_.mixed, columns_ * attend_padded(dim_), 0.0f);
    std::fill_n(s_.sums, columns_, 0.0f);
    std::fill_n(s_.maxima, columns_, -std::numeric_limits<float>::infinity());
  }

  const float* query_of(int64_t m) const {
    return args_.query.row(sequence_ * sequence_rows_ + first_row_ + m / group_) + head_offset(m);
  }
  int64_t head_offset(int64_t m) const { return (kv_head_ * group_ + m % group_) * dim_; }

  /// Short runs share a block of slots: in the past their order does not matter.
  void attend_runs() {
    int64_t filled = 0;
    for (int32_t i = 0; i < args_.run_count; ++i) {
      const KvRun& run = args_.runs[i];
      const Half* keys = run_keys(run, args_.layer, kv_head_);
      const Half* values = run_values(run, args_.layer, kv_head_);
      for (int64_t slot = 0; slot < run.slots;) {
        const int64_t count = std::min<int64_t>(kAttendSlots - filled, run.slots - slot);
        expand(keys + slot * dim_, values + slot * dim_, dim_, count, filled);
        slot += count;
        filled += count;
        if (filled < kAttendSlots) continue;
        absorb(filled, kAllVisible);
        filled = 0;
      }
    }
    if (filled > 0) absorb(filled, kAllVisible);
  }

  void attend_own_rows() {
    const KvLayerRows& own = args_.rows;
    const int64_t chunk_row = args_.first_row + first_row_;
    const int64_t visible = args_.causal ? chunk_row + rows_ : args_.row_count;
    for (int64_t slot = 0; slot < visible; slot += kAttendSlots) {
      const int64_t count = std::min(kAttendSlots, visible - slot);
      const int64_t at = sequence_ * own.sequence_stride + own.at(slot, kv_head_);
      expand(own.keys + at, own.values + at, own.row_stride, count, 0);
      absorb(count, args_.causal ? chunk_row - slot : kAllVisible);
    }
  }

  /// Slots lie `stride` values apart.
  void expand(const Half* keys, const Half* values, int64_t stride, int64_t count, int64_t at) {
    const int64_t together = stride == dim_ ? count : 1;
    for (int64_t i = 0; i < count; i += together) {
      expand_halves(keys + i * stride, together * dim_, s_.keys + (at + i) * dim_);
      expand_halves(values + i * stride, together * dim_, s_.values + (at + i) * dim_);
    }
  }

  /// Takes the expanded slots into the running softmax. Slot i is hidden from row r if i > last_visible + r.
  void absorb(int64_t slots, int64_t last_visible) {
    // Rows are computed in fours; the ones behind the last slot hold leftovers and are not used.
    multiply<false>({s_.keys, dim_, 1}, s_.queries, columns_, slots, dim_, columns_, nullptr, s_.weights, columns_);
    for (int64_t i = std::max<int64_t>(0, last_visible + 1); i < slots; ++i) {
      const int64_t hidden = std::min((i - last_visible) * group_, columns_);
      std::fill_n(s_.weights + i * columns_, hidden, -std::numeric_limits<float>::infinity());
    }
    update_weights(slots, columns_, s_);
    std::fill_n(s_.values + slots * dim_, kAttendPadding, 0.0f);
    multiply<true>({s_.weights, 1, columns_}, s_.values, dim_, columns_, slots, attend_padded(dim_), s_.rescale,
                   s_.mixed, attend_padded(dim_));
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
  const int64_t dim_, group_, kv_head_, sequence_, sequence_rows_, first_row_, rows_, columns_;
};

/// Task number `task`. Late blocks see the most slots; starting with them leaves small ones to fill up the end.
void attend_query_block(const AttendRowsArgs& args, const AttendRowsPlan& plan, int64_t task,
                        const AttendRowsScratch& scratch) {
  const int64_t heads = args.rows.heads;
  const int64_t block = plan.blocks - 1 - task / heads % plan.blocks;
  const TaskPlace place{task / (heads * plan.blocks), task % heads, block * plan.rows};
  QueryBlock(args, plan, place, scratch).attend();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {
namespace {

bool check(const AttendRowsArgs& args, Queue& queue) {
  for (int32_t i = 0; i < args.run_count; ++i) {
    if (args.runs[i].position_shift == 0) continue;
    queue.fail(OCELLUS_FAIL(Code::kInternal, "cache run %d was moved by %d positions, which attend_rows cannot read", i,
                            args.runs[i].position_shift));
  }
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
  if (device.is_cuda()) return attend_split_scratch_bytes(head_dim);
  return AttendRowsScratch::bytes(head_dim) * device.thread_count;
}

void cpu::attend_rows(const AttendRowsArgs& args, Queue& queue) {
  if (!queue.ok() || !check(args, queue)) return;
  const int64_t heads = args.rows.heads * args.sequences;
  const int64_t dim = args.rows.head_dim;
  const AttendRowsPlan plan = plan_attend_rows(args.query.rows / args.sequences, args.query_heads * args.sequences,
                                               heads, queue.thread_count());
  queue.parallel(plan.blocks * heads, 1, [&](int64_t begin, int64_t end, int worker) {
    const AttendRowsScratch scratch(args.scratch.data + worker * AttendRowsScratch::bytes(dim), dim);
    for (int64_t task = begin; task < end; ++task) HWY_DYNAMIC_DISPATCH(attend_query_block)(args, plan, task, scratch);
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
