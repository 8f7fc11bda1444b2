// Prefill: many rows through the language model at once, layer by layer.
//
// All rows of a chunk go through layer l before layer l + 1 begins. Layer l's keys and values of the chunk's own rows
// are kept as f16 in one buffer, where the chunk attends to them, then stored into the cache segments; the same buffer
// serves layer l + 1. Peak memory is the hidden rows plus one layer of keys and values, whatever the number of layers.
#pragma once

#include "kernels/store_kv.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "runtime/kv_cache.h"
#include "runtime/text_layer.h"

namespace ocellus {

enum class RowKind : uint8_t { kText, kImage };

/// Consecutive rows of a chunk that go to the same place: text pages, or one image's slot.
struct Piece {
  RowKind kind = RowKind::kText;
  int32_t image_ordinal = 0;  // images only: which image of the session
  int64_t first_row = 0;
  int64_t row_count = 0;
};

/// Rows that wait to be read: embeddings of text and images of one session, in order of position.
struct PromptChunk {
  DeviceView<float> hidden;  // [max rows, D]
  DeviceView<Piece> pieces;  // [1, max rows]
  int64_t row_count = 0;
  int64_t piece_count = 0;
  int64_t text_count = 0;

  Status lay_out(int64_t max_rows, int64_t width, RowSink& sink);
  int64_t room() const { return hidden.rows - row_count; }
  /// Appends `count` rows (the caller has written them) to the last piece if it is of the same place, or as a new one.
  void add_piece(RowKind kind, int32_t image_ordinal, int64_t count);
  void clear() { row_count = piece_count = text_count = 0; }

  /// The state to go back to if an image turns out not to be readable half way.
  struct Mark {
    int64_t row_count, piece_count, text_count, last_piece_rows;
  };
  Mark mark() const {
    return {row_count, piece_count, text_count, piece_count > 0 ? pieces.data[piece_count - 1].row_count : 0};
  }
  void rewind(const Mark& mark);
};

/// Rows of a chunk go through the parts of a layer this many at a time: enough to keep the matrix product at full
/// speed (measured, tools/bench/NOTES.md), few enough that the widest buffers stay small.
inline constexpr int64_t kPrefillBlockRows = 128;

struct PrefillScratch {
  DeviceView<int32_t> positions;  // [1, T]
  DeviceView<float> angles;       // [T, rotated]
  DeviceView<Half> keys, values;  // [G * T, E], head-major, one layer
  LayerScratch layer;             // of one block of rows
  DeviceView<std::byte> attend_scratch;

  Status lay_out(const TextConfig& config, int64_t max_rows, int thread_count, RowSink& sink);
};

/// Runs the chunk's rows, which stand at positions first_position, first_position + 1, ..., through all layers, in
/// place. Their keys and values land in the reserved slots of `cache` (not yet committed); `chunk.hidden` then holds
/// the last layer's output. Stops between blocks of rows with kCancelled or kDeadline; the cache's live slots are
/// untouched until the caller commits.
Status prefill_chunk(const TextModel& model, const PromptChunk& chunk, int64_t first_position,
                     const SessionCache& cache, const PrefillScratch& scratch, const StopSignal* stop, Queue& queue);

}  // namespace ocellus
