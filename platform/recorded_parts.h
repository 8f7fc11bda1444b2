// RecordedParts: work that is recorded once for each of a few shapes and then only launched. Each recording is divided
// into parts of a few layers, between which it can be stopped. Libraries' work for a call (choosing, allocating) was
// then done at recording.
#pragma once

#include <memory>

#include "platform/queue.h"
#include "platform/round_up.h"
#include "platform/status.h"

namespace ocellus {

/// Layers per part: few enough that a stop takes effect soon, enough that launching them costs little.
inline constexpr int32_t kLayersPerPart = 4;
constexpr int32_t part_count(int32_t layers, int32_t layers_per_part = kLayersPerPart) {
  return divide_up(layers, layers_per_part);
}

class RecordedParts {
 public:
  Status allocate(int32_t shapes, int32_t parts);

  /// Calls enqueue() while the queue records, and launches the recording once: the driver allocates at the first
  /// launch.
  template <class Enqueue>
  Status record(int32_t shape, int32_t part, Queue& queue, Enqueue&& enqueue) {
    OCELLUS_TRY(queue.begin_capture());
    enqueue();
    return end_record(shape, part, queue);
  }
  /// The second half of record(), after Queue::begin_capture().
  Status end_record(int32_t shape, int32_t part, Queue& queue);

  /// Launches all parts of a shape, or fewer on `stop`.
  Status run(int32_t shape, const StopSignal* stop, Queue& queue) const;
  /// Launches one part; the shape and the part were recorded.
  void run_part(int32_t shape, int32_t part, Queue& queue) const { queue.launch(graphs_[shape * parts_ + part]); }

 private:
  std::unique_ptr<CudaGraph[]> graphs_;  // [shapes, parts]
  int32_t shapes_ = 0;
  int32_t parts_ = 0;
};

}  // namespace ocellus
