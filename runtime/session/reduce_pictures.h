#pragma once

#include "platform/status.h"

namespace ocellus {

class Engine;

/// Drops the rows of the engine's chunk that the planned reduction of pictures does not choose: see ReductionRule. The
/// pictures are encoded. Waits for the queue if there are any.
Status reduce_pictures(Engine& engine);

}  // namespace ocellus
