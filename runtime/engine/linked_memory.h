// Rows for linked pictures: see ReuseShape. They live as long as the engine.
#pragma once

#include "platform/arena.h"
#include "runtime/engine/engine_shape.h"
#include "runtime/engine/shared_images.h"

namespace ocellus {

/// Memory for choosing rows of linked images that are far from each other: see spread_rows.
struct SpreadMemory {
  StagedRows<int32_t> picks;
  DeviceView<float> least;
  DeviceView<float> mean;
  Status lay_out(int64_t rows, int64_t width, int64_t most_picks, RowSink& sink);
};

/// Linked images of the prompt that has the chunk, in f16 until their prompt is read, and that prompt as if they were
/// read in it: see ReuseShape::staged.
struct StagedImages {
  KvPools pools;
  SessionCache images;
  PromptChunk prompt;
  Status lay_out(const EngineShape& shape, RowSink& sink);
};

struct LinkedMemory {
  PromptChunk chunk;    // a picture that is read alone, in the memory of the engine's chunk
  ActivationView rows;  // [images * rows, input_width] embeddings of rows that are read in place
  SpreadMemory spread;
  SharedImageMemory shared_memory;
  SharedImages shared;  // no row
  StagedImages staged;

  /// `whole`: the engine's chunk. Pictures are linked.
  Status lay_out(const Model& model, const EngineShape& shape, const PromptChunk& whole, RowSink& sink);

 private:
  Status lay_out_shared(const Model& model, const EngineShape& shape, RowSink& sink);
};

}  // namespace ocellus
