// Ranges for NVIDIA's tools. The header holds the whole of NVTX: no library is linked.
#include <nvtx3/nvToolsExt.h>

#include "platform/trace.h"

namespace ocellus {

void begin_tool_range(const char* name) { (void)nvtxRangePushA(name); }
void end_tool_range() { (void)nvtxRangePop(); }

}  // namespace ocellus
