// WaitingViews: views of pictures whose rows are already in the prompt chunk, but are not encoded yet. A GPU encodes
// many views as cheaply as a few, so they are collected until the batch is full or the chunk is read. The CPU and lean
// devices have a batch of one, and so have views of any size.
#pragma once

#include <algorithm>
#include <utility>

#include "mm/tower/any_size_graphs.h"
#include "mm/tower/kept_views.h"
#include "mm/tower/vision_graphs.h"
#include "mm/tower/vision_tower.h"
#include "platform/arena.h"
#include "platform/queue.h"

namespace ocellus {

/// Views by what became of them.
struct ViewCounts {
  int32_t encoded = 0;
  int32_t known = 0;  // their rows were kept
};

class WaitingViews {
 public:
  /// Lays out room for the views of the largest batch. If they are encoded one by one on the CPU or a lean device, the
  /// pixels lie in the scratch of the tower. `notes`: of the rows of the prompt chunk, if the batch says so.
  Status lay_out(const VisionConfig& config, const ViewBatch& most, const KeptViewsShape& kept, DeviceView<float> notes,
                 const DeviceTraits& device, RowSink& sink);

  void set_trace(const TraceSink& trace) { trace_ = trace; }

  int64_t count() const { return count_; }
  bool full() const { return count_ == views_.cols; }
  int64_t room() const { return views_.cols - count_; }
  void clear() { count_ = described_ = 0; }
  /// Drops views whose rows begin at `first_row` or later.
  void forget_from(int64_t first_row) {
    while (count_ > 0 && views_.data[count_ - 1].place.first >= first_row) --count_;
    described_ = std::min(described_, count_);
  }
  KeptViews& kept() { return kept_; }
  /// Counts since the last call.
  ViewCounts take_counts() { return std::exchange(counts_, {}); }

  /// Returns the place for the pixels of the next views: [views * frames * 3 * height, width].
  DeviceView<float> next_pixels(const ViewBatch& next, const VisionScratch& scratch) const;
  /// Adds the next view, whose pixels are written.
  void add(const WaitingView& view) { views_.data[count_++] = view; }

  /// GPU only: records the encoding of every possible number of views. For views of any size, runs one of every
  /// magnitude, after which no size is new, and records the encoding of some sizes unless the device is lean. `rows`:
  /// room for the largest.
  Status record(const VisionModel& model, const VisionScratch& scratch, DeviceView<float> rows, Queue& queue);

  /// Copies the rows of waiting views that are known to their places in `hidden`: they no longer wait. Waits for the
  /// queue if views are kept.
  Status drop_known(const VisionConfig& config, const VisionScratch& scratch, DeviceView<float> hidden, Queue& queue);

  /// Encodes and projects the waiting views that are not known into their rows of `hidden`, notes what the tower tells
  /// of them, and keeps these rows. After a failure they still wait.
  Status encode(const VisionModel& model, const VisionScratch& scratch, DeviceView<float> hidden,
                const StopSignal* stop, Queue& queue);

 private:
  /// The pixels of the first view.
  float* first_pixels(const VisionScratch& scratch) const {
    return pixels_.data == nullptr ? scratch.pixels.data : pixels_.data;
  }
  Status encode_alone(const VisionModel& model, const VisionScratch& scratch, DeviceView<float> hidden,
                      const StopSignal* stop, Queue& queue);

  DeviceView<float> pixels_;           // [1, values of all views]; none if they lie in the tower's scratch
  DeviceView<float> notes_;            // [rows of the chunk, note_width]
  HostView<WaitingView> views_;        // [1, capacity]
  int64_t count_ = 0, described_ = 0;  // views that are described are not known
  KeptViews kept_;
  ViewCounts counts_;
  VisionGraphs graphs_;            // views of one size
  AnySizeGraphs any_size_graphs_;  // views of any size
  TraceSink trace_;
};

}  // namespace ocellus
