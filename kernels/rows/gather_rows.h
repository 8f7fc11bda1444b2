#pragma once

#include "platform/queue.h"
#include "platform/views.h"
#include "quant/weight_format.h"

namespace ocellus {

inline constexpr int32_t kSkippedRow = -1;

/// out[t] = scale * table[ids[t * id_stride]] decoded to f32: the token embedding.
///
/// An id of kSkippedRow leaves its row unchanged: rows of pictures lie between those of text. With `skipped_as`, such
/// an id stands for that one.
///
/// Shapes    ids [T], id_stride numbers apart; table [V, D] in any weight format; out [T, D]
/// Errors    any other id outside 0..V-1 (checked: ids come from data) is kInternal in the queue on the CPU; on CUDA,
///           which cannot report it at once, its row becomes NaN, which the sampler refuses
struct GatherRowsArgs {
  const int32_t* ids = nullptr;
  int64_t id_stride = 1;
  int64_t count = 0;
  WeightView table;
  float scale = 1.0f;
  int32_t skipped_as = kSkippedRow;
  DeviceView<float> output;
};

void gather_rows(const GatherRowsArgs& args, Queue& queue);

}  // namespace ocellus
