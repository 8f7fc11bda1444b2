// Extras of prefill: what packed caches, linked images and eviction add to the plain path of prefill.cpp. Each has a
// scratch of its own and, where it does work in a layer, a step in ExtraSteps, chosen when the scratch is laid out:
//
//   prefill_expand.cpp    CUDA: copies packed and shifted runs of the past to f16 before a layer
//   prefill_carry.cpp     applies the change of an image's rows in place to its linked slots
//   prefill_join.cpp      puts computed rows and staged images together as one prompt's, after a layer
//   prefill_compress.cpp  keeps the queries that an eviction rule reads; chooses and packs rows after a layer
//   prefill_window.h      layers in which a row sees only the newest rows, and pictures whose rows see each other
//   prefill_last_row.h    CUDA: layers without keys and values of their own, run for the chunk's last row alone
//   prefill_scratch.cpp   lays all of it out
#pragma once

#include "kernels/attention/attend_rows.h"
#include "kernels/cache/carry_change.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "platform/trace.h"
#include "runtime/cache/prompt_chunk.h"
#include "runtime/forward/prefill_last_row.h"
#include "runtime/forward/prefill_window.h"
#include "runtime/models/text_layer.h"

namespace ocellus {

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
  OfLayer after_angles = nullptr;    // before layer 0
  OfChunk carry_ahead = nullptr;     // no row of the layer is projected yet; also in layers with a window
  OfBlock carry_in_block = nullptr;  // the block is projected and rotated; also in layers with a window
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

template <>
struct TypeName<CarriedImage> {
  static constexpr const char* value = "image";
};

/// Linked images with carried change: see carry_change.
struct CarryScratch {
  StagedRows<CarriedImage> images;    // [1, images]
  StagedRows<int32_t> rows_in_place;  // [images, in place]
  RowPositions positions;             // [images * (slots + 1)] of an image's slots, then the distance that it has moved
  DeviceView<float> slot_angles;      // [images * (slots + 1), rotated]
  // The same in layers with a window.
  StagedRows<CarriedImage> local_images;
  DeviceView<float> local_angles;

  Status lay_out(const TextConfig& config, const LinkLimits& limits, RowSink& sink);
  bool on() const { return images.host.cols > 0; }
  /// Number of an image's positions.
  int64_t places() const { return slot_angles.rows / images.host.cols; }
};

/// Fills and uploads the lists of images whose change is carried: those linked into the chunk. Copies on CUDA begin
/// with number `first_copied` of the copied runs.
void plan_carry(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache, int64_t first_copied,
                const PrefillScratch& scratch, PrefillPlan* plan, Queue& queue);
/// Carries no image's change: for recordings, which always contain the op.
void carry_no_change(const CarryScratch& carry, Queue& queue);
/// Computes the angles of the slots of carried images.
void find_slot_angles(const LayerPass& pass, Queue& queue);
/// Both apply the change of the rows in place to the other slots of their images, before any row attends to them: a
/// chunk of several blocks ahead of the first, once all are projected, one of a single block in it.
void carry_ahead(const LayerPass& pass, DeviceView<float> hidden, Queue& queue);
void carry_in_block(const LayerPass& pass, const RowBlock& block, Queue& queue);

/// Staged images: the keys and values of a layer as if the chunk's images had been read in it, in the order of the
/// prompt. They are stored and compressed in place of the chunk's own rows.
struct JoinScratch {
  const SessionCache* images = nullptr;  // the staged ones; set by the code that lays this out
  const PromptChunk* prompt = nullptr;   // the chunk joined with them
  StagedRows<KvRun> runs;                // [1, runs] of the chunk's rows and of images
  StagedRows<int32_t> first_rows;        // [1, runs] row of the prompt where each begins
  StagedRows<KvSlot> slots;              // [1, T] destination of each row
  RowPositions positions;                // [T]
  StagedRows<int32_t> readers;           // [1, T + 1] how many rows from each one on are computed
  HostView<int32_t> rows_in_prompt;      // [1, rows of a chunk] each one's row of the prompt
  DeviceView<float> angles;              // [T, rotated]
  LayerKv kv;                            // [G * T, E]

  Status lay_out(const TextConfig& config, const PrefillLimits& limits, RowSink& sink);
  bool on() const { return slots.host.cols > 0; }
  /// True if the chunk has images to join.
  bool joins(const PromptChunk& chunk) const { return on() && chunk.linked_image_count > 0; }
};

/// Fills and uploads the lists of a chunk that is joined, whose rows have their places in the prompt by then.
void plan_join(const PromptChunk& chunk, const PrefillScratch& scratch, PrefillPlan* plan, Queue& queue);
/// Joins the rows of a layer and stores those that have a slot.
void join_rows(const LayerPass& pass, Queue& queue);
/// Copies the queries of a chunk's rows from `first` on to the places where the rule reads them.
void join_queries(const LayerPass& pass, int64_t first, const ActivationView& queries, Queue& queue);

/// Keeps the queries of a block that the eviction rule reads, as the next block overwrites them.
void keep_observed_queries(const LayerPass& pass, const RowBlock& block, Queue& queue);
/// Compresses the chunk's rows of a layer, and after the last layer those of a late rule.
void compress_rows(const LayerPass& pass, Queue& queue);

/// Linked images.
struct LinkScratch {
  CarryScratch carry;
  JoinScratch join;
  BranchScratch* choice = nullptr;  // scratch of PictureLinks::choose_rows(); set by the code that lays this out

  Status lay_out(const TextConfig& config, const PrefillLimits& limits, const DeviceTraits& device, RowSink& sink);
};

}  // namespace ocellus
