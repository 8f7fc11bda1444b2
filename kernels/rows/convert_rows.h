#pragma once

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// to[t] = from[t]; f32 is rounded to f16 to nearest even; magnitudes above 65504, the largest f16, become that.
///
/// Shapes    from, to [T, D] (rows may be strided)
/// Types     f32 or f16, each of the two
/// Aliasing  to must not overlap from
struct ConvertRowsArgs {
  ActivationView from;
  ActivationView to;
};
void convert_rows(const ConvertRowsArgs& args, Queue& queue);

}  // namespace ocellus
