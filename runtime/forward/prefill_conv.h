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
/// ring, those between blocks here, in either of two places in turn. A row that follows linked slots of a picture sees
/// those before the end of the picture's view, as they were when the picture was read alone.
struct ConvScratch {
  int64_t kept = 0;            // rows that a row sees before its own: K - 1
  int64_t state_stride = 0;    // values between the states after a view in two layers
  DeviceView<float> ends;      // [2 (K - 1), D]
  StagedRows<float*> between;  // [1, 2 (K - 1)] places of those
  StagedRows<float*> places;   // [1, K - 1 + T] in a ring's first layer: of the rows before the chunk, and of its own
  StagedRows<float*> linked;   // [1, T] the state before each row that follows linked slots, if there may be any
  StagedRows<float*> views;    // [1, T] the place of the state after each row that ends a view of a picture to link

  Status lay_out(const TextConfig& config, const PrefillLimits& limits, RowSink& sink);
  bool on() const { return kept > 0; }
  bool links() const { return linked.host.cols > 0; }
};

/// Fills and uploads the lists of a chunk.
void plan_convolutions(const PromptChunk& chunk, const WindowCaches& caches, const PrefillScratch& scratch,
                       Queue& queue);
/// The convolution of a block of rows in place of its attention.
void convolve(const LayerPass& pass, const RowBlock& block, Queue& queue);

}  // namespace ocellus
