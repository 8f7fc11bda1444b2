// Prefill: many rows through the language model at once, layer by layer.
//
// All rows of a chunk go through layer l, in blocks (PrefillLimits::block_rows), before layer l + 1 begins. Layer l's
// keys and values of the chunk's own rows are kept as f16 in one buffer, where the chunk attends to them, then stored
// into the cache segments; layer l + 1 reuses the buffer. Peak memory is the hidden rows plus one layer of keys and
// values, whatever the number of layers.
//
// prefill.cpp is the plain path; what packed caches, linked images and eviction add to it is in prefill_extras.h.
// prefill_plan.cpp lists a chunk's rows and what they see; prefill_graphs.h records all of it on a GPU.
#pragma once

#include "mm/tower/vision_tower.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "runtime/cache/prompt_chunk.h"
#include "runtime/forward/answer_hooks.h"
#include "runtime/forward/prefill_conv.h"
#include "runtime/forward/prefill_extras.h"
#include "runtime/models/text_layer.h"
#include "runtime/policy/compress.h"

namespace ocellus {

struct PrefillPlan;
struct PrefillScratch;

/// Runs `hidden` [T, D] through all layers, in place; the result is the last layer's output. Keys and values are
/// written to the planned slots. Stops between blocks of rows with kCancelled or kDeadline; the cache's live slots are
/// unchanged until the caller commits.
Status prefill_rows(const TextModel& model, DeviceView<float> hidden, const PrefillPlan& plan,
                    const PrefillScratch& scratch, const StopSignal* stop, Queue& queue);

/// Fills and uploads what all layers of a chunk read besides positions, slots and past: its tokens, what its rows see,
/// and its last row. Returns true if a picture whose rows see each other lies in several blocks.
bool plan_rows(const PromptChunk& chunk, const WindowCaches& caches, const PrefillScratch& scratch, Queue& queue);

/// Fills positions, slots and past of the scratch on the host: the chunk's rows stand from position first_position on,
/// its keys and values go to the reserved slots of `cache`, which records their positions. Compression is planned and
/// its lists are uploaded.
PrefillPlan plan_prefill(const PromptChunk& chunk, int64_t first_position, SessionCache& cache, int32_t head_dim,
                         const PrefillScratch& scratch, Queue& queue);
/// Plans rows that are not stored.
PrefillPlan plan_look(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache,
                      const PrefillScratch& scratch, Queue& queue);
/// Plans a chunk of which only the images are stored: it stands in the prompt like that of plan_prefill.
PrefillPlan plan_prefill_images(const PromptChunk& chunk, int64_t first_position, SessionCache& cache, int32_t head_dim,
                                const PrefillScratch& scratch, Queue& queue);
/// The same for a chunk that sees only itself, from position 0 on.
PrefillPlan plan_prefill_alone(const PromptChunk& chunk, SessionCache& cache, int32_t head_dim,
                               const PrefillScratch& scratch, Queue& queue);

/// Sizes of prefill, for the plan.
struct PrefillLimits {
  int64_t rows = 0;            // rows of a chunk
  int64_t rows_at_once = 0;    // maximum that a GPU takes through a layer together
  int64_t block_rows = 0;      // maximum rows of a block
  int64_t past_tiles = 0;      // runs of the cache before a chunk, as listed for attention
  int64_t expanded_tiles = 0;  // CUDA: packed or shifted ones among them
  CompressLimits compress;     // includes the rows stored with a chunk
  LinkLimits links;
  KvShape kv;                    // storage of visual slots
  bool mutual_pictures = false;  // rows of a picture see each other
  bool weighs_rows = false;      // rows have weights: see PromptChunk
};

/// Facts of a chunk beyond its rows.
struct PrefillPlan {
  int64_t rows = 0;                 // rows of the chunk
  int64_t past_tiles = 0;           // runs that the chunk sees besides its own rows
  int64_t live_tiles = 0;           // the cache before the chunk among them: the first ones
  int64_t expanded_tiles = 0;       // runs copied first
  bool joins = false;               // the chunk is joined: see LinkJoin
  bool sees_ahead = false;          // a picture whose rows see each other lies in several blocks
  int32_t first_layer = 0;          // the first layer to run
  int32_t most_layers = INT32_MAX;  // number of the layer before which to stop
  int32_t known_layers = 0;         // the first ones, whose output is known: only keys and values are stored
  CompressPlan compress = {};
};

/// Facts of a chunk's rows that all layers read.
struct RowFacts {
  RowPositions positions;      // [T]
  StagedRows<KvSlot> slots;    // [1, T] destination of each row's keys and values
  DeviceView<float> angles;    // [T, rotated]
  StagedRows<float> bias;      // [1, T] where rows have weights: see AttendRowsArgs
  StagedRows<int32_t> tokens;  // [1, T] if layers have inputs

