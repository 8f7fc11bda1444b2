// Prefill: many rows through the language model at once, layer by layer.
//
// All rows of a chunk go through layer l, in blocks (DeviceTraits::block_rows), before layer l + 1 begins. Layer l's
// keys and values of the chunk's own rows are kept as f16 in one buffer, where the chunk attends to them, then stored
// into the cache segments; the same buffer serves layer l + 1. Peak memory is the hidden rows plus one layer of keys
// and values, whatever the number of layers.
#pragma once

#include "kernels/store_kv.h"
#include "mm/vision_tower.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "runtime/compress.h"
#include "runtime/kv_cache.h"
#include "runtime/text_layer.h"

namespace ocellus {

/// kLinked: rows of a linked image that are read in place, and stored like text.
enum class RowKind : uint8_t { kText, kImage, kLinked };

/// Consecutive rows of a chunk that go to the same place: text pages, or one image's slot.
struct Piece {
  RowKind kind = RowKind::kText;
  int32_t image_ordinal = 0;  // images only: which image of the session
  int64_t first_row = 0;
  int64_t row_count = 0;
  int64_t linked_before = 0;  // positions of the chunk before the piece that are no rows: slots of linked images
  int64_t source_row = 0;     // kLinked: of the linked rows' embeddings
};

/// Rows that wait to be read: embeddings of text and images of one session, in order of position.
struct PromptChunk {
  DeviceView<float> hidden;       // [max rows, D]
  StagedRows<int32_t> token_ids;  // [1, max rows]; kSkippedRow for rows of images
  HostView<Piece> pieces;         // [1, max rows]
  int64_t row_count = 0;
  int64_t piece_count = 0;
  int64_t text_count = 0;  // rows that go to text pages
  HostView<LinkedRun> links;
  int64_t link_count = 0;
  int64_t linked_slots = 0;  // positions that are no rows
  int64_t linked_rows = 0;   // rows of linked images

  /// `links`: stretches of linked images. With `hidden_of` the rows share another chunk's memory: only one of the two
  /// may be read at a time.
  Status lay_out(int64_t max_rows, int64_t width, int64_t max_links, const PromptChunk* hidden_of, RowSink& sink);
  int64_t room() const { return hidden.rows - row_count; }
  /// Appends `count` rows to the last piece if it is of the same place, or as a new one. Rows of images are written by
  /// the caller before or after; those of text are looked up in embed_text().
  void add_text(const int32_t* tokens, int64_t count);
  void add_image_rows(int32_t image_ordinal, int64_t count);
  /// Rows of a linked image whose embeddings are the linked rows from linked_rows on.
  void add_linked_rows(int64_t count);
  /// What stands behind the rows so far.
  void add_link(LinkedRun link);
  int64_t positions() const { return row_count + linked_slots; }
  /// Writes the embeddings of all text rows.
  void embed_text(const WeightView& embedding, Queue& queue) const;
  void clear() { row_count = piece_count = text_count = link_count = linked_slots = linked_rows = 0; }

  /// The state to go back to if an image turns out not to be readable half way.
  struct Mark {
    int64_t row_count, piece_count, text_count, last_piece_rows, link_count, linked_slots, linked_rows;
  };
  Mark mark() const {
    const int64_t last_piece_rows = piece_count > 0 ? pieces.data[piece_count - 1].row_count : 0;
    return {row_count, piece_count, text_count, last_piece_rows, link_count, linked_slots, linked_rows};
  }
  void rewind(const Mark& mark);

 private:
  void add_piece(RowKind kind, int32_t image_ordinal, int64_t count);
};

/// Sizes of prefill, for the plan.
struct PrefillLimits {
  int64_t past_tiles = 0;      // runs of the cache before a chunk, as attention lists them
  int64_t expanded_tiles = 0;  // CUDA: of them packed or shifted
  CompressLimits compress;     // with the rows of a chunk
  KvShape kv;                  // how visual slots are stored
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

struct PrefillScratch {
  StagedRows<int32_t> positions;  // [1, T]
  StagedRows<KvSlot> slots;       // [1, T] where each row's keys and values go
  StagedRows<KvRun> past;         // [1, tiles] the cache before the chunk
  DeviceView<float> angles;       // [T, rotated]
  DeviceView<Half> keys, values;  // [G * T, E], head-major, one layer
  LayerScratch layer;             // of one block of rows
  ExpandScratch expand;
  CompressScratch compress;
  NotedText noted;
  KvShape kv;

  Status lay_out(const TextConfig& config, const PrefillLimits& limits, const DeviceTraits& device, RowSink& sink);
};

/// What a chunk needs to know beyond its rows.
struct PrefillPlan {
  int64_t past_tiles = 0;      // runs of the cache before the chunk
  int64_t expanded_tiles = 0;  // of them copied out first
  CompressPlan compress = {};
};

/// Fills positions, slots and past of the scratch on the host's side: the chunk's rows stand at positions
/// first_position, ..., its keys and values go to the reserved slots of `cache`, which hears where they stand. What is
/// compressed is planned and its lists are uploaded.
PrefillPlan plan_prefill(const PromptChunk& chunk, int64_t first_position, SessionCache& cache, int32_t head_dim,
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
