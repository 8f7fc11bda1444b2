// PromptChunk: rows of a session that wait to be read, and what is linked between them.
#pragma once

#include "platform/arena.h"
#include "platform/queue.h"
#include "quant/weight_format.h"
#include "runtime/cache/kv_cache.h"

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

/// Sizes of what is linked into a chunk, for the plan.
struct LinkLimits {
  int64_t images = 0;
  int64_t slots = 0;        // of an image
  int64_t in_place = 0;     // of an image: rows that are read in place
  int64_t runs = 0;         // stretches of slots between rows, of all images
  bool carries = false;     // what the rows in place have become, the others do: see carry_change
  bool blends = false;      // of all rows those are read in place that have changed most: session_blend.cpp
  bool text_alone = false;  // only a chunk's last row sees linked images
};

/// The slots of an image's rows, asked row by row: those of picked rows come first.
class ImageSlots {
 public:
  ImageSlots() = default;
  /// `picks`: rows of the image, ascending.
  ImageSlots(const int32_t* picks, int64_t count) : picks_(picks), count_(count) {}
  int64_t next() {
    if (picked_ == count_ || picks_[picked_] != row_) return count_ + row_++ - picked_;
    ++row_;
    return picked_++;
  }

 private:
  const int32_t* picks_ = nullptr;
  int64_t count_ = 0, row_ = 0, picked_ = 0;
};

/// Rows that wait to be read: embeddings of text and images of one session, in order of position.
struct PromptChunk {
  DeviceView<float> hidden;       // [max rows, D]
  StagedRows<int32_t> token_ids;  // [1, max rows]; kSkippedRow for rows of images
  HostView<Piece> pieces;         // [1, max rows]
  int64_t row_count = 0;
  int64_t piece_count = 0;
  int64_t text_count = 0;  // rows that go to text pages
  HostView<LinkedImage> linked_images;
  HostView<LinkedRun> links;
  HostView<int32_t> picks;  // [1, in place] of the one image of a chunk that is read alone, ascending
  int64_t pick_count = 0;
  int64_t linked_image_count = 0;
  int64_t link_count = 0;
  int64_t linked_slots = 0;  // positions that are no rows
  int64_t linked_rows = 0;   // rows of linked images

  Status lay_out(int64_t max_rows, int64_t width, const LinkLimits& links, RowSink& sink);
  /// One image that is read alone, in the memory of another chunk's rows: only one of the two may be read at a time.
  Status lay_out_alone(int64_t max_rows, const PromptChunk& other, int64_t most_picks, RowSink& sink);
  int64_t room() const { return hidden.rows - row_count; }
  /// Appends `count` rows to the last piece if it is of the same place, or as a new one. Rows of images are written by
  /// the caller before or after; those of text are looked up in embed_text().
  void add_text(const int32_t* tokens, int64_t count);
  void add_image_rows(int32_t image_ordinal, int64_t count);
  /// Rows of a linked image whose embeddings are the linked rows from `source_row` on.
  void add_linked_rows(int64_t count, int64_t source_row);
  /// Slots of a linked image of the chunk, which stand behind the rows so far.
  void add_link(int32_t image, int32_t first_slot, int32_t slots);
  /// Forgets all rows and links, but not the images that are linked.
  void clear_rows();
  bool is_text(int64_t row) const;
  int64_t positions() const { return row_count + linked_slots; }
  /// Else a linked image ends it, whose last row was read elsewhere.
  bool ends_with_row() const {
    return row_count > 0 && (link_count == 0 || links.data[link_count - 1].visible_from < row_count);
  }
  /// Writes the embeddings of all text rows.
  void embed_text(const WeightView& embedding, Queue& queue) const;
  void clear() { rewind({}); }

  /// The state to go back to if an image turns out not to be readable half way.
  struct Mark {
    int64_t row_count, piece_count, text_count, last_piece_rows, linked_image_count, link_count, linked_slots,
        linked_rows;
  };
  Mark mark() const {
    const int64_t last_piece_rows = piece_count > 0 ? pieces.data[piece_count - 1].row_count : 0;
    return {row_count,          piece_count, text_count,   last_piece_rows,
            linked_image_count, link_count,  linked_slots, linked_rows};
  }
  void rewind(const Mark& mark);

 private:
  void add_piece(RowKind kind, int32_t image_ordinal, int64_t count, int64_t source_row = 0);
};

}  // namespace ocellus
