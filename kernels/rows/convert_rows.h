#pragma once

#include "platform/everywhere.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// to[t] = from[t]; f32 is rounded to f16 to nearest even; magnitudes above 65504, the largest f16, become that. With
/// lists of rows to[places[t]] = from[sources[t]].
///
/// Shapes    from, to [T, D] (rows may be strided), or of more rows, with a list of T of them in device memory:
/// different
///           ones in `places`
/// Types     f32 or f16, each of the two
/// Aliasing  to must not overlap from
struct ConvertRowsArgs {
  ActivationView from;
  ActivationView to;
  const int32_t* sources = nullptr;  // null: all rows, in order; so places
  const int32_t* places = nullptr;

  int64_t count() const { return sources == nullptr ? from.rows : to.rows; }
  OCELLUS_EVERYWHERE int64_t source(int64_t t) const { return sources == nullptr ? t : sources[t]; }
  OCELLUS_EVERYWHERE int64_t place(int64_t t) const { return places == nullptr ? t : places[t]; }
};
void convert_rows(const ConvertRowsArgs& args, Queue& queue);

}  // namespace ocellus
