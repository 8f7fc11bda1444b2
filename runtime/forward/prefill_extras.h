// Extras of prefill: what packed caches, linked images and eviction add to the plain path of prefill.cpp. Each has a
// scratch of its own and, where it does work in a layer, a step in ExtraSteps, chosen when the scratch is laid out:
//
//   prefill_expand.cpp    CUDA: copies packed and shifted runs of the past to f16 before a layer
//   prefill_compress.cpp  keeps the queries that an eviction rule reads; chooses and packs rows after a layer
//   prefill_window.h      layers in which a row sees only the newest rows, and pictures whose rows see each other
//   prefill_last_row.h    CUDA: layers without keys and values of their own, run for the chunk's last row alone
//   prefill_scratch.cpp   lays all of it out
#pragma once

#include "kernels/attention/attend_rows.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "platform/set_up_memory.h"
#include "platform/trace.h"
#include "runtime/cache/prompt_chunk.h"
#include "runtime/forward/prefill_last_row.h"
#include "runtime/forward/prefill_window.h"
#include "runtime/models/text_layer.h"

namespace ocellus {

struct EngineShape;
struct LayerPass;
struct PrefillLimits;
struct PrefillPlan;
struct PrefillScratch;

/// Rows first .. first + hidden.rows of a chunk on their way through a layer.
struct RowBlock {
  int64_t first = 0;
  int64_t chunk_rows = 0;  // number of rows of the whole chunk
  DeviceView<float> hidden;
  LayerRows rows;
  DeviceView<const float> angles;
  RowBounds bounds;
  ActivationView input;  // if layers have inputs
};

/// Positions of rows, of one number each, or three: see RopeSections.
struct RowPositions {
  StagedRows<int32_t> values;  // [1, T * coordinates]
  int32_t coordinates = 1;

  Status lay_out(const RopeParams& rope, int64_t rows, const char* name, RowSink& sink);
  int32_t* host_row(int64_t row) const { return values.host.data + row * coordinates; }
  void upload(int64_t rows, Queue& queue) const { queue.upload(values, rows * coordinates); }
  /// out[t] = the angles of row t, for the first rows.
  void find_angles(const RopeParams& rope, DeviceView<float> out, Queue& queue) const;
};

/// Scratch of a branch beside that of a prefill.
class BranchScratch {
 public:
  /// Takes it for chunks of at most `rows` rows.
  virtual Status lay_out(const TextConfig& config, int64_t rows, const DeviceTraits& device, RowSink& sink) = 0;

 protected:
  ~BranchScratch() = default;
};

/// Gives layers other rows than the layer before has left.
class LayerSource : public BranchScratch {
 public:
  /// Called before every layer, with the chunk's rows.
  virtual void write_rows(const LayerPass& pass, DeviceView<float> hidden, Queue& queue) = 0;

 protected:
  ~LayerSource() = default;
};

/// Steps that a layer has beyond the plain ones; null: none. The source, the first and the last are not part of
/// recordings, as their sizes differ from chunk to chunk.
struct ExtraSteps {
  using OfLayer = void (*)(const LayerPass& pass, Queue& queue);
  using OfChunk = void (*)(const LayerPass& pass, DeviceView<float> hidden, Queue& queue);
  using OfBlock = void (*)(const LayerPass& pass, const RowBlock& block, Queue& queue);
  LayerSource* source = nullptr;  // set by the code that lays this out
  TraceSink trace;                // set by the code that takes this
  OfLayer before_layer = nullptr;
  OfLayer after_angles = nullptr;     // before layer 0
  OfChunk ahead_of_blocks = nullptr;  // no row of the layer is projected yet; also in layers with a window
  OfBlock in_block = nullptr;         // the block is projected and rotated; also in layers with a window
  OfBlock before_attention = nullptr;
  OfLayer after_layer = nullptr;
};

/// CUDA: f16 copies of packed and shifted runs for attention, one layer at a time.
struct ExpandScratch {
  StagedRows<KvRun> runs;         // [1, tiles]
  LayerKv kv;                     // [G * rows, E]
  DeviceView<float> calibration;  // [rows of a block, 2 H]

