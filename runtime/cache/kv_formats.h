// The formats of visual slots where layers differ in bits.
#pragma once

#include <cstdint>

#include "quant/kv_format.h"
#include "runtime/ocellus.h"

namespace ocellus {

/// Formats by layer; an empty list: all layers have the same. Why they may differ: the answers of a model depend far
/// more on some layers' keys and values than on others', so bits taken from those cost little.
struct KvFormatList {
  int32_t count = 0;
  KvFormat formats[OCELLUS_MOST_LAYER_BITS] = {};

  bool empty() const { return count == 0; }
  KvFormat of(int32_t layer, KvFormat otherwise) const { return empty() ? otherwise : formats[layer]; }
};

}  // namespace ocellus
