// Prefill: many rows through the language model at once, layer by layer.
//
// All rows of a chunk go through layer l, in blocks (DeviceTraits::block_rows), before layer l + 1 begins. Layer l's
// keys and values of the chunk's own rows are kept as f16 in one buffer, where the chunk attends to them, then stored
// into the cache segments; layer l + 1 reuses the buffer. Peak memory is the hidden rows plus one layer of keys and
// values, whatever the number of layers.
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
  int64_t past_tiles = 0;      // runs of the cache before a chunk, as listed for attention
  int64_t expanded_tiles = 0;  // CUDA: packed or shifted ones among them
  CompressLimits compress;     // includes the rows of a chunk
  LinkLimits links;
  KvShape kv;  // storage of visual slots
};

/// CUDA: f16 copies of packed and shifted runs for attention, one layer at a time.
struct ExpandScratch {
  StagedRows<KvRun> runs;         // [1, tiles]
  DeviceView<Half> keys, values;  // [G * rows, E]
  DeviceView<float> calibration;  // [rows of a block, 2 H]
  KvLayerRows rows(const TextConfig& config) const {
    return KvLayerRows::head_major(keys.data, values.data, config.kv_heads, config.head_dim,
                                   keys.rows / config.kv_heads);
  }
};

/// Text that does not compete, for the ledger of evictions during answers.
struct NotedText {
  StagedRows<KvRun> runs;    // [1, pages] destination slots
  StagedRows<int32_t> rows;  // [1, T]
};

template <>
struct TypeName<CarriedImage> {
  static constexpr const char* value = "image";
};

/// Linked images with carried change: see carry_change.
struct CarryScratch {
  StagedRows<CarriedImage> images;    // [1, images]
  StagedRows<int32_t> rows_in_place;  // [images, in place]
  StagedRows<int32_t> positions;      // [images, slots + 1] positions of its slots, then the distance that it has moved
  DeviceView<float> slot_angles;      // [images * (slots + 1), rotated]
  Status lay_out(const LinkLimits& limits, int64_t rotated, RowSink& sink);
  bool on() const { return images.host.cols > 0; }
};

/// Selection of the rows to compute in place, among all.
struct BlendScratch {
  StagedRows<KvSlot> stored;  // [1, T] storage of each row
  StagedRows<float> changes;  // [1, T] change of values by row
  HostView<int32_t> order;    // [1, T] rows
  Status lay_out(int64_t max_rows, RowSink& sink);
};

struct PrefillScratch {
  StagedRows<int32_t> positions;  // [1, T]
  StagedRows<KvSlot> slots;       // [1, T] destination of each row's keys and values
  StagedRows<KvRun> past;         // [1, tiles] the cache before the chunk
  DeviceView<float> angles;       // [T, rotated]
  DeviceView<Half> keys, values;  // [G * T, E], head-major, one layer
  LayerScratch layer;             // one block of rows
  ExpandScratch expand;
  CarryScratch carry;
  BlendScratch blend;
  bool text_alone = false;  // see LinkLimits
  CompressScratch compress;
  NotedText noted;
  KvShape kv;
  TraceSink trace;  // set by the code that takes this

  Status lay_out(const TextConfig& config, const PrefillLimits& limits, const DeviceTraits& device, RowSink& sink);
  KvLayerRows layer_rows(const TextConfig& config) const {
    return KvLayerRows::head_major(keys.data, values.data, config.kv_heads, config.head_dim,
                                   keys.rows / config.kv_heads);
  }
};

/// Facts of a chunk beyond its rows.
struct PrefillPlan {
  int64_t past_tiles = 0;      // runs of the cache before the chunk
  int64_t expanded_tiles = 0;  // runs copied first
  int64_t carried_images = 0;
  int32_t most_layers = INT32_MAX;  // maximum of layers to run, from the first on
  CompressPlan compress = {};
};

/// Carries no image's change: for recordings, which always contain the op.
void carry_no_change(const CarryScratch& carry, Queue& queue);

/// Fills positions, slots and past of the scratch on the host: the chunk's rows stand from position first_position on,
/// its keys and values go to the reserved slots of `cache`, which records their positions. Compression is planned and
/// its lists are uploaded.
PrefillPlan plan_prefill(const PromptChunk& chunk, int64_t first_position, SessionCache& cache, int32_t head_dim,
                         const PrefillScratch& scratch, Queue& queue);
/// Plans rows that are not stored.
PrefillPlan plan_look(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache,
                      const PrefillScratch& scratch, Queue& queue);
/// Plans a chunk that sees only itself, from position 0 on, and of which only the images are stored.
PrefillPlan plan_prefill_alone(const PromptChunk& chunk, SessionCache& cache, int32_t head_dim,
                               const PrefillScratch& scratch, Queue& queue);

/// Enqueues a layer of prefill_rows up to its output and the storing of text, and before layer 0 the angles of the
/// positions. On CUDA copies of packed runs must exist: see expand_past.
void enqueue_layer(const TextModel& model, int32_t layer, DeviceView<float> hidden, const PrefillPlan& plan,
                   const PrefillScratch& scratch, const StopSignal* stop, Queue& queue);
/// Work before and after a layer if a chunk or its past is compressed. Not part of recordings: sizes differ.
void expand_past(const TextModel& model, int32_t layer, const PrefillPlan& plan, const PrefillScratch& scratch,
                 Queue& queue);
void compress_rows(const TextModel& model, int32_t layer, const PrefillPlan& plan, const PrefillScratch& scratch,
                   Queue& queue);

/// Runs `hidden` [T, D] through all layers, in place; the result is the last layer's output. Keys and values are
/// written to the planned slots. Stops between blocks of rows with kCancelled or kDeadline; the cache's live slots are
/// unchanged until the caller commits.
Status prefill_rows(const TextModel& model, DeviceView<float> hidden, const PrefillPlan& plan,
                    const PrefillScratch& scratch, const StopSignal* stop, Queue& queue);

}  // namespace ocellus
