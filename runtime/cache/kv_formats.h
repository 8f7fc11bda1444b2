// Formats of visual slots if layers differ in bits.
#pragma once

#include <cstdint>

#include "quant/kv_format.h"
#include "runtime/ocellus.h"

namespace ocellus {

/// Formats by layer; an empty list: all layers have the same. A model's answers depend far more on the keys and values
/// of some layers than on others, so reducing the bits of those costs little.
struct KvFormatList {
  int32_t count = 0;
  KvFormat formats[OCELLUS_MOST_LAYER_BITS] = {};

  bool empty() const { return count == 0; }
  KvFormat of(int32_t layer, KvFormat otherwise) const { return empty() ? otherwise : formats[layer]; }
};

}  // namespace ocellus
