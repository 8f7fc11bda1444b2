// Layers with a convolution in place of attention: what a prefill keeps for them.
#pragma once

#include "platform/arena.h"
#include "platform/queue.h"
#include "runtime/cache/prompt_chunk.h"
#include "runtime/models/text_model.h"

namespace ocellus {

struct LayerPass;
struct PrefillLimits;
struct PrefillScratch;
struct RowBlock;
struct WindowCaches;

template <>
struct TypeName<float*> {
  static constexpr const char* value = "place";
};

/// Rows y of convolutions (see ShortConv). Those before the chunk and those that later chunks see lie in the session's
/// ring, those between blocks here, in either of two places in turn.
struct ConvScratch {
  int64_t kept = 0;            // rows that a row sees before its own: K - 1
  DeviceView<float> ends;      // [2 (K - 1), D]
  StagedRows<float*> between;  // [1, 2 (K - 1)] places of those
  StagedRows<float*> places;   // [1, K - 1 + T] in a ring's first layer: of the rows before the chunk, and of its own

  Status lay_out(const TextConfig& config, const PrefillLimits& limits, RowSink& sink);
  bool on() const { return kept > 0; }
};

/// Fills and uploads the lists of a chunk.
void plan_convolutions(const PromptChunk& chunk, const WindowCaches& caches, const PrefillScratch& scratch,
                       Queue& queue);
/// The convolution of a block of rows in place of its attention.
void convolve(const LayerPass& pass, const RowBlock& block, Queue& queue);

}  // namespace ocellus
