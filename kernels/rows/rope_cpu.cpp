#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/base/row_pieces.h"
#include "kernels/rows/rope.h"
#include "kernels/rows/rope_angles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/rope_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/rows/rope-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

void rotate_rows(const RotateArgs& args, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t first = 0; first + args.head_dim <= args.values.cols; first += args.head_dim)
      rotate_head(args.params, args.angles.row(t), args.values.row(t) + first);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {
namespace {

int32_t coordinate_of(const RopeAnglesArgs& args, int32_t pair) {
  return args.coordinates == 1 ? 0 : args.params.sections.coordinate_of(pair);
}

/// Angles of rows [begin, end). Pairs are the outer loop: the power is computed once for all rows.
void fill_angles(const RopeAnglesArgs& args, int64_t begin, int64_t end) {
  for (int64_t i = 0; i < args.params.rotated / 2; ++i) {
    const double turn = rope_turn(args.params, i);
    const int32_t* const positions = args.positions + coordinate_of(args, static_cast<int32_t>(i));
    for (int64_t t = begin; t < end; ++t)
      set_rope_angle(positions[t * args.position_stride], turn, i, args.angles.row(t));
  }
}

}  // namespace

HWY_EXPORT(rotate_rows);

void cpu::rope_angles(const RopeAnglesArgs& args, Queue& queue) {
  queue.parallel(args.count, rows_per_piece(args.params.rotated, 1024),
                 [&](int64_t begin, int64_t end, int) { fill_angles(args, begin, end); });
}

void cpu::rotate(const RotateArgs& args, Queue& queue) {
  queue.parallel(args.values.rows, rows_per_piece(args.values.cols, 16384), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(rotate_rows)(args, begin, end);
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
