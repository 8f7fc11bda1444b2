// Maximum heap of the work between two calls; needs AddressSanitizer, which sees every allocation.
#pragma once

#include <cstdint>

namespace ocellus::fuzz {

/// Returns true if allocations can be observed.
bool can_watch_heap();
/// Begins to count, at 0.
void begin_heap_watch();
/// The most bytes that were allocated at once since then, less those from before that went.
int64_t end_heap_watch();

}  // namespace ocellus::fuzz
