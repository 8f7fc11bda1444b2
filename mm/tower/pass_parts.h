// PassParts: a pass through a tower, recorded in parts for a number of rows. What a pass does to rows from one step
// that depends on the places of patches to the next is one part; such steps are enqueued as they come.
#pragma once

#include "platform/recorded_parts.h"

namespace ocellus {

class PassParts {
 public:
  enum class Mode {
    kTry,     // the steps on rows are enqueued, those that depend on places are left out
    kRecord,  // the same, recorded
    kLaunch   // recorded steps are launched, the others enqueued
  };
  /// `rows`: of the recordings; a view has as many or fewer.
  PassParts(RecordedParts& recorded, int32_t shape, int64_t rows, Mode mode)
      : recorded_(recorded), shape_(shape), rows_(rows), mode_(mode) {}

  int64_t rows() const { return rows_; }
  bool launches() const { return mode_ == Mode::kLaunch; }

  /// Called before a step on rows. Returns true if it is to be enqueued.
  bool at_rows(Queue& queue) {
    if (!open_ && mode_ == Mode::kRecord) (void)queue.begin_capture();
    if (!open_ && mode_ == Mode::kLaunch) recorded_.run_part(shape_, count_, queue);
    open_ = true;
    return mode_ != Mode::kLaunch;
  }
  /// Called before a step that depends on places.
  bool at_places(Queue& queue) {
    finish(queue);
    return mode_ == Mode::kLaunch;
  }
  /// Called at the end. Returns the number of parts.
  int32_t finish(Queue& queue) {
    if (open_ && mode_ == Mode::kRecord) (void)recorded_.end_record(shape_, count_, queue);
    count_ += open_ ? 1 : 0;
    open_ = false;
    return count_;
  }

 private:
  RecordedParts& recorded_;
  int32_t shape_;
  int64_t rows_;
  Mode mode_;
  int32_t count_ = 0;  // parts before this one
  bool open_ = false;
};

}  // namespace ocellus
