#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/cache/pack_kv.h"
#include "quant/kv_scales.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cache/pack_kv_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/vectors-inl.h"

#ifndef OCELLUS_KERNELS_PACK_KV_SHARED
#define OCELLUS_KERNELS_PACK_KV_SHARED
namespace ocellus {
namespace {

/// Rows of one head's keys or values, selected by a list of their numbers.
struct ListedRows {
  const Half* first;
  int64_t stride;
  const int32_t* list;
  int64_t count;

  const Half* row(int64_t i) const { return first + list[i] * stride; }
};

/// One task: the keys or the values of one block in one key/value head.
struct PackTask {
  ListedRows rows;
  ListedRows range_rows;
  float range;
  int64_t dim;
  int32_t bits;
  KvScaleForm form;
  bool is_global;  // all channels have one range
  std::byte* block;
  KvScaleRow offset_row, step_row;
  uint8_t* codes;
  Half* token_scales;  // values with scales by token: those of the first slot; else null
};

/// Scales of a block's keys or values as decoded.
struct PackScales {
  Half offsets[kMaxHeadDim];
  Half steps[kMaxHeadDim];
};

}  // namespace
}  // namespace ocellus
#endif  // OCELLUS_KERNELS_PACK_KV_SHARED

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

/// Minimum and maximum values of every channel; `invalid` is 1 instead of 0 if a value is not finite.
struct ChannelEnds {
  HWY_ALIGN float least[kMaxHeadDim];
  HWY_ALIGN float greatest[kMaxHeadDim];
  HWY_ALIGN float invalid[kMaxHeadDim];
};

void find_ends(const ListedRows& rows, int64_t dim, ChannelEnds& ends) {
  const EightTag d;
  std::fill_n(ends.least, dim, std::numeric_limits<float>::infinity());
  std::fill_n(ends.greatest, dim, -std::numeric_limits<float>::infinity());
  std::fill_n(ends.invalid, dim, 0.0f);
  // If halves are converted in software, infinity and NaN become numbers beyond the largest.
  const auto limit = hn::Set(d, kLargestHalf), one = hn::Set(d, 1.0f);
  for (int64_t i = 0; i < rows.count; ++i) {
    const Half* row = rows.row(i);
    for (int64_t e = 0; e < dim; e += static_cast<int64_t>(hn::Lanes(d))) {
      const auto x = load_halves(d, row + e);
      hn::Store(hn::Min(x, hn::Load(d, ends.least + e)), d, ends.least + e);
      hn::Store(hn::Max(x, hn::Load(d, ends.greatest + e)), d, ends.greatest + e);
      const auto is_valid = hn::Le(hn::Abs(x), limit);
      hn::Store(hn::IfThenElse(is_valid, hn::Load(d, ends.invalid + e), one), d, ends.invalid + e);
    }
  }
}

/// Gives all channels the ends of all of them.
void join_ends(int64_t dim, ChannelEnds& ends) {
  std::fill_n(ends.least, dim, *std::min_element(ends.least, ends.least + dim));
  std::fill_n(ends.greatest, dim, *std::max_element(ends.greatest, ends.greatest + dim));
  std::fill_n(ends.invalid, dim, *std::max_element(ends.invalid, ends.invalid + dim));
}

void set_half_scales(const PackTask& task, const ChannelEnds& ends, PackScales& scales) {
  for (int64_t e = 0; e < task.dim; ++e) {
    KvScale scale;
    if (ends.invalid[e] != 0.0f)
      scale.offset = std::numeric_limits<float>::quiet_NaN();
    else if (task.range_rows.count > 0)
      scale = KvScale::of(ends.least[e], ends.greatest[e], task.range, task.bits);
    scales.offsets[e] = round_to_half(scale.offset);
    scales.steps[e] = round_to_half(scale.step);
  }
  auto* const halves = reinterpret_cast<Half*>(task.block);
  std::copy_n(scales.offsets, task.dim, halves + task.offset_row * task.dim);
  std::copy_n(scales.steps, task.dim, halves + task.step_row * task.dim);
}

