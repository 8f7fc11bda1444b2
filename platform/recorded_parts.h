// RecordedParts: work that is recorded once for each of a few shapes and then only started. Each recording is cut into
// parts of a few layers, between which it can be stopped. What libraries do for a call (choosing, allocating) has then
// been done when it was recorded.
#pragma once

#include <memory>

#include "platform/queue.h"
#include "platform/status.h"

namespace ocellus {

/// Layers of one part: few enough that a stop takes effect soon, enough that starting them costs little.
inline constexpr int32_t kLayersPerPart = 4;
constexpr int32_t part_count(int32_t layers, int32_t layers_per_part = kLayersPerPart) {
  return (layers + layers_per_part - 1) / layers_per_part;
}

class RecordedParts {
 public:
  Status allocate(int32_t shapes, int32_t parts);

  /// Calls enqueue() while the queue records, and starts the recording once: the driver allocates at a first start.
  template <class Enqueue>
  Status record(int32_t shape, int32_t part, Queue& queue, Enqueue&& enqueue) {
    OCELLUS_TRY(queue.begin_capture());
    enqueue();
    CudaGraph& graph = graphs_[shape * parts_ + part];
    OCELLUS_TRY(queue.end_capture(&graph));
    queue.launch(graph);
    return queue.status();
  }

  /// Starts all parts of a shape, or fewer if `stop` asks for it.
  Status run(int32_t shape, const StopSignal* stop, Queue& queue) const;
  /// Starts one part; the shape and the part were recorded.
  void run_part(int32_t shape, int32_t part, Queue& queue) const { queue.launch(graphs_[shape * parts_ + part]); }

 private:
  std::unique_ptr<CudaGraph[]> graphs_;  // [shapes, parts]
  int32_t shapes_ = 0;
  int32_t parts_ = 0;
};

}  // namespace ocellus
