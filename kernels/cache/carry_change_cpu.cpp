#include <algorithm>

#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/cache/carry_change.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cache/carry_change_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/vectors-inl.h"
#include "kernels/rows/rope-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

/// A head's keys or values in f32.
struct HeadRow {
  HWY_ALIGN float values[kMaxHeadDim];
};

/// Undoes the rotation by the given angles.
void unrotate(const RopeParams& rope, const float* angles, float* key) {
  HWY_ALIGN float back[kMaxHeadDim];
  for (int32_t i = 0; i < rope.rotated; i += 2) {
    back[i] = angles[i];
    back[i + 1] = -angles[i + 1];
  }
  rotate_head(rope, back, key);
}

void add_to(const float* from, float factor, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

/// Computes the mean change of the rows in place, for keys before their rotation.
void find_change(const CarryChangeArgs& args, const CarriedImage& image, int64_t head, float* of_keys,
                 float* of_values) {
  const int32_t dim = args.rows.head_dim;
  const float share = 1.0f / static_cast<float>(image.in_place);
  const Half* const stored_keys = run_keys(image.block, args.layer, head);
  const Half* const stored_values = run_values(image.block, args.layer, head);
  std::fill_n(of_keys, dim, 0.0f);
  std::fill_n(of_values, dim, 0.0f);
  HeadRow row;
  for (int32_t i = 0; i < image.in_place; ++i) {
    const int64_t r = args.rows_in_place[image.first_row + i], at = args.rows.at(args.place(r), head);
    expand_halves(args.rows.keys + at, dim, row.values);
    unrotate(args.rope, args.angles.row(r), row.values);
    add_to(row.values, share, dim, of_keys);
    expand_halves(stored_keys + int64_t{i} * dim, dim, row.values);
    unrotate(args.rope, args.slot_angles.row(image.first_angle + i), row.values);
    add_to(row.values, -share, dim, of_keys);
    expand_halves(args.rows.values + at, dim, row.values);
    add_to(row.values, share, dim, of_values);
    expand_halves(stored_values + int64_t{i} * dim, dim, row.values);
    add_to(row.values, -share, dim, of_values);
  }
}

void add_to_halves(const float* change, int64_t count, Half* to) {
  HeadRow row;
  expand_halves(to, count, row.values);
  add_to(change, 1.0f, count, row.values);
  round_to_halves(row.values, count, to);
}

void carry_head(const CarryChangeArgs& args, const CarriedImage& image, int64_t head) {
  const int32_t dim = args.rows.head_dim;
  HeadRow of_keys, of_values, moved, turned;
  find_change(args, image, head, of_keys.values, of_values.values);
  moved = of_keys;
  rotate_head(args.rope, args.slot_angles.row(image.shift_angle), moved.values);
  Half* const keys = run_keys(image.block, args.layer, head);
  Half* const values = run_values(image.block, args.layer, head);
  for (int32_t slot = image.in_place; slot < image.slots; ++slot) {
    const float* const angles = args.slot_angles.row(image.first_angle + slot);
    turned = of_keys;
    rotate_head(args.rope, angles, turned.values);
    add_to_halves(turned.values, dim, keys + int64_t{slot} * dim);
    add_to_halves(of_values.values, dim, values + int64_t{slot} * dim);
    if (image.first_copy < 0) continue;
    const int64_t copy = args.copies.at(image.first_copy + slot - image.in_place, head);
    turned = moved;
    rotate_head(args.rope, angles, turned.values);
    add_to_halves(turned.values, dim, args.copies.keys + copy);
    add_to_halves(of_values.values, dim, args.copies.values + copy);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(carry_head);

void cpu::carry_change(const CarryChangeArgs& args, Queue& queue) {
  const int64_t heads = args.rows.heads;
  if (args.rows.head_dim > kMaxHeadDim)
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "carry_change got heads of %d values", args.rows.head_dim));
  queue.parallel(args.image_count * heads, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const CarriedImage& image = args.images[task / heads];
      if (image.in_place > 0) HWY_DYNAMIC_DISPATCH(carry_head)(args, image, task % heads);
    }
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
