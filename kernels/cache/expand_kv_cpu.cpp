#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/cache/expand_kv.h"
#include "kernels/rows/rope_angles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cache/expand_kv_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/kv_rows-inl.h"
#include "kernels/base/vectors-inl.h"
#include "kernels/rows/rope-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

/// Live slots of one run in one head.
void expand_run(const ExpandKvArgs& args, int64_t index, int64_t head) {
  const KvRun& run = args.runs[index];
  const int32_t dim = args.out.head_dim;
  const int64_t slots = live_slots(run, args.layer.index, args.out.heads, head);
  const PackedRows rows = run.packed ? packed_rows(run, args.layer, head, dim) : PackedRows{};
  ScaleRow key_offsets, key_steps;
  ValueScales of_values;
  if (slots > 0 && run.packed) {
    key_offsets.read(rows, kKeyOffsets);
    key_steps.read(rows, kKeySteps);
    of_values.read(rows);
  }
  HWY_ALIGN float angles[kMaxHeadDim], key[kMaxHeadDim], value[kMaxHeadDim];
  if (slots > 0 && run.position_shift != 0) set_rope_angles(args.rope, run.position_shift, angles);
  for (int64_t slot = 0; slot < slots; ++slot) {
    if (run.packed) {
      expand_codes(rows.keys, slot, key_offsets.data(), key_steps.data(), dim, key);
      of_values.turn_to(slot);
      expand_codes(rows.values, slot, of_values.offsets(), of_values.steps(), dim, value);
    } else {
      expand_halves(run_keys(run, args.layer.index, head) + slot * dim, dim, key);
      expand_halves(run_values(run, args.layer.index, head) + slot * dim, dim, value);
    }
    if (run.position_shift != 0) rotate_head(args.rope, angles, key);
    const int64_t to = args.out.at(args.first_row(index) + slot, head);
    round_to_halves(key, dim, args.out.keys + to);
    round_to_halves(value, dim, args.out.values + to);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(expand_run);

void cpu::expand_kv(const ExpandKvArgs& args, Queue& queue) {
  const int64_t heads = args.out.heads;
  if (args.out.head_dim > kMaxHeadDim || args.out.capacity < args.most_rows()) {
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "expand_kv has %lld rows of %d values for %d runs",
                                   static_cast<long long>(args.out.capacity), args.out.head_dim, args.run_count));
  }
  queue.parallel(args.run_count * heads, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) HWY_DYNAMIC_DISPATCH(expand_run)(args, task / heads, task % heads);
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