  Status lay_out(const TextConfig& config, const PrefillLimits& limits, RowSink& sink);
  bool on() const { return kv.keys.data != nullptr; }
  /// The f16 copy of run `index` of the list of packed runs.
  KvRun copy_of(const KvRun& run, int64_t index) const;
};

/// The cache before a chunk, as attention reads it.
struct PastScratch {
  StagedRows<KvRun> runs;  // [1, tiles]
  ExpandScratch copies;
};

/// Copies the planned runs of a layer.
void expand_past(const LayerPass& pass, Queue& queue);

/// Changes the slots of linked images in every layer of a chunk, before any row attends to them: a branch does.
class LinkChange : public SetUpObject {
 public:
  virtual ~LinkChange() = default;
  /// Takes its scratch and sets its steps.
  virtual Status lay_out(const TextConfig& config, const LinkLimits& limits, RowSink& sink, ExtraSteps* steps) = 0;
  /// Fills and uploads the lists of the images that are linked into the chunk. Copies on CUDA begin with number
  /// `first_copied` of the copied runs.
  virtual void plan(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache, int64_t first_copied,
                    const PrefillScratch& scratch, Queue& queue) = 0;
  /// Changes no image: for recordings, which always contain the op.
  virtual void plan_none(Queue& queue) = 0;
};

/// A layer's keys and values in the order of a prompt.
struct JoinedLayer {
  KvLayerRows rows;
  DeviceView<const float> angles;    // [T, rotated]
  const int32_t* readers = nullptr;  // [T + 1] how many rows from each one on are computed
};

/// Stores a chunk with its linked images as if these had been read in it: a branch does. Keys and values of both, in
/// the order of the prompt, are stored and compressed in place of the chunk's own.
class LinkJoin : public SetUpObject {
 public:
  virtual ~LinkJoin() = default;
  /// Takes the rows that live as long as the engine.
  virtual Status lay_out_images(const EngineShape& shape, RowSink& sink) = 0;
  /// The linked images, until their prompt is read.
  virtual SessionCache& images() = 0;
  /// Joins a chunk, before it is planned, with images that are numbered from `first_image` on.
  virtual void begin(const PromptChunk& chunk, int32_t first_image) = 0;
  /// The chunk as it is stored: joined, if it has linked images.
  virtual const PromptChunk& stored(const PromptChunk& chunk) const = 0;

  // Functions of a prefill.
  virtual Status lay_out(const TextConfig& config, const PrefillLimits& limits, RowSink& sink) = 0;
  /// Destinations and positions of the joined rows, to be written.
  virtual const HostView<KvSlot>& slots() const = 0;
  virtual const RowPositions& positions() const = 0;
  /// Fills and uploads the lists of a chunk that is joined, whose rows have their places by then.
  virtual void plan(const PromptChunk& chunk, const PrefillScratch& scratch, PrefillPlan* plan, Queue& queue) = 0;
  /// Joins the rows of a layer and stores those that have a slot.
  virtual JoinedLayer join_rows(const LayerPass& pass, Queue& queue) = 0;
  /// Copies the queries of a chunk's rows from `first` on to the places where the rule reads them.
  virtual void join_queries(const LayerPass& pass, int64_t first, const ActivationView& queries, Queue& queue) = 0;
};

/// Keeps the queries of a block that the eviction rule reads, as the next block overwrites them.
void keep_observed_queries(const LayerPass& pass, const RowBlock& block, Queue& queue);
/// Compresses the chunk's rows of a layer, and after the last layer those of a late rule.
void compress_rows(const LayerPass& pass, Queue& queue);

/// Linked images.
struct LinkScratch {
  // Set by the code that lays this out.
  LinkJoin* join = nullptr;
  LinkChange* change = nullptr;
  BranchScratch* choice = nullptr;  // scratch of PictureLinks::choose_rows()

  Status lay_out(const TextConfig& config, const PrefillLimits& limits, const DeviceTraits& device, RowSink& sink,
                 ExtraSteps* steps);
};

}  // namespace ocellus
