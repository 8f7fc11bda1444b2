// KeptViews: rows of views that were encoded, the latest used, so that a view that did not change is not encoded again.
// A view is known by the hash of its pixels. Where cameras have noise it is known by the means of its patches, too:
// they are compared with those of the views that were encoded, so that small changes do not add up.
#pragma once

#include "mm/tower/vision_config.h"
#include "platform/arena.h"
#include "platform/queue.h"

namespace ocellus {

/// A view whose rows have their place in the prompt chunk.
struct WaitingView {
  RowPlace place;      // its rows in the chunk
  Size size;           // in pixels
  int32_t frames = 1;  // see ViewBatch
};

/// A view whose rows are kept.
struct KeptView {
  WaitingView view;
  uint64_t hash = 0;
  int64_t last_use = 0;  // 0: there is none
};

template <>
struct TypeName<WaitingView> {
  static constexpr const char* value = "view";
};
template <>
struct TypeName<KeptView> {
  static constexpr const char* value = "view";
};

struct KeptViewsShape {
  int64_t count = 0;  // views whose rows are kept
  float change = 0;  // a known view's largest change of a patch's mean, of the range of pixels; 0: its pixels are equal
};

class KeptViews {
 public:
  /// `most`: the largest batch.
  Status lay_out(const KeptViewsShape& shape, const VisionConfig& config, const ViewBatch& most, RowSink& sink);

  bool planned() const { return kept_.cols > 0; }
  void clear();

  /// Describes the pixels of views that wait, numbered from `first` on in the largest batch. Waits for the queue.
  Status describe(DeviceView<const float> pixels, const ViewBatch& batch, int64_t first, Queue& queue);
  /// Renumbers a described view.
  void renumber(int64_t from, int64_t to);
  /// Copies the rows of a described view to their place in `hidden`, and their notes in `notes`, if they are kept; else
  /// false.
  bool give(int64_t number, const WaitingView& view, DeviceView<float> hidden, DeviceView<float> notes, Queue& queue);
  /// Keeps the rows of a described view, which are in their place, instead of those that were not used for the longest
  /// time.
  void keep(int64_t number, const WaitingView& view, DeviceView<const float> hidden, DeviceView<const float> notes,
            Queue& queue);

 private:
  bool is_known(int64_t index, int64_t number, const WaitingView& view) const;

  HostView<KeptView> kept_;       // [1, count]
  DeviceView<float> rows_;        // [count * rows of a view, values of a row]
  DeviceView<float> notes_;       // [count * rows of a view, note_width], if rows are noted
  HostView<float> means_;         // [count, patches]; only if changes are allowed, as seen_means_
  StagedRows<uint64_t> hashes_;   // [1, views] of those that wait
  StagedRows<float> seen_means_;  // [views, patches]
  float most_change_[3] = {};     // by channel, of normalised pixels
  int32_t patch_size_ = 0;
  int64_t uses_ = 0;
};

}  // namespace ocellus