  bool weighs() const { return bias.host.cols > 0; }
};

/// Memory of the extras has no rows where the limits have no use for it.
struct PrefillScratch {
  PrefillLimits limits;
  RowFacts rows;
  PastScratch past;
  LayerKv kv;                      // [G * T, E] after those of a window's past if they share the memory: see
                                   // WindowScratch
  LayerScratch layer;              // one block of rows
  LayerInputScratch layer_inputs;  // [T, layers * P] if layers have inputs
  WindowScratch window;
  ConvScratch conv;
  LastRowScratch last_row;
  CompressScratch compress;
  SlotDropper* dropper = nullptr;  // set by the code that lays this out
  LinkScratch links;
  ExtraSteps extra;

  Status lay_out(const TextConfig& config, const PrefillLimits& limits, const DeviceTraits& device, RowSink& sink);
  /// All rows of a layer's keys and values: the chunk's own and those before them.
  KvLayerRows all_rows(bool is_local) const { return (is_local ? window.kv : kv).of(limits.kv.kv_heads); }
  /// The chunk's own rows in a layer; in one with a window at their places among linked slots.
  KvLayerRows own_rows(bool is_local) const {
    KvLayerRows own = all_rows(is_local);
    const int64_t before = is_local ? window.past_rows : own.capacity - limits.rows;
    own.keys += before * own.row_stride;
    own.values += before * own.row_stride;
    own.capacity -= before;
    return own;
  }
};

/// One layer of a chunk. References stay the caller's.
struct LayerPass {
  const TextModel& model;
  const PrefillPlan& plan;
  const PrefillScratch& scratch;
  int32_t layer = 0;

  const TextConfig& config() const { return model.config; }
  const TextLayer& weights() const { return model.layers[layer]; }
  /// The step, unless the layer has a window or a convolution, or shares another's keys and values: most extras are for
  /// the others.
  template <class Step>
  Step step(Step extra) const {
    return is_local() ? nullptr : own_step(extra);
  }
  /// The step, unless the layer shares another's keys and values.
  template <class Step>
  Step own_step(Step extra) const {
    return shares() ? nullptr : extra;
  }
  bool is_local() const { return model.config.local.has(layer); }
  bool convolves() const { return model.config.convolves(layer); }
  bool shares() const { return model.config.shares(layer); }
  /// The layer is run for the last row alone, which lies apart: see LastRowScratch.
  bool runs_last_row() const { return shares() && scratch.last_row.on(); }
  /// Its index in the cache of its kind.
  int32_t cache_layer() const { return model.config.cache_layer(layer); }
  /// The chunk's own keys and values, which stay until the next layer of this kind that has some.
  KvLayerRows own_rows() const { return scratch.own_rows(is_local()); }
};

/// The part of a layer of prefill_rows that recordings hold: all but extra.before_layer and extra.after_layer. It
/// begins the layer, enqueues block after block, and ends it.
void enqueue_layer(const LayerPass& pass, DeviceView<float> hidden, const StopSignal* stop, Queue& queue);

/// A block needs the keys and values of its own rows and those before it, so it can run the whole layer at once.
void enqueue_block(const LayerPass& pass, const RowBlock& block, Queue& queue);
void begin_layer(const LayerPass& pass, DeviceView<float> hidden, Queue& queue);
/// Rows [first, end) of the chunk, in whole blocks. False if they were stopped.
bool enqueue_blocks(const LayerPass& pass, DeviceView<float> hidden, int64_t first, int64_t end, const StopSignal* stop,
                    Queue& queue);
void end_layer(const LayerPass& pass, int64_t rows, Queue& queue);

/// Rows of a chunk from `first` on: those of one block.
RowBlock block_from(const LayerPass& pass, DeviceView<float> hidden, int64_t first);
/// Fills rows with zeros, and what lies between them.
void clear_rows(const ActivationView& rows, Queue& queue);
/// Finds keys and values of all rows before the first block attends. The blocks find them once more, with the queries.
void prepare_blocks(const LayerPass& pass, DeviceView<float> hidden, Queue& queue);
/// Rows of the chunk, from the first on, whose keys are known when a block attends.
int64_t known_rows(const LayerPass& pass, const RowBlock& block, const Queue& queue);

}  // namespace ocellus
