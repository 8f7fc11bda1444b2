#include "platform/recorded_parts.h"

#include <new>

namespace ocellus {

Status RecordedParts::allocate(int32_t shapes, int32_t parts) {
  graphs_.reset(new (std::nothrow) CudaGraph[static_cast<size_t>(shapes) * static_cast<size_t>(parts)]);
  if (graphs_ == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for recorded work");
  shapes_ = shapes;
  parts_ = parts;
  return {};
}

Status RecordedParts::end_record(int32_t shape, int32_t part, Queue& queue) {
  CudaGraph& graph = graphs_[shape * parts_ + part];
  OCELLUS_TRY(queue.end_capture(&graph));
  queue.launch(graph);
  return queue.status();
}

Status RecordedParts::run(int32_t shape, const StopSignal* stop, Queue& queue) const {
  if (shape < 0 || shape >= shapes_) return OCELLUS_FAIL(Code::kInternal, "no work was recorded for this shape");
  for (int32_t part = 0; part < parts_; ++part) {
    if (queue.stopped(stop)) break;
    queue.launch(graphs_[shape * parts_ + part]);
  }
  return queue.status();
}

}  // namespace ocellus
