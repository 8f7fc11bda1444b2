// CUDA: layers without keys and values of their own, which matter for the row alone that is answered: a chunk's last.
#pragma once

#include "kernels/attention/attend_rows.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "runtime/models/text_model.h"

namespace ocellus {

struct LayerPass;
struct PrefillScratch;

/// The last row on its way through these layers, copied out of the chunk's rows and back: a recording, which has rows
/// to spare, reads its number.
struct LastRowScratch {
  StagedRows<int32_t> number;      // [1, 1]
  StagedRows<RowSpan> seen;        // [1, 2] what it sees in layers without a window, and in those with one
  DeviceView<float> hidden;        // [1, D]
  DeviceView<float> angles;        // [1, rotated]
  DeviceView<float> local_angles;  // [1, rotated] in layers with a window
  ActivationView inputs;           // [1, layers * P] if layers have inputs

  Status lay_out(const TextConfig& config, const DeviceTraits& device, RowSink& sink);
  bool on() const { return hidden.rows > 0; }
};

/// Uploads the facts of the last of `rows` rows, whose bounds are listed.
void plan_last_row(int64_t rows, const PrefillScratch& scratch, Queue& queue);
/// Runs a layer for it. The first of these layers takes it out of the rows, the last one puts it back.
void enqueue_last_row(const LayerPass& pass, DeviceView<float> hidden, Queue& queue);

}  // namespace ocellus
