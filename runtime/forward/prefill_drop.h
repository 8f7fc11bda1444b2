// Rows of pictures that the first layers read and the others do not (FastV). The first layers are run with all rows;
// once the last of them has ranked the rows, the chunk keeps some. The first layers are then run once more, to store
// the keys and values of these as if the others were still beside them, and the other layers as ever.
#pragma once

#include "platform/arena.h"
#include "platform/queue.h"
#include "runtime/models/text_model.h"

namespace ocellus {

struct LayerPass;

struct DropScratch {
  DeviceView<float> inputs;     // [(full layers + 1) * T, D] all rows before each of these layers, and after them
  StagedRows<float> attention;  // [G, T] of the chunk's last row, in the last of these layers
  DeviceView<std::byte> scoring;
  int64_t most_rows = 0;  // T

  Status lay_out(const TextConfig& config, int32_t full_layers, int64_t rows, const DeviceTraits& device,
                 RowSink& sink);
  bool on() const { return most_rows > 0; }
  DeviceView<float> rows_before(int32_t layer, int64_t rows) const {
    return inputs.slice_rows(layer * most_rows, rows);
  }
};

/// Finds the attention of the last of `rows` rows in a layer that has just been run, and copies it to the host.
void find_last_attention(const LayerPass& pass, int64_t rows, Queue& queue);

}  // namespace ocellus
