#pragma once

#include "platform/status.h"

namespace ocellus {

class Engine;

/// Drops the rows of the engine's chunk that the planned reduction of pictures does not choose: see ReductionRule. The
/// pictures are encoded. Waits for the queue if there are any, and adds the time that the choice takes.
Status reduce_pictures(Engine& engine, double* spent_ms);

}  // namespace ocellus
