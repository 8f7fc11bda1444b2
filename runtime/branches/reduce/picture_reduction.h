// The branch reduce: some rows of a picture are read, and the others leave the prompt before its first layer, or after
// some layers.
#pragma once

#include "runtime/branches/reduce/reduction_rule.h"
#include "runtime/engine/engine.h"

namespace ocellus {

/// The rows that are kept.
struct ReductionMemory {
  StagedRows<int32_t> picks;       // [1, rows of a chunk]
  StagedRows<int32_t> stands_for;  // [1, rows of a chunk], where rows have weights
  Status lay_out(const EngineShape& shape, RowSink& sink);
};

/// Rows of pictures that the first layers read and the others do not (FastV). The first layers are run with all rows;
/// once the last of them has ranked the rows, the chunk keeps some. The first layers are then run once more, to store
/// the keys and values of these as if the others were still beside them, and the other layers as ever.
struct DropScratch {
  DeviceView<float> inputs;     // [(full layers + 1) * T, D] all rows before each of these layers, and after them
  StagedRows<float> attention;  // [G, T] of the chunk's last row, in the last of these layers
  DeviceView<std::byte> scoring;
  int64_t most_rows = 0;  // T

  DeviceView<float> rows_before(int32_t layer, int64_t rows) const {
    return inputs.slice_rows(layer * most_rows, rows);
  }
};

class PictureReduction final : public RowChoice, public LayerSource {
 public:
  /// `reduction`: planned.
  PictureReduction(const Reduction& reduction, const Model& model, const EngineShape& shape)
      : reduction_(reduction),
        encoded_rows_(shape.pictures.encoded_rows),
        chunk_rows_(shape.prompt_rows),
        width_(model.text().width) {}
  Status lay_out_memory(const EngineShape& shape, RowSink& sink) { return memory_.lay_out(shape, sink); }
  const ReductionMemory& memory() const { return memory_; }

  // RowChoice
  Status plan_scratch(RowSink& sink) const override;
  LayerSource* source() override { return reduction_.full_layers() > 0 ? this : nullptr; }
  Status after_encoding(Engine& engine, double* spent_ms) override;
  Status after_first_layers(Engine& engine, int64_t first_position, SessionCache& cache, const PrefillScratch& scratch,
                            const StopSignal* stop, int32_t* known_layers) override;
  void note_time(double spent_ms, int64_t rows) override;

  // LayerSource
  Status lay_out(const TextConfig& config, int64_t rows, const DeviceTraits& device, RowSink& sink) override;
  void write_rows(const LayerPass& pass, DeviceView<float> hidden, Queue& queue) override;

 private:
  Status take(RowSink& sink, ChoiceScratch* out) const {
    return out->lay_out(reduction_, encoded_rows_, chunk_rows_, width_, sink);
  }
  Status look(Engine& engine, PrefillPlan plan, const PrefillScratch& scratch, const StopSignal* stop);
  void find_last_attention(const LayerPass& pass, int64_t rows, Queue& queue) const;

  Reduction reduction_;
  int64_t encoded_rows_, chunk_rows_, width_;
  ReductionMemory memory_;
  DropScratch drop_;   // the scratch of the prefill that is under way
  double row_ms_ = 0;  // a prompt's row takes this, as a running mean; 0: none was read yet
};

/// The rows that an engine keeps which plans a reduction.
inline const ReductionMemory& reduction_of(Engine& engine) {
  return static_cast<PictureReduction&>(*engine.memory().branches.rows).memory();
}

}  // namespace ocellus
