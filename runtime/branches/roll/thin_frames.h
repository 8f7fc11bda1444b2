// InfiniPot-V (Kim et al. 2025): a rolling session whose images are as many as it may hold thins them in place, before
// any question is known, so that newer ones fit. Every layer and key/value head keeps slots of its own.
//
// The paper's code ranks what is left of older frames as if it were whole frames again. Here a slot remembers its place
// in its frame, and the norm of its value that was pooled while the frame was whole.
#pragma once

#include "kernels/cache/thin_frames.h"
#include "platform/arena.h"
#include "runtime/cache/kv_cache.h"
#include "runtime/policy/cache_policy.h"

namespace ocellus {

/// Memory for thinning the images of a session, a layer at a time.
struct ThinMemory {
  StagedRows<KvRun> runs;                    // [1, images]
  DeviceView<float> novelty, values, norms;  // [G, slots of all images]
  DeviceView<int32_t> kept;                  // [G, slots of all images]
  DeviceView<int32_t> counts;                // [1, G]
  DeviceView<std::byte> selection;

  Status lay_out(const KvShape& kv, int64_t images, const DeviceTraits& device, RowSink& sink);
};

/// True if the images of the session have as many slots each, and the newest is whole.
bool can_thin(const SessionCache& cache);

/// Thins the images to the slots of `kept` ones, fewer than there are. `view_rows`: rows of a view, a square unless its
/// positions tell its columns. Waits for the queue.
Status thin_frames(const ThinPolicy& policy, const ThinMemory& memory, int32_t kept, int64_t view_rows,
                   SessionCache& cache, Queue& queue);

}  // namespace ocellus
