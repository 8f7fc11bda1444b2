#pragma once

#include "kernels/base/kv_run.h"
#include "kernels/rows/store_kv.h"
#include "platform/queue.h"

namespace ocellus {

/// One packed block to fill, in every key/value head of a layer.
struct PackJob {
  KvRun out;  // slots: how many to write, fewer if `counts` says so; its block begins with slot 0 (first = 0)
  int32_t first_index = 0;  // first of the block's rows in the list of rows
  /// Rows of the list whose extremes set offsets and steps. range_count 0: the block's own rows, as many as are
  /// written. With one range for the whole sequence, as in CalibQuant's paper, all images' rows are in it. A head with
  /// fewer rows than that (out.counts) uses all it has.
  int32_t range_first = 0;
  int32_t range_count = 0;
};

/// Number of rows of the list, from *first on, that set offsets and steps in a head that writes `written` rows.
OCELLUS_EVERYWHERE inline int32_t range_rows(const PackJob& job, int64_t layer, int64_t heads, int64_t head,
                                             int32_t written, int32_t* first) {
  const bool own = job.range_count == 0 || written == 0;
  *first = own ? job.first_index : job.range_first;
  if (own) return written;
  if (job.out.counts == nullptr) return job.range_count;
  const int32_t list_end = job.first_index - job.out.counted_before + job.out.counts[layer * heads + head];
  const int32_t reached = list_end - job.range_first;
  return reached < job.range_count ? reached : job.range_count;
}

/// Packs rows of one layer into blocks: slot i of job j takes row indices[head * index_stride + first_index + i].
/// Offsets, steps and codes: quant/kv_format.h, KvScale and the comment before it; Han, Zhang et al., CalibQuant,
/// section 4.1.
///
/// Shapes    rows [G, capacity, E]; indices [index_stride] per head, index_stride 0: the same list for all heads;
///           jobs [job_count]. All in device memory
/// Types     f16 to codes; least, greatest, offset, step and quotient in f32, offset and step rounded to f16
/// Divisible E by 8 and at most kMaxHeadDim; on CUDA E by 32
/// Scales    f16, or coded as the layer says (quant/kv_scales.h): then no value lies outside its channel's codes; by
///           token: values have theirs by slot and group of channels, regardless of the jobs' ranges (KIVI: Liu et al.
///           2024, section 3.2), and E is a multiple of kValueGroup
/// Special   a channel with a value in its range that is not finite gets a NaN offset, so that attention shows it, a
///           step of one and zeros as codes; with coded scales all channels of the block's keys or values do, and by
///           token the group of such a value; a block without rows has zero offsets and steps of one; bytes after the
///           last slot are not written
/// Same bits on all backends, unless offsets are NaN
struct PackKvArgs {
  KvLayerRows rows;
  const int32_t* indices = nullptr;
  int64_t index_stride = 0;
  const PackJob* jobs = nullptr;
  int32_t job_count = 0;
  KvLayer layer = {};
  float key_range = 1.0f;  // see KvScale
  float value_range = 1.0f;
  /// One range for the values of all channels of a head, as in the baseline of CalibQuant's table 4; f16 scales only.
  bool global_values = false;
};
void pack_kv(const PackKvArgs& args, Queue& queue);

}  // namespace ocellus
