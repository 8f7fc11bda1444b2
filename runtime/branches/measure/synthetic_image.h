// An image without pixels: cache slots with made-up contents, to measure decoding over many of them.
#pragma once

#include "runtime/cache/kv_cache.h"

namespace ocellus {

/// Fills all blocks of a reserved image. Waits for the queue.
Status fill_synthetic_image(const SessionCache& cache, int32_t ordinal, Queue& queue);

}  // namespace ocellus
