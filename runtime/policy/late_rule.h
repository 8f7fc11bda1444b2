// Rules whose budgets by layer are known only when all layers have run: VL-Cache and MEDA.
#pragma once

#include "runtime/policy/eviction_rule.h"

namespace ocellus {

/// VL-Cache (arXiv 2410.23317; no public code). The rows behind the last image observe. A layer's share of the slots is
/// in proportion to the density of their attention; within it the best by their column sums and, of a tenth of it, the
/// most recent stay.
const EvictionRule& vl_cache_rule();

/// MEDA, as its public code has it: all rows observe, a layer's share is in proportion to e to the power of the entropy
/// of its attention per row. Half of it are the best by column sums, half the most recent, but no fewer than there is
/// text; what is dropped is merged into what is kept and most like it, to the average. Where the code adds the first
/// decode step's attention to the sums, ours are the prompt's.
const EvictionRule& meda_rule();

}  // namespace ocellus
