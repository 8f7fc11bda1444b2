// Buffers that an engine has as long as it lives, described once: the planner records these rows, the engine takes
// them. phase_scratch.h has the others.
#pragma once

#include "mm/pictures/image_decode.h"
#include "mm/tower/waiting_views.h"
#include "platform/arena.h"
#include "runtime/engine/branch.h"
#include "runtime/engine/engine_shape.h"
#include "runtime/engine/linked_memory.h"
#include "runtime/forward/sampler.h"
#include "runtime/policy/compress.h"

namespace ocellus {

/// Weights, as they stand in the files, and what follows from their keys.
struct WeightMemory {
  DeviceView<std::byte> text;       // the tensor section of the file, unchanged, without the table
  HostView<std::byte> input_table;  // CUDA only: see host_stretch()
  DeviceView<float> rope_factors;   // [1, rotated / 2] of YaRN, if the model has such
  DeviceView<std::byte> vision;

  Status lay_out(const Model& model, const EngineShape& shape, RowSink& sink);
  LoadedSection<std::byte> text_section(const GgufFile& file) const;
};

/// Pictures on their way to rows of a chunk.
struct PictureMemory {
  ImageDecoder decoder;     // no row: opened by the engine
  DeviceView<float> notes;  // [rows of the chunk, note_width] what the tower tells of them; only if it is needed
  WaitingViews waiting;
  // CUDA only: host memory of pictures being uploaded. Not scratch, because other phases would write to it while it is
  // still being read.
  HostView<std::byte> staging;

  /// Pictures are planned.
  Status lay_out(const Model& model, const EngineShape& shape, RowSink& sink);
};

/// Rows that live as long as the engine.
struct EngineMemory {
  WeightMemory weights;
  Tokenizer tokenizer;
  KvPools pools;
  Buffer<SessionCache> caches;      // one per session
  HostView<int32_t> recent_tokens;  // [2 sessions, kRecentTokens] rings, then those at the marks
  DeviceView<float> last_hidden;    // [sessions, D] output of the last layer for the newest prompt row
  PromptChunk chunk;
  LinkedMemory linked;
  PictureMemory pictures;
  BranchMemory branches;
  HostView<std::byte> texts;    // [sessions, bytes] that wait to be tokenised: see WaitingText
  HostView<TokenId> token_ids;  // [1, text tokens] of the text being added
  HostView<float> token_times;  // [1, text tokens] ms per generated token, for medians
  HostView<NcarState> ncar;     // [1, sessions] for the newest rows that competed; DAVID only

  Status lay_out(const Model& model, const EngineShape& shape, RowSink& sink);

 private:
  Status lay_out_pictures(const Model& model, const EngineShape& shape, RowSink& sink);
  Status lay_out_links(const Model& model, const EngineShape& shape, RowSink& sink);
  Status lay_out_text(const EngineShape& shape, RowSink& sink);
};

}  // namespace ocellus
