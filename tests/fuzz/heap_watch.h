// How much heap the work between two calls had at once; needs AddressSanitizer, which sees every allocation.
#pragma once

#include <cstdint>

namespace ocellus::fuzz {

/// Whether there is anything that sees allocations.
bool can_watch_heap();
/// Begins to count, at 0.
void begin_heap_watch();
/// The most bytes that were allocated at once since then, less those from before that went.
int64_t end_heap_watch();

}  // namespace ocellus::fuzz
