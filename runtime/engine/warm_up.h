// Warm-up of a GPU engine: runs every shape of matrix product that the engine will need once, so that the library has
// chosen its algorithms and loaded its kernels, and records the decode steps. After it nothing is chosen, loaded or
// allocated any more.
#pragma once

#include "runtime/forward/prefill_graphs.h"
#include "runtime/forward/step_graphs.h"

namespace ocellus {

class Engine;

/// All that it leaves in the cache lies in slots that are not live.
Status warm_up(Engine& engine, PrefillGraphs* prefill, StepGraphs* steps);

}  // namespace ocellus
