// Entries of a session's cache lists: pages of text, images, and survivors of rows that competed for slots.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/kv_run.h"
#include "platform/arena.h"
#include "runtime/cache/local_ring.h"

namespace ocellus {

template <>
struct TypeName<KvRun> {
  static constexpr const char* value = "run";
};
template <>
struct TypeName<KvSlot> {
  static constexpr const char* value = "slot";
};

/// Removes list entries [first, first + count).
template <class T>
void erase(T* list, int64_t size, int64_t first, int64_t count) {
  std::copy(list + first + count, list + size, list + first);
}

/// Maximums of one session: the sizes of its lists.
struct SessionLimits {
  int64_t pages = 0;
  int64_t blocks = 0;
  int64_t images = 0;
  int64_t kept_prompts = 0;  // prompts, or parts of them, of which only some slots stay
  int64_t holes = 0;         // per image: slots that are not read, anywhere in it
  int64_t text_blocks = 0;   // blocks of text packed after it was read
  bool staged = false;       // images are only reserved, and there is nothing else
};

/// A committed state of a session's cache, to return to while nothing is reserved.
struct CacheMark {
  int64_t text_slots = 0;
  int32_t image_count = 0;
  int32_t kept_count = 0;
  int64_t replaced_rows = 0;
  int32_t text_block_count = 0;
  int64_t ring_rows = 0;
  KeptState state = KeptState::kNone;  // place of the state of layers with convolutions
};

/// Bytes of a session's live slots, by the plan's formulas, and the overhead of its pages and blocks.
struct CacheBytes {
  int64_t payload = 0;         // keys and values
  int64_t scales = 0;          // offsets and steps of packed blocks
  int64_t waste = 0;           // slots without a token, padding, layers with a window in blocks of linked pictures
  int64_t blocks = 0;          // the part of payload and scales in image blocks
  int64_t shared = 0;          // the part of payload and scales in shared images
  int64_t block_elements = 0;  // number of values stored in image blocks
  int64_t resident() const { return payload + scales + waste; }
};

/// Slots of rows that competed: at most `text` f16 slots in pages and `visual` slots in blocks; the counts by
/// layer and head are exact.
struct KeptPrompt {
  int32_t first_page = 0;   // index in the session's pages of survivors
  int32_t first_block = 0;  // index in its blocks
  int32_t text = 0;
  int32_t visual = 0;
  int32_t images = 0;  // images among the rows
  int32_t rows = 0;
  int32_t text_rows = 0;   // text among the rows
  int32_t slots = 0;       // live slots of each layer and head, in pages and blocks together
  int32_t added = 0;       // f16 slots beyond `text`: tokens of answers that packed slots gave way to
  int32_t counts_row = 0;  // the first of its two rows of counts
  int64_t position = 0;    // position of the first row
};

struct TextPage {
  int32_t page = 0;  // number in the pool
  int32_t position_shift = 0;
  int64_t position = 0;  // position of its first slot when it was computed
  int64_t end = 0;       // position after its last slot
};

/// Most rows that a row counts as while attention reads it: see PromptChunk::weights.
inline constexpr int32_t kMostRowWeight = 8;

/// An image with blocks of its own, or in a place that it shares.
struct StoredImage {
  int32_t place = -1;    // its place in SharedPlaces; -1: none
  int32_t slots = 0;     // 0: reserved
  int32_t rows = 0;      // rows when it was read
  int64_t position = 0;  // position of its first row
  /// Slots, from the first on, that count at least 2, 3, .. times: each is read once more for every one of these.
  int32_t again[kMostRowWeight - 1] = {};
  int32_t cols = 0;      // columns of the grid that its rows form, if their positions tell
  bool thinned = false;  // its slots are what is left of several images, from this position on
  // Linked images only:
  int32_t first_slot = 0;      // slots before it are not read: their rows stand among the text
  int32_t hole_count = 0;      // further slots that are not read, see SessionCache::note_hole
  int32_t position_shift = 0;  // distance from where it was computed
};

/// An image linked into a chunk. Its slots: first those of the rows computed in place, whose keys and values stand
/// among the text from then on, then the others, which are read from their blocks; both by position.
struct LinkedImage {
  int32_t ordinal = 0;
  int32_t slots = 0;
  int32_t in_place = 0;
  int32_t position_shift = 0;
};

/// The positions of consecutive rows of a chunk. A row of text takes a position; rows of a picture may share them: its
/// rows are spread evenly over its positions.
struct PositionSpan {
  int32_t first = 0;      // position of the span, counted in the chunk
  int32_t skipped = 0;    // rows of the span before these
  int32_t rows = 1;       // rows of the whole span; 1 if each has a position of its own
  int32_t positions = 1;  // positions of the whole span; 1 if each row has one of its own
  int32_t cols = 0;       // columns of the grid that the span's rows form; 0: they form none
  int32_t time = 0;       // a grid's, counted from its first line and column

  static PositionSpan of(int64_t first, int64_t rows, int64_t positions) {
    if (rows == positions) rows = positions = 1;
    return {static_cast<int32_t>(first), 0, static_cast<int32_t>(rows), static_cast<int32_t>(positions)};
  }
  /// Returns the span of a grid, whose rows stand at one time, and at the positions of their line and column.
  static PositionSpan of_grid(int64_t first, int64_t rows, int32_t cols, int32_t time = 0) {
    const auto count = static_cast<int32_t>(rows);
    return {static_cast<int32_t>(first), 0, count, std::max(cols, count / cols), cols, time};
  }
  /// Returns a row's position; in a grid, that of its first line and column.
  int32_t at(int64_t row) const {
    return cols > 0 ? first : first + static_cast<int32_t>((skipped + row) * positions / rows);
  }
  /// Writes a row's position, counted from `zero` before the chunk. With three coordinates these are time, line and
  /// column, which are equal unless the rows form a grid.
  void write(int64_t row, int64_t zero, int32_t coordinates, int32_t* out) const {
    std::fill_n(out, coordinates, static_cast<int32_t>(zero + at(row)));
    if (coordinates == 1 || cols == 0) return;
    out[0] += time;
    out[1] += static_cast<int32_t>((skipped + row) / cols);
    out[2] += static_cast<int32_t>((skipped + row) % cols);
  }
  /// The same from row `row` on.
  PositionSpan from(int64_t row) const {
    PositionSpan rest = *this;
    (cols == 0 && rows == positions ? rest.first : rest.skipped) += static_cast<int32_t>(row);
    return rest;
  }
  friend constexpr bool operator==(const PositionSpan&, const PositionSpan&) = default;
};

/// A stretch of a linked image's slots between two rows of a chunk.
struct LinkedRun {
  int32_t image = 0;  // index in the chunk's linked images
  int32_t first_slot = 0;
  int32_t slots = 0;
  int32_t visible_from = 0;  // first row of the chunk that sees it
  PositionSpan span;
};

template <>
struct TypeName<TextPage> {
  static constexpr const char* value = "page";
};
template <>
struct TypeName<KeptPrompt> {
  static constexpr const char* value = "rows";
};
template <>
struct TypeName<LinkedImage> {
  static constexpr const char* value = "image";
};
template <>
struct TypeName<LinkedRun> {
  static constexpr const char* value = "link";
};
template <>
struct TypeName<StoredImage> {
  static constexpr const char* value = "image";
};

}  // namespace ocellus
