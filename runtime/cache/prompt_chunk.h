// PromptChunk: rows of a session that wait to be read, and the images linked between them.
#pragma once

#include <algorithm>

#include "platform/arena.h"
#include "platform/queue.h"
#include "quant/weight_format.h"
#include "runtime/cache/kv_cache.h"
#include "runtime/models/text_model.h"

namespace ocellus {

/// kLinked: rows of a linked image that are computed in place, and stored like text.
enum class RowKind : uint8_t { kText, kImage, kLinked };

/// Consecutive rows of a chunk with the same destination, text pages or one image's slots, and their positions. Slots
/// are counted in rows, the model's context in positions, and a row sees those before it, whatever their positions.
struct Piece {
  RowKind kind = RowKind::kText;
  int32_t image_ordinal = 0;  // images: index in the session's images; kLinked: in the chunk's linked images
  int32_t first_row = 0;
  int32_t source_row = 0;  // kLinked: first row of the linked rows' embeddings
  int64_t row_count = 0;
  PositionSpan span;
};

/// Sizes of linked images in a chunk, for the plan.
struct LinkLimits {
  int64_t images = 0;
  int64_t slots = 0;        // maximum per image
  int64_t in_place = 0;     // maximum rows per image computed in place
  int64_t runs = 0;         // stretches of slots between rows, of all images
  int64_t copies = 0;       // copies of at most kPackedTileSlots slots that these stretches are made in
  int64_t holes = 0;        // runs of all images that begin after rows left out
  bool text_alone = false;  // only a chunk's last row sees linked images
  bool staged = false;      // see ReuseShape
  int64_t state_slots = 0;  // rows of convolutions in a block of linked images: see KvShape
  /// Rows of an image that are stored with the text.
  int64_t rows_in_text() const { return staged ? 0 : in_place; }
};

/// Rows that wait to be read: embeddings of text and images of one session, in order of position.
struct PromptChunk {
  DeviceView<float> inputs;       // [max rows, input_width]: rows, and what joins them after the first layers
  DeviceView<float> hidden;       // [max rows, D] the rows among them
  StagedRows<int32_t> token_ids;  // [1, max rows]; kSkippedRow for rows of images
  HostView<Piece> pieces;         // [1, max rows]
  int64_t row_count = 0;
  int64_t piece_count = 0;
  int64_t text_count = 0;  // rows stored in text pages
  HostView<LinkedImage> linked_images;
  HostView<LinkedRun> links;
  HostView<int32_t> picks;  // [1, in place] rows of the only image of a chunk that is read alone, ascending
  int64_t pick_count = 0;
  // Rows of pictures may stand for others that were dropped. Attention counts them as often, kMostRowWeight at most
  // (proportional attention, Bolya et al. 2023): by a bias where the prompt is read, and by reading a slot again.
  HostView<int32_t> weights;  // [1, max rows] number of rows that each one counts as
  /// [1, max rows] slot of a picture's row in its image: rows of the largest weight come first.
  HostView<int32_t> row_slots;
  bool weighs = false;  // the chunk has rows with a weight
  int64_t linked_image_count = 0;
  int64_t link_count = 0;
  int64_t linked_slots = 0;    // slots of linked images without rows
  int64_t linked_rows = 0;     // rows of linked images
  int64_t position_count = 0;  // taken by all rows and linked slots