/// Stores a row of scales in 6 bits each, and returns its decoded form.
void store_coded_row(const PackTask& task, KvScaleRow row, const KvScaleCoding& coding, const uint8_t* codes,
                     Half* read_back) {
  const Half ends[2] = {{coding.least}, {coding.place}};
  std::memcpy(task.block + scale_ends_at(row), ends, sizeof ends);
  auto* to = reinterpret_cast<uint8_t*>(task.block + scale_codes_at(row, static_cast<int32_t>(task.dim)));
  for (int64_t e = 0; e < task.dim; e += 4, to += 3)
    put_scale_codes({codes[e], codes[e + 1], codes[e + 2], codes[e + 3]}, to);
  for (int64_t e = 0; e < task.dim; ++e) read_back[e] = {coding.value_bits(codes[e])};
}

void set_coded_scales(const PackTask& task, const ChannelEnds& ends, PackScales& scales) {
  const int64_t dim = task.dim;
  const bool any = task.range_rows.count > 0;
  const bool valid = std::all_of(ends.invalid, ends.invalid + dim, [](float flag) { return flag == 0.0f; });
  float low[kMaxHeadDim] = {}, steps[kMaxHeadDim] = {};
  uint8_t codes[kMaxHeadDim] = {};
  for (int64_t e = 0; e < dim; ++e) low[e] = any && valid ? task.range * (ends.least[e] + 0.0f) : 0.0f;
  KvScaleCoding coding = KvScaleCoding::of(*std::min_element(low, low + dim), *std::max_element(low, low + dim));
  for (int64_t e = 0; e < dim; ++e) codes[e] = static_cast<uint8_t>(coding.code_below(low[e]));
  if (!valid) coding = KvScaleCoding::not_a_number();
  store_coded_row(task, task.offset_row, coding, codes, scales.offsets);
  for (int64_t e = 0; e < dim; ++e)
    steps[e] =
        any && valid ? reaching_step(ends.greatest[e], half_to_float(scales.offsets[e]), task.range, task.bits) : 1.0f;
  coding = KvScaleCoding::of(*std::min_element(steps, steps + dim), *std::max_element(steps, steps + dim));
  for (int64_t e = 0; e < dim; ++e) codes[e] = static_cast<uint8_t>(coding.code_above(steps[e]));
  store_coded_row(task, task.step_row, coding, codes, scales.steps);
}

/// Writes one byte per code; 0 for NaN.
void find_codes(const PackTask& task, const PackScales& scales, const Half* row, uint8_t* codes) {
  const EightTag d;
  const hn::Rebind<uint8_t, EightTag> bytes;
  const auto most = hn::Set(d, static_cast<float>((1 << task.bits) - 1));
  for (int64_t e = 0; e < task.dim; e += static_cast<int64_t>(hn::Lanes(d))) {
    const auto above = hn::Sub(load_halves(d, row + e), load_halves(d, scales.offsets + e));
    const auto steps = hn::Div(above, load_halves(d, scales.steps + e));
    const auto code = hn::Min(hn::IfThenElseZero(hn::Ge(steps, hn::Zero(d)), steps), most);
    hn::StoreU(hn::DemoteTo(bytes, hn::NearestInt(code)), bytes, codes + e);
  }
}

void pack_codes(const uint8_t* codes, int32_t bits, int64_t row_bytes, uint8_t* row) {
  if (bits == 8) {
    std::memcpy(row, codes, static_cast<size_t>(row_bytes));
    return;
  }
  for (int64_t i = 0; i < row_bytes; ++i) {
    uint32_t byte = 0;
    for (int32_t k = 0; k < 8 / bits; ++k) byte = byte << bits | *codes++;
    row[i] = static_cast<uint8_t>(byte);
  }
}

