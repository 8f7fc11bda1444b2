#pragma once

#include "platform/queue.h"
#include "runtime/cache/kv_cache.h"

namespace ocellus {

class Engine;
struct PrefillPlan;
struct PrefillScratch;

/// Drops rows of the engine's chunk after the first layers if the planned reduction of pictures does so: see
/// DropScratch. The chunk will stand from `first_position` on, after what is in `cache`. *full_layers: the layers that
/// have been run; 0 if nothing is dropped. Waits for the queue if something is.
Status drop_pictures(Engine& engine, int64_t first_position, SessionCache& cache, const PrefillScratch& scratch,
                     const StopSignal* stop, int32_t* full_layers);

/// Runs the rows of the engine's chunk through all layers. Of those that have been run with all rows only keys and
/// values are new, and the others go on where these have ended.
Status run_kept_rows(Engine& engine, int64_t rows, PrefillPlan plan, const PrefillScratch& scratch,
                     const StopSignal* stop);

}  // namespace ocellus