  Status lay_out(int64_t max_rows, const TextConfig& config, const LinkLimits& links, RowSink& sink);
  /// Lays out a chunk for one image read alone, in the memory of another chunk's rows: only one of the two may be in
  /// use.
  Status lay_out_alone(int64_t max_rows, const PromptChunk& other, int64_t most_picks, RowSink& sink);
  Status lay_out_weights(int64_t max_rows, RowSink& sink);
  /// Lays out a list of pieces without rows, for join().
  Status lay_out_joined(int64_t max_rows, RowSink& sink);
  int64_t room() const { return hidden.rows - row_count; }
  /// Appends `count` rows to the last piece if the destination is the same, or as a new one. The caller writes rows of
  /// images before or after; those of text are looked up in embed_text().
  void add_text(const int32_t* tokens, int64_t count);
  /// Returns the span of the next rows. `cols`: columns of the grid that they form; 0: they form none. A grid may stand
  /// at a time, and share the positions of `earlier` ones.
  PositionSpan next_span(int64_t rows, int64_t positions, int32_t cols, int32_t earlier = 0, int32_t time = 0) const {
    return cols > 0 ? PositionSpan::of_grid(position_count - earlier, rows, cols, time)
                    : PositionSpan::of(position_count, rows, positions);
  }
  /// `positions`: taken by the rows, beyond those that rows before them take.
  void add_image_rows(int32_t image_ordinal, int64_t count, int64_t positions, const PositionSpan& span);
  /// Adds rows of a linked image of the chunk whose embeddings are the linked rows from `source_row` on. The caller
  /// counts its positions.
  void add_linked_rows(int32_t image, int64_t count, int64_t source_row, const PositionSpan& span);
  /// Adds slots of a linked image of the chunk after the rows so far. The caller counts its positions.
  void add_link(int32_t image, int32_t first_slot, int32_t slots, const PositionSpan& span);
  /// Drops all rows but these, ascending; those that stay keep their positions. There are no links. The caller moves
  /// the rows' inputs.
  void keep_rows(const int32_t* kept, int64_t count);
  /// If an image has more than `rows` rows, those of all images are dealt anew, in their order: `rows` to each. There
  /// are no linked images, and room for all rows.
  void deal_rows(int64_t rows);
  /// Orders the slots of images by the weights of their rows.
  void order_slots();
  /// Drops all rows and links, but not the linked images.
  void clear_rows();
  bool is_text(int64_t row) const;
  /// The first of the rows in place right before a stretch of their image; if there are none, the row after it.
  int32_t first_row_beside(const LinkedRun& link) const;
  /// Rows and linked slots: the chunk's part of a prompt, in tokens.
  int64_t tokens() const { return row_count + linked_slots; }
  /// False: the chunk ends with a linked image, whose last row was read elsewhere.
  bool ends_with_row() const {
    return row_count > 0 && (link_count == 0 || links.data[link_count - 1].visible_from < row_count);
  }
  /// Writes the embeddings of all text rows. Nothing joins these after the first layers.
  void embed_text(const TextModel& model, Queue& queue) const;
  void clear() { rewind({}); }
  /// Takes the pieces that `chunk` would have if its images were read in it, as images of the session from number
  /// `first_image` on.
  void join(const PromptChunk& chunk, int32_t first_image);
  /// Calls row_part(piece, its row, count) and link_part(link) for all rows and links, in the order of the prompt.
  template <class RowPart, class LinkPart>
  void visit_parts(RowPart row_part, LinkPart link_part) const {
    int64_t link = 0;
    for (int64_t p = 0; p < piece_count; ++p) {
      const Piece& piece = pieces.data[p];
      for (int64_t row = piece.first_row, end = row + piece.row_count, next = row; row < end; row = next) {
        for (; link < link_count && links.data[link].visible_from <= row; ++link) link_part(links.data[link]);
        next = link < link_count ? std::min<int64_t>(end, links.data[link].visible_from) : end;
        row_part(piece, row - piece.first_row, next - row);
      }
    }
    for (; link < link_count; ++link) link_part(links.data[link]);
  }

  /// A state to return to if an image turns out to be unreadable half way.
  struct Mark {
    int64_t row_count, piece_count, text_count, last_piece_rows, linked_image_count, link_count, linked_slots,
        linked_rows, position_count;
  };
  Mark mark() const {
    const int64_t last_piece_rows = piece_count > 0 ? pieces.data[piece_count - 1].row_count : 0;
    return {row_count,  piece_count,  text_count,  last_piece_rows, linked_image_count,
            link_count, linked_slots, linked_rows, position_count};
  }
  void rewind(const Mark& mark);

 private:
  void add_piece(RowKind kind, int64_t count, const PositionSpan& span, int32_t image_ordinal, int64_t source_row);
  int64_t most_rows_of_image() const;
};

/// Maps images' rows to slots, called row by row: rows of the largest weight, or picked ones, get the first slots.
class ImageSlots {
 public:
  explicit ImageSlots(const PromptChunk& chunk)
      : picks_(chunk.picks.data), count_(chunk.pick_count), slots_(chunk.weighs ? chunk.row_slots.data : nullptr) {}
  /// The next rows are those of image number `image`. False if the rows before were, too: an image that is cut into
  /// views has several pieces, whose rows fill its slots one after the other.
  bool begin(int32_t image) {
    if (image == image_) return false;
    image_ = image;
    row_ = picked_ = 0;
    return true;
  }
  /// The slot of the image's next row, which is row `row` of the chunk.
  int64_t next(int64_t row) {
    if (slots_ != nullptr) return slots_[row];
    if (picked_ == count_ || picks_[picked_] != row_) return count_ + row_++ - picked_;
    ++row_;
    return picked_++;
  }

 private:
  const int32_t* picks_;  // rows of an image, ascending
  int64_t count_, row_ = 0, picked_ = 0;
  const int32_t* slots_;
  int32_t image_ = -1;
};

}  // namespace ocellus
