// device.h in a build without CUDA: there are no CUDA devices, and no tools that trace them.
#include "platform/device.h"
#include "platform/trace.h"

namespace ocellus {
namespace {

Status absent() {
  return OCELLUS_FAIL(Code::kUnsupported, "this build has no CUDA backend: choose the device cpu or auto");
}

}  // namespace

int cuda_device_count() { return 0; }
bool built_with_cuda() { return false; }
Status read_cuda_facts(int, CudaFacts*) { return absent(); }

CudaGraph::~CudaGraph() = default;
Status CudaDevice::open(int, void*, std::unique_ptr<CudaDevice>*) { return absent(); }
CudaDevice::~CudaDevice() = default;
Status CudaDevice::make_current() { return absent(); }
Status CudaDevice::allocate_device(int64_t, std::byte**) { return absent(); }
Status CudaDevice::allocate_pinned(int64_t, std::byte**) { return absent(); }
Status CudaDevice::check_reachable(const void*) const { return absent(); }
Status CudaDevice::find_memory(const void*, bool*) const { return absent(); }
int64_t CudaDevice::outside_bytes() const { return -1; }
Status CudaDevice::measure_copy_rate(std::byte*, int64_t, double*) { return absent(); }
Status CudaDevice::copy(void*, const void*, int64_t) { return absent(); }
Status CudaDevice::copy_rows(void*, const void*, int64_t, int64_t, int64_t) { return absent(); }
Status CudaDevice::follow_default_stream() { return absent(); }
Status CudaDevice::fill(void*, uint8_t, int64_t) { return absent(); }
Status CudaDevice::finish() { return absent(); }
Status CudaDevice::record_mark(int) { return absent(); }
Status CudaDevice::wait_for_mark(int) { return absent(); }
double CudaDevice::elapsed_ms(int, int) { return 0; }
Status CudaDevice::begin_capture() { return absent(); }
Status CudaDevice::end_capture(CudaGraph*) { return absent(); }
Status CudaDevice::launch(const CudaGraph&) { return absent(); }
Status CudaDevice::copy_beside(void*, const void*, int64_t) { return absent(); }
Status CudaDevice::record_mark_beside(int) { return absent(); }
Status CudaDevice::order_beside_after_work(int) { return absent(); }
Status CudaDevice::order_work_after_mark(int) { return absent(); }
bool CudaDevice::mark_reached(int) const { return true; }

void begin_tool_range(const char*) {}
void end_tool_range() {}

}  // namespace ocellus
