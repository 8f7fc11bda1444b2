// Facts of a GPU for users: the driver's, and the memory that an engine would take outside its arena.
#pragma once

#include "platform/status.h"
#include "runtime/ocellus.h"

namespace ocellus {

/// See ocellus_probe_gpu.
Status probe_gpu(int index, ocellus_gpu_facts* out);

}  // namespace ocellus
