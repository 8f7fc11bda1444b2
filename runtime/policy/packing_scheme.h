// Packing schemes: how keys and values become codes, and which rows do. A scheme says its name, its paper and what it
// can be told; a new one is a row in packing_scheme.cpp.
#pragma once

#include "runtime/policy/eviction_rule.h"

namespace ocellus {

struct PackingScheme {
  ocellus_method method;
  /// What a policy of fewer than 16 bits becomes. kBadArgument names what the scheme has no place for.
  Status (*apply)(const ocellus_cache_policy& policy, const MethodValues& options, CachePolicy* out);
};

/// The index-th scheme, the first one is the standard; null behind the last.
const PackingScheme* packing_scheme_at(int32_t index);
/// Null where no scheme has the name.
const PackingScheme* find_packing_scheme(std::string_view name);

/// How KIVI stores a chunk: all rows stay, those before the window in whole blocks.
const RowRule& kivi_row_rule();

}  // namespace ocellus
