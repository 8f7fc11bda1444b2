#include "kernels/attention/attend_one.h"
#include "kernels/attention/attend_step.h"
#include "kernels/attention/step/plan.h"
#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attend_step_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

/// Stores the active rows' rotated keys and their values in their new slots.
void store_new_slots(const AttendStepArgs& args) {
  const int64_t dim = args.heads.dim;
  for (int64_t b = 0; b < args.query.rows; ++b) {
    if (args.tiles.steps[b].active == 0) continue;
    const StepSlot newest = args.tiles.new_slot(b);
    const KvRun& tile = args.tiles.at(b, newest.tile);
    for (int64_t head = 0; head < args.heads.kv; ++head) {
      const int64_t to = newest.slot * dim;
      round_to_halves(args.key.row(b) + head * dim, dim, run_keys(tile, args.layer.index, head) + to);
      round_to_halves(args.value.row(b) + head * dim, dim, run_values(tile, args.layer.index, head) + to);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {
namespace {

/// Scratch on the CPU: the live runs of all rows as attend_one reads them, the beginning of each row's runs, then
/// attend_one's own scratch.
struct ListBytes {
  int64_t runs, begin;

  ListBytes(int64_t run_count, int64_t rows)
      : runs(aligned_bytes(run_count * static_cast<int64_t>(sizeof(KvRun)))),
        begin(aligned_bytes((rows + 1) * static_cast<int64_t>(sizeof(int32_t)))) {}
  int64_t total() const { return runs + begin; }
};

/// Inactive rows hold nothing to rotate.
void rotate_active(const AttendStepArgs& args, const ActivationView& values, Queue& queue) {
  const int64_t rows = args.query.rows;
  for (int64_t first = 0, end = 0; first < rows; first = end + 1) {
    for (end = first; end < rows && args.tiles.steps[end].active != 0;) ++end;
    if (end == first) continue;
    cpu::rotate({.values = values.slice_rows(first, end - first),
                 .head_dim = args.heads.dim,
                 .params = args.rope,
                 .angles = args.angles.slice_rows(first, end - first)},
                queue);
  }
}

/// Numbers of the tiles that a row sees.
struct SeenTiles {
  StepSlot first, newest;
  int64_t count = 0;

  SeenTiles(const StepTiles& tiles, int64_t row) {
    if (tiles.steps[row].active == 0) return;
    newest = tiles.new_slot(row);
    first = window_start(tiles.window, newest);
    count = newest.tile + 1 - first.tile;
  }
};

void list_live(const AttendStepArgs& args, KvRun* runs, int32_t* begin) {
  int32_t count = 0;
  for (int64_t b = 0; b < args.query.rows; ++b) {
    begin[b] = count;
    const SeenTiles seen(args.tiles, b);
    for (int32_t i = 0; i < seen.count; ++i) runs[count++] = args.tiles.at(b, seen.first.tile + i);
    if (seen.count == 0) continue;
    runs[count - 1].slots = seen.newest.slot + 1;
    runs[count - 1].counts = nullptr;
    KvRun& first = runs[begin[b]];
    if (seen.first.slot > 0) first = slice_run(first, seen.first.slot, first.slots - seen.first.slot, args.heads.dim);
  }
  begin[args.query.rows] = count;
}

}  // namespace

HWY_EXPORT(store_new_slots);

int64_t attend_step_scratch_bytes(int64_t rows, int64_t slots, int64_t tiles, int32_t query_heads, int32_t kv_heads,
                                  int32_t head_dim, KvFormat packed_format, const DeviceTraits& device) {
  if (device.is_cuda())
    return AttendStepScratch::most_bytes(rows, tiles, query_heads, kv_heads, head_dim, packed_format,
                                         device.batch_invariant);
  return ListBytes(rows * tiles, rows).total() +
         attend_one_scratch_bytes(rows, slots, rows * tiles, query_heads, head_dim, is_packed(packed_format));
}

void cpu::attend_step(const AttendStepArgs& args, Queue& queue) {
  if (!queue.ok()) return;
  const int64_t rows = args.query.rows;
  int64_t run_count = 0;
  for (int64_t b = 0; b < rows; ++b) run_count += SeenTiles(args.tiles, b).count;
  const ListBytes list(run_count, rows);
  const int64_t given = args.scratch.rows * args.scratch.cols;
  if (given < list.total()) {
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "attend_step got %lld bytes of scratch instead of over %lld",
                                   static_cast<long long>(given), static_cast<long long>(list.total())));
  }
  rotate_active(args, args.query, queue);
  if (!args.tiles.stored) rotate_active(args, args.key, queue);
  if (!queue.ok()) return;
  if (!args.tiles.stored) HWY_DYNAMIC_DISPATCH(store_new_slots)(args);

  KvRun* runs = reinterpret_cast<KvRun*>(args.scratch.data);
  int32_t* begin = reinterpret_cast<int32_t*>(args.scratch.data + list.runs);
  list_live(args, runs, begin);
  cpu::attend_one({.query = {args.query.row(0), rows, args.query.cols, args.query.stride},
                   .query_heads = args.heads.query,
                   .kv_heads = args.heads.kv,
                   .head_dim = args.heads.dim,
                   .runs = runs,
                   .run_begin = begin,
                   .layer = args.layer,
                   .rope = args.rope,
                   .calibration = args.calibration,
                   .output = {args.output.row(0), rows, args.output.cols, args.output.stride},
                   .scratch = {args.scratch.data + list.total(), 1, given - list.total()}},
                  queue);
}

}  // namespace ocellus
#endif  // HWY_ONCE
