// Prefill: many rows through the language model at once, layer by layer.
//
// All rows of a chunk go through layer l, in blocks (DeviceTraits::block_rows), before layer l + 1 begins. Layer l's
// keys and values of the chunk's own rows are kept as f16 in one buffer, where the chunk attends to them, then stored
// into the cache segments; the same buffer serves layer l + 1. Peak memory is the hidden rows plus one layer of keys
// and values, whatever the number of layers.
#pragma once

#include "kernels/cache/carry_change.h"
#include "kernels/rows/store_kv.h"
#include "mm/tower/vision_tower.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "platform/trace.h"
#include "runtime/cache/prompt_chunk.h"
#include "runtime/models/text_layer.h"
#include "runtime/policy/compress.h"

namespace ocellus {

/// Sizes of prefill, for the plan.
struct PrefillLimits {
  int64_t past_tiles = 0;      // runs of the cache before a chunk, as attention lists them
  int64_t expanded_tiles = 0;  // CUDA: of them packed or shifted
  CompressLimits compress;     // with the rows of a chunk
  LinkLimits links;
  KvShape kv;  // how visual slots are stored
};

/// CUDA: what attention reads of packed and shifted runs, one layer at a time.
struct ExpandScratch {
  StagedRows<KvRun> runs;         // [1, tiles]
  DeviceView<Half> keys, values;  // [G * rows, E]
  DeviceView<float> calibration;  // [rows of a block, 2 H]
  KvLayerRows rows(const TextConfig& config) const {
    return KvLayerRows::head_major(keys.data, values.data, config.kv_heads, config.head_dim,
                                   keys.rows / config.kv_heads);
  }
};

/// Where slots go while a session answers: text that does not compete, for the ledger.
struct NotedText {
  StagedRows<KvRun> runs;    // [1, pages] the slots where it goes
  StagedRows<int32_t> rows;  // [1, T]
};

template <>
struct TypeName<CarriedImage> {
  static constexpr const char* value = "image";
};

/// Linked images whose change is carried: see carry_change.
struct CarryScratch {
  StagedRows<CarriedImage> images;    // [1, images]
  StagedRows<int32_t> rows_in_place;  // [images, in place]
  StagedRows<int32_t> positions;      // [images, slots + 1] of its slots, then the distance it has moved
  DeviceView<float> slot_angles;      // [images * (slots + 1), rotated]
  Status lay_out(const LinkLimits& limits, int64_t rotated, RowSink& sink);
  bool on() const { return images.host.cols > 0; }
};

/// Choosing the rows that are read in place, of all.
struct BlendScratch {
  StagedRows<KvSlot> stored;  // [1, T] where each row is stored
  StagedRows<float> changes;  // [1, T] of values, row by row
  HostView<int32_t> order;    // [1, T] rows
  Status lay_out(int64_t max_rows, RowSink& sink);
};

struct PrefillScratch {
  StagedRows<int32_t> positions;  // [1, T]
  StagedRows<KvSlot> slots;       // [1, T] where each row's keys and values go
  StagedRows<KvRun> past;         // [1, tiles] the cache before the chunk
  DeviceView<float> angles;       // [T, rotated]
  DeviceView<Half> keys, values;  // [G * T, E], head-major, one layer
  LayerScratch layer;             // of one block of rows
  ExpandScratch expand;
  CarryScratch carry;
  BlendScratch blend;
  bool text_alone = false;  // LinkLimits
  CompressScratch compress;
  NotedText noted;
  KvShape kv;
  TraceSink trace;  // to be set by whoever lays this out

  Status lay_out(const TextConfig& config, const PrefillLimits& limits, const DeviceTraits& device, RowSink& sink);
  KvLayerRows layer_rows(const TextConfig& config) const {
    return KvLayerRows::head_major(keys.data, values.data, config.kv_heads, config.head_dim,
                                   keys.rows / config.kv_heads);
  }
};

/// What a chunk needs to know beyond its rows.
struct PrefillPlan {
  int64_t past_tiles = 0;      // runs of the cache before the chunk
  int64_t expanded_tiles = 0;  // of them copied out first
  int64_t carried_images = 0;
  int32_t most_layers = INT32_MAX;  // that are run, from the first on
  CompressPlan compress = {};
};

/// No image's change is carried: for recordings, which always ask.
void carry_no_change(const CarryScratch& carry, Queue& queue);

/// Fills positions, slots and past of the scratch on the host's side: the chunk's rows stand at positions
/// first_position, ..., its keys and values go to the reserved slots of `cache`, which hears where they stand. What is
/// compressed is planned and its lists are uploaded.
PrefillPlan plan_prefill(const PromptChunk& chunk, int64_t first_position, SessionCache& cache, int32_t head_dim,
                         const PrefillScratch& scratch, Queue& queue);
/// The same of rows that are not stored anywhere.
PrefillPlan plan_look(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache,
                      const PrefillScratch& scratch, Queue& queue);
/// The same of a chunk that sees nothing but itself, from position 0 on, and of which only the images are stored.
PrefillPlan plan_prefill_alone(const PromptChunk& chunk, SessionCache& cache, int32_t head_dim,
                               const PrefillScratch& scratch, Queue& queue);

/// A layer of prefill_rows up to its output and the storing of text, and before layer 0 the angles of the positions.
/// On CUDA copies of packed runs must be there: see expand_past.
void enqueue_layer(const TextModel& model, int32_t layer, DeviceView<float> hidden, const PrefillPlan& plan,
                   const PrefillScratch& scratch, const StopSignal* stop, Queue& queue);
/// What comes before and after a layer where a chunk or its past is compressed. Not part of recordings: sizes differ.
void expand_past(const TextModel& model, int32_t layer, const PrefillPlan& plan, const PrefillScratch& scratch,
                 Queue& queue);
void compress_rows(const TextModel& model, int32_t layer, const PrefillPlan& plan, const PrefillScratch& scratch,
                   Queue& queue);

/// Runs `hidden` [T, D] through all layers, in place; the last layer's output is left there. Keys and values land in
/// the planned slots. Stops between blocks of rows with kCancelled or kDeadline; the cache's live slots are untouched
/// until the caller commits.
Status prefill_rows(const TextModel& model, DeviceView<float> hidden, const PrefillPlan& plan,
                    const PrefillScratch& scratch, const StopSignal* stop, Queue& queue);

}  // namespace ocellus
