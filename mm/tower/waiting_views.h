// WaitingViews: views of pictures whose rows are already in the prompt chunk, but are not encoded yet. A GPU encodes
// many views as cheaply as a few, so they are collected until the batch is full or the chunk is read. The CPU and lean
// devices have a batch of one.
#pragma once

#include "mm/tower/vision_graphs.h"
#include "mm/tower/vision_tower.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "platform/trace.h"

namespace ocellus {

template <>
struct TypeName<RowPlace> {
  static constexpr const char* value = "place";
};

class WaitingViews {
 public:
  /// Lays out room for `capacity` views. If views are encoded one by one, the pixels lie in the scratch of the tower.
  Status lay_out(const VisionConfig& config, int64_t capacity, const DeviceTraits& device, RowSink& sink);

  void set_trace(const TraceSink& trace) { trace_ = trace; }

  int64_t count() const { return count_; }
  bool full() const { return count_ == places_.cols; }
  int64_t room() const { return places_.cols - count_; }
  void clear() { count_ = 0; }
  /// Drops views whose rows begin at `first_row` or later.
  void forget_from(int64_t first_row) {
    while (count_ > 0 && places_.data[count_ - 1].first >= first_row) --count_;
  }

  /// Returns the place for the pixels of the next `views` views: [views * 3 * side, side].
  DeviceView<float> next_pixels(const VisionConfig& config, const VisionScratch& scratch, int64_t views) const;
  /// Adds the next view, whose pixels are written; `place`: its rows in the chunk.
  void add(const RowPlace& place) { places_.data[count_++] = place; }

  /// Records the encoding of every possible number of views (GPU only).
  Status record(const VisionModel& model, const VisionScratch& scratch, Queue& queue);

  /// Encodes and projects all waiting views into their rows of `hidden`. After a failure they still wait.
  Status encode(const VisionModel& model, const VisionScratch& scratch, DeviceView<float> hidden,
                const StopSignal* stop, Queue& queue);

 private:
  DeviceView<float> pixels_;   // [capacity * 3 * side, side]; none if they lie in the tower's scratch
  HostView<RowPlace> places_;  // [1, capacity]
  int64_t count_ = 0;
  VisionGraphs graphs_;
  TraceSink trace_;
};

}  // namespace ocellus
