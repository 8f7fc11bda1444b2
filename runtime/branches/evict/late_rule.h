// Rules whose budgets by layer are known only after all layers: VL-Cache and MEDA.
#pragma once

#include "runtime/policy/eviction_rule.h"

namespace ocellus {

/// VL-Cache (arXiv 2410.23317; no public code). The rows after the last image observe. A layer's share of the slots is
/// proportional to the density of their attention; it keeps the best rows by column sums and, for a tenth of its slots,
/// the most recent.
const EvictionRule& vl_cache_rule();

/// MEDA as in its public code: all rows observe, a layer's share is proportional to e to the power of the entropy of
/// its attention per row. Half of it are the best rows by column sums, half the most recent, but no fewer than there is
/// text; dropped rows are merged into the most similar kept ones, to the average. The code adds the first decode step's
/// attention to the sums, ours are the prompt's.
const EvictionRule& meda_rule();

}  // namespace ocellus
