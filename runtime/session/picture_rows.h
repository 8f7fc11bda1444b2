// PictureRows: conversion of pictures to rows of a chunk, in a prompt or read alone. The pixels of a view are rendered
// when its picture is added; views are encoded together, when a batch is full or the chunk is read.
#pragma once

#include "mm/views/preprocess.h"
#include "runtime/session/conversation.h"

namespace ocellus {

class PictureSource;
struct Picture;
struct PictureShape;
struct VisionScratch;

/// Plans the views of a picture, which must be within the planned limits: kBadImage or kFull.
Status plan_picture(const PictureShape& shape, const Picture& picture, ViewPlan* plan);

/// Counts the tokens of all texts around the views of a picture.
Status count_delimiters(const Tokenizer& tokenizer, const ViewPlan& plan, int64_t* total);

/// Computes the mean of the image rows of a chunk, which may hold texts, too. `staging`: room for the image rows alone,
/// in the host's memory; kInternal if there are more. `mean`: as wide as a row.
Status average_image_rows(const PromptChunk& chunk, HostView<float> staging, float* mean, Queue& queue);

class PictureRows {
 public:
  explicit PictureRows(Conversation& conversation) : conversation_(conversation) {}

  /// Appends the rows of a picture and the texts around its views to the chunk, which must have room for them. Views
  /// that are not encoded yet wait.
  Status add(const Picture& picture, const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk);
  /// Encodes the waiting views.
  Status encode();
  /// After a failure: drops the views whose rows begin at `first_row` or later, and clears the queue.
  void forget_from(int64_t first_row);
  /// Adds the time of the latest encoding to the statistics, once.
  void take_time();

 private:
  Status add_view(const Picture& picture, const ViewPlan& plan, int32_t view, const RowPlace& place,
                  PictureSource& source, const VisionScratch& scratch);
  Status encode_waiting(const VisionScratch& scratch);

  Conversation& conversation_;
  bool timed_ = false;  // the queue's encode timer runs or has run, and was not read yet
};

}  // namespace ocellus
