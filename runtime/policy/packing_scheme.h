// Packing schemes: which keys and values become codes, and how. A scheme has a name, a paper and a table of options; a
// new one is a row in packing_scheme.cpp.
#pragma once

#include "runtime/policy/cache_policy.h"

namespace ocellus {

struct PackingScheme {
  ocellus_method method;
  /// Applies the scheme to a policy of fewer than 16 bits.
  void (*apply)(const MethodValues& options, CachePolicy* out);
};

const MethodTable& packing_methods();
/// Returns the index-th scheme, the default first; null after the last.
const PackingScheme* packing_scheme_at(int32_t index);

inline constexpr ocellus_method_option kKiviOptions[] = {
    {"residual", nullptr, 1, 65536, 1, "128", "Newest tokens kept in f16, and up to 31 more."}};
inline constexpr ocellus_method kKiviMethod =
    describe_method("kivi", "KIVI, Liu et al. 2024",
                    "All but the newest rows, text and answers, too, in groups of 32: keys by channel over 32 rows, "
                    "values by row over 32 channels. Of what an eviction method leaves, if there is one.",
                    kKiviOptions);
/// All rows are kept, those before the window in whole blocks. The branch pack has it.
void apply_kivi(const MethodValues& options, CachePolicy* out);

}  // namespace ocellus
