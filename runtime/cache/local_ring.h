// LocalRing: the newest rows of a session in its layers with a window (see LocalLayers), text and pictures alike, as
// f16. No later row sees one that has left the window, so its slot is filled again: memory does not grow with the
// conversation, and nothing is packed, evicted or released there. In layers with a convolution a slot holds the row y
// (see ShortConv), as f32: as many bytes as a key and a value of one head with D channels. What the next row sees of
// them is its state, few rows: the session can keep it for each place to which it may return.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/kv_run.h"
#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// The layers with a window of a model, and the ring of each session.
struct LocalShape {
  int32_t layers = 0;
  int32_t window = 0;  // rows that a row sees, its own among them; 0: there are no such layers
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int64_t slots = 0;       // slots of a ring, in whole tiles
  int64_t rings = 0;       // number of sessions; 0: there are no rings
  bool convolves = false;  // the layers have convolutions

  /// Slots for the rows that the next one sees, and for as many of a prompt of `prompt_rows`, whose rows may yet be
  /// dropped: until then those before them stay.
  static int64_t slots_for(int32_t window, int64_t prompt_rows);
  /// Keys and values of one row, all these layers.
  int64_t slot_bytes() const { return layers * layer_slot_bytes(); }
  int64_t layer_slot_bytes() const { return int64_t{4} * kv_heads * head_dim; }
  /// Values between the rows y of a slot in two layers.
  int64_t state_stride() const { return int64_t{kTileSlots} * kv_heads * head_dim; }
  int64_t ring_bytes() const { return slots * slot_bytes(); }
  int64_t state_bytes() const { return convolves ? (window - 1) * slot_bytes() : 0; }
  /// Rows of a prompt that later rows see.
  int64_t stored_of(int64_t rows) const { return std::min<int64_t>(rows, window - 1); }
};

/// Places where a session keeps states: that of its checkpoint, that of its mark, and those of the beginning of an
/// answer to score and of the checkpoint after it, both of which are taken back.
enum class KeptState : int8_t { kNone = -1, kCheckpoint, kMark, kScore, kScored };
inline constexpr int64_t kKeptStates = 4;

class LocalRing {
 public:
  /// `memory`: ring_bytes() of the device's; `states`: kKeptStates times state_bytes().
  void attach(const LocalShape& shape, std::byte* memory, std::byte* states) {
    shape_ = &shape;
    memory_ = memory;
    states_ = states;
  }

  /// Rows that were stored since the beginning; they are numbered in this order.
  int64_t rows() const { return rows_; }
  /// Number of the newest rows that the next one sees.
  int64_t seen_rows() const { return std::min<int64_t>(rows_, shape_->window - 1); }
  int32_t tiles() const { return static_cast<int32_t>(shape_->slots / kTileSlots); }
  /// Returns tile `index` of the ring, all of it live.
  KvRun tile(int32_t index) const;
  /// Returns the run of a row's slot and those after it in its tile, and their number.
  KvRun run_from(int64_t row) const;
  /// Returns the row y of a row in the first layer with a convolution: see ring_row().
  float* state_row(int64_t row) const;
  KvSlot slot(int64_t row) const { return run_slot(run_from(row), 0, shape_->head_dim); }

  void commit(int64_t count) {
    rows_ += count;
    written_ = std::max(written_, rows_);
  }
  /// A token of an answer; the next one may be written already.
  void commit_token() {
    commit(1);
    reserve(1);
  }
  /// Records that slots of the next `count` rows may be written.
  void reserve(int64_t count) { written_ = std::max(written_, rows_ + count); }
  /// True if nothing has overwritten what the row after `rows` rows sees.
  bool still_has(int64_t rows) const;
  void rewind(int64_t rows);
  /// Keeps the state of layers with convolutions.
  void keep(KeptState state, Queue& queue) const;
  /// Brings back a state kept after `rows` rows, and rewinds to it.
  void bring_back(KeptState state, int64_t rows, Queue& queue);
  /// Bytes of the rows that are seen.
  int64_t live_bytes() const { return seen_rows() * shape_->slot_bytes(); }

 private:
  int64_t oldest_seen(int64_t rows) const { return rows - std::min<int64_t>(rows, shape_->window - 1); }
  /// Calls visit(row in the ring, its place in the state, bytes) for each row and layer of it.
  template <class Visit>
  void visit_state(KeptState state, Visit visit) const;

  const LocalShape* shape_ = nullptr;
  std::byte* memory_ = nullptr;
  std::byte* states_ = nullptr;
  int64_t rows_ = 0;
  int64_t written_ = 0;  // rows whose slots may have been written since the beginning
  int64_t oldest_ = 0;   // rows before this one were overwritten
};

}  // namespace ocellus
