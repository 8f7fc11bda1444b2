#pragma once

#include "kernels/base/kv_run.h"
#include "kernels/rows/rope.h"
#include "kernels/rows/store_kv.h"
#include "platform/queue.h"

namespace ocellus {

/// A linked image some of whose rows are recomputed in place.
struct CarriedImage {
  KvRun block;              // f16, from the image's slot 0 on: first the slots of the rows in place, then the others
  int32_t in_place = 0;     // rows in place; 0: nothing is done
  int32_t slots = 0;        // total number
  int32_t first_row = 0;    // first of its rows in `rows_in_place`
  int32_t first_angle = 0;  // row of slot_angles of slot 0
  int32_t shift_angle = 0;  // row of slot_angles for the distance that the image has moved
  int32_t first_copy = -1;  // row of `copies` with slot `in_place`, the others follow; -1: there are no copies
};

/// Ours, for linked images (MPIC), whose keys and values were computed without the present text before them. The change
/// of the rows computed in place is applied to the others: the mean change of the rows in place is added to all other
/// slots, for keys before their rotation.
///
///   dk = mean_r ( R(-p_r) k_r - R(-s_r) stored_k_r )    k_j += R(s_j) dk, in a copy R(s_j + shift) dk
///   dv = mean_r ( v_r - stored_v_r )                    v_j += dv
///
/// with R(p) the rotation of position p; row r stands at p_r and was computed at s_r = p_r - shift.
///
/// Shapes    rows [G, capacity, E] of one layer: the chunk's, rotated at their positions; images [image_count];
///           rows_in_place: rows of the chunk, in the order of the slots; places [chunk rows]: where they stand in
///           `rows`, or null: in their order; angles [chunk rows, rotated]; slot_angles [.., rotated]: of s_j, slot by
///           slot, and of shift. All in device memory
/// Types     f16, sums and rotation in f32
/// Divisible E by 8 and at most kMaxHeadDim; on CUDA all rows start on 16 bytes
/// Errors    longer heads are kInternal in the queue on the CPU
struct CarryChangeArgs {
  KvLayerRows rows;
  const CarriedImage* images = nullptr;
  int32_t image_count = 0;
  const int32_t* rows_in_place = nullptr;
  const int32_t* places = nullptr;
  int32_t layer = 0;
  RopeParams rope;
  DeviceView<const float> angles;
  DeviceView<const float> slot_angles;
  KvLayerRows copies;  // linked images' slots, rotated to their present positions: read by the chunk's attention

  OCELLUS_EVERYWHERE int64_t place(int64_t row) const { return places == nullptr ? row : places[row]; }
};
void carry_change(const CarryChangeArgs& args, Queue& queue);

}  // namespace ocellus
