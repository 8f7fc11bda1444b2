// Packing schemes: which keys and values become codes, and how. A scheme has a name, a paper and a table of options; a
// new one is a row in packing_scheme.cpp.
#pragma once

#include "runtime/policy/eviction_rule.h"

namespace ocellus {

struct PackingScheme {
  ocellus_method method;
  /// Applies the scheme to a policy of fewer than 16 bits.
  void (*apply)(const MethodValues& options, CachePolicy* out);
};

const MethodTable& packing_methods();
/// Returns the index-th scheme, the default first; null after the last.
const PackingScheme* packing_scheme_at(int32_t index);

/// KIVI's storage of a chunk: all rows are kept, those before the window in whole blocks.
const RowRule& kivi_row_rule();

}  // namespace ocellus
