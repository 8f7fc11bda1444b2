// Buffers that an engine has as long as it lives, described once: the planner records these rows, the engine takes
// them. phase_scratch.h has the others.
#pragma once

#include "mm/pictures/image_decode.h"
#include "mm/tower/waiting_views.h"
#include "platform/arena.h"
#include "runtime/engine/branch.h"
#include "runtime/engine/engine_shape.h"
#include "runtime/engine/shared_images.h"
#include "runtime/forward/sampler.h"
#include "runtime/policy/compress.h"

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

/// Rows that live as long as the engine.
struct EngineMemory {
  ImageDecoder image_decoder;          // no row: opened by the engine
  DeviceView<std::byte> text_weights;  // the tensor section of the file, unchanged, without the table
  HostView<std::byte> input_table;     // CUDA only: see host_stretch()
  DeviceView<std::byte> vision_weights;
  Tokenizer tokenizer;
  KvPools pools;
  Buffer<SessionCache> caches;      // one per session
  HostView<int32_t> recent_tokens;  // [2 sessions, kRecentTokens] rings, then those at the marks
  DeviceView<float> last_hidden;    // [sessions, D] output of the last layer for the newest prompt row
  PromptChunk chunk;
  DeviceView<float> notes;  // [rows of the chunk, note_width] what the tower tells of them; only if it is needed
  // Linked images only: one that is read alone, in the chunk's memory, and the embeddings of rows that are read in
  // place.
  PromptChunk image_chunk;
  ActivationView linked_rows;  // [images * rows, input_width]
  SpreadMemory spread;
  BranchMemory branches;
  SharedImageMemory shared_image_memory;
  SharedImages shared_images;  // no row
  StagedImages staged;
  WaitingViews waiting_views;
  // CUDA only: host memory of pictures being uploaded. Not scratch, because other phases would write to it while it is
  // still being read.
  HostView<std::byte> picture_staging;
  HostView<std::byte> texts;    // [sessions, bytes] that wait to be tokenised: see WaitingText
  HostView<TokenId> token_ids;  // [1, text tokens] of the text being added
  HostView<float> token_times;  // [1, text tokens] ms per generated token, for medians
  HostView<NcarState> ncar;     // [1, sessions] for the newest rows that competed; DAVID only

  Status lay_out(const Model& model, const EngineShape& shape, RowSink& sink);
  LoadedSection<std::byte> text_section(const GgufFile& file) const;

 private:
  Status lay_out_pictures(const Model& model, const EngineShape& shape, RowSink& sink);
  Status lay_out_text(const GgufFile& file, Place place, RowSink& sink);
  Status lay_out_shared(const Model& model, const EngineShape& shape, RowSink& sink);
  Status lay_out_links(const Model& model, const EngineShape& shape, RowSink& sink);
};

}  // namespace ocellus