/// The scales of one row, group by group.
void set_token_scales(const PackTask& task, const Half* row, Half* stored, PackScales& scales) {
  const EightTag d;
  const auto limit = hn::Set(d, kLargestHalf);
  for (int64_t first = 0; first < task.dim; first += kValueGroup, stored += 2) {
    auto least = hn::Set(d, std::numeric_limits<float>::infinity()), greatest = hn::Neg(least);
    auto is_valid = hn::Eq(limit, limit);
    for (int64_t e = first; e < first + kValueGroup; e += static_cast<int64_t>(hn::Lanes(d))) {
      const auto x = load_halves(d, row + e);
      least = hn::Min(x, least);
      greatest = hn::Max(x, greatest);
      is_valid = hn::And(is_valid, hn::Le(hn::Abs(x), limit));
    }
    KvScale scale;
    if (hn::AllTrue(d, is_valid))
      scale = KvScale::of(hn::GetLane(hn::MinOfLanes(d, least)), hn::GetLane(hn::MaxOfLanes(d, greatest)), task.range,
                          task.bits);
    else
      scale.offset = std::numeric_limits<float>::quiet_NaN();
    stored[0] = round_to_half(scale.offset);
    stored[1] = round_to_half(scale.step);
    std::fill_n(scales.offsets + first, kValueGroup, stored[0]);
    std::fill_n(scales.steps + first, kValueGroup, stored[1]);
  }
}

/// Packs values as in KIVI: every row with scales of its own.
void pack_rows_by_token(const PackTask& task) {
  const int64_t row_bytes = task.dim * task.bits / 8;
  PackScales scales;
  uint8_t codes[kMaxHeadDim];
  for (int64_t i = 0; i < task.rows.count; ++i) {
    set_token_scales(task, task.rows.row(i), task.token_scales + i * 2 * (task.dim / kValueGroup), scales);
    find_codes(task, scales, task.rows.row(i), codes);
    pack_codes(codes, task.bits, row_bytes, task.codes + i * row_bytes);
  }
}

void pack_rows(const PackTask& task) {
  if (task.token_scales != nullptr) return pack_rows_by_token(task);
  ChannelEnds ends;
  find_ends(task.range_rows, task.dim, ends);
  if (task.is_global) join_ends(task.dim, ends);
  PackScales scales;
  if (task.form == KvScaleForm::k6Bit)
    set_coded_scales(task, ends, scales);
  else
    set_half_scales(task, ends, scales);
  const int64_t row_bytes = task.dim * task.bits / 8;
  uint8_t codes[kMaxHeadDim];
  for (int64_t i = 0; i < task.rows.count; ++i) {
    find_codes(task, scales, task.rows.row(i), codes);
    pack_codes(codes, task.bits, row_bytes, task.codes + i * row_bytes);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {
namespace {

PackTask describe(const PackKvArgs& args, const PackJob& job, int64_t head, bool is_values) {
  const KvLayerRows& from = args.rows;
  const PackedRows to = packed_rows(job.out, args.layer, head, from.head_dim);
  const int32_t* list = args.indices + head * args.index_stride;
  const ListedRows rows = {(is_values ? from.values : from.keys) + from.at(0, head), from.row_stride,
                           list + job.first_index, live_slots(job.out, args.layer.index, from.heads, head)};
  ListedRows ranged = rows;
  int32_t first = 0;
  const CodeMatrix& codes = is_values ? to.values : to.keys;
  ranged.count = range_rows(job, args.layer.index, from.heads, head, static_cast<int32_t>(rows.count), &first);
  ranged.list = list + first;
  return {.rows = rows,
          .range_rows = ranged,
          .range = is_values ? args.value_range : args.key_range,
          .dim = from.head_dim,
          .bits = codes.bits,
          .form = to.scales,
          .is_global = is_values && args.global_values && to.scales == KvScaleForm::kF16,
          .block = const_cast<std::byte*>(to.block),
          .offset_row = is_values ? kValueOffsets : kKeyOffsets,
          .step_row = is_values ? kValueSteps : kKeySteps,
          .codes = const_cast<uint8_t*>(codes.data),
          .token_scales = is_values && to.by_token() ? const_cast<Half*>(to.token_scales(0)) : nullptr};
}

}  // namespace

HWY_EXPORT(pack_rows);

void cpu::pack_kv(const PackKvArgs& args, Queue& queue) {
  const int64_t heads = args.rows.heads;
  if (args.rows.head_dim > kMaxHeadDim || args.rows.head_dim % 8 != 0) {
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "pack_kv cannot pack heads of %d values", args.rows.head_dim));
  }
  queue.parallel(args.job_count * heads * 2, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const PackJob& job = args.jobs[task / 2 / heads];
      HWY_DYNAMIC_DISPATCH(pack_rows)(describe(args, job, task / 2 % heads, task % 2 == 1));
    }
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
