#include "runtime/forward/prefill_conv.h"

#include <algorithm>

#include "kernels/rows/short_conv.h"
#include "runtime/forward/prefill.h"

namespace ocellus {
namespace {

/// The rows y that the row after a view of an image sees in the first layer with a convolution, [K - 1, D]. Views are
/// counted from the image's last one on: rows that are computed in place come first, and may be whole views.
float* state_after(const SessionCache& images, int32_t ordinal, int32_t view) {
  const LocalShape& local = images.shape().local;
  const int32_t blocks = images.blocks_per_image();
  const KvRun block = images.local_image_block(ordinal, view % blocks);
  return reinterpret_cast<float*>(block.data + view / blocks * (local.window - 1) * local.layer_slot_bytes());
}

/// Lists the states before rows that follow linked slots, of which every view has one stretch, and the places of those
/// after views.
void list_states(const PromptChunk& chunk, const SessionCache* images, bool are_kept, const ConvScratch& conv) {
  std::fill_n(conv.linked.host.data, conv.linked.host.cols, nullptr);
  std::fill_n(conv.views.host.data, conv.views.host.cols, nullptr);
  int32_t view = 0, last = -1;
  for (int64_t i = chunk.link_count; i-- > 0;) {
    const LinkedRun& link = chunk.links.data[i];
    view = link.image == last ? view + 1 : 0;
    last = link.image;
    if (link.visible_from < chunk.row_count)
      conv.linked.host.data[link.visible_from] = state_after(*images, chunk.linked_images.data[last].ordinal, view);
  }
  last = -1;
  for (int64_t p = are_kept ? chunk.piece_count : 0; p-- > 0;) {
    const Piece& piece = chunk.pieces.data[p];
    if (piece.kind != RowKind::kImage) continue;
    view = piece.image_ordinal == last ? view + 1 : 0;
    last = piece.image_ordinal;
    conv.views.host.data[piece.first_row + piece.row_count - 1] = state_after(*images, last, view);
  }
}

/// Gives the newest rows their places in the ring, for the convolutions to store them. If few rows follow the last
/// linked slots, the state before them is the older part: it is copied now.
void list_newest(const PromptChunk& chunk, const WindowCaches& caches, const PrefillScratch& s, Queue& queue) {
  const ConvScratch& conv = s.conv;
  const LocalShape& local = s.limits.kv.local;
  LocalRing& ring = *caches.ring;
  const int64_t stored = local.stored_of(chunk.tokens());
  ring.reserve(stored);
  const LinkedRun* const link = chunk.link_count > 0 ? &chunk.links.data[chunk.link_count - 1] : nullptr;
  const int64_t rows = link == nullptr ? chunk.row_count : chunk.row_count - link->visible_from;
  if (rows < stored) queue.join_transfers();  // recalled images
  for (int64_t back = stored; back > 0; --back) {
    float* const place = ring.state_row(ring.rows() + stored - back);
    if (back <= rows) {
      conv.places.host.data[conv.kept + chunk.row_count - back] = place;
      continue;
    }
    const float* const state = state_after(*caches.images, chunk.linked_images.data[link->image].ordinal, 0) +
                               (conv.kept - (back - rows)) * local.head_dim;
    for (int32_t layer = 0; layer < local.layers; ++layer)
      queue.copy(place + layer * local.state_stride(), state + layer * conv.state_stride, local.layer_slot_bytes());
  }
}

ShortConvStates states_from(const ConvScratch& conv, int64_t row, int32_t layer) {
  if (!conv.links()) return {};
  return {.before = conv.linked.device.data + row,
          .after = conv.views.device.data + row,
          .offset = layer * conv.state_stride};
}

}  // namespace

Status ConvScratch::lay_out(const TextConfig& c, const PrefillLimits& limits, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  if (!c.local.convolve()) return {};
  kept = c.local.window - 1;
  state_stride = limits.links.state_slots * c.width;
  OCELLUS_TRY(take_rows(sink, "rows between blocks", kLife, kPhase, 2 * kept, c.width, &ends));
  OCELLUS_TRY(between.lay_out(sink, "places between blocks", kLife, kPhase, 1, 2 * kept));
  OCELLUS_TRY(places.lay_out(sink, "places of rows", kLife, kPhase, 1, kept + limits.rows));
  if (state_stride == 0) return {};
  OCELLUS_TRY(linked.lay_out(sink, "states after linked slots", kLife, kPhase, 1, limits.rows));
  return views.lay_out(sink, "states after views", kLife, kPhase, 1, limits.rows);
}

void plan_convolutions(const PromptChunk& chunk, const WindowCaches& caches, const PrefillScratch& s, Queue& queue) {
  const ConvScratch& conv = s.conv;
  float** const places = conv.places.host.data;
  std::fill_n(places, conv.places.host.cols, nullptr);
  const int64_t past = caches.past != nullptr ? caches.past->seen_rows() : 0;
  for (int64_t i = conv.kept - past; i < conv.kept; ++i)
    places[i] = caches.past->state_row(caches.past->rows() - conv.kept + i);
  if (caches.ring != nullptr) list_newest(chunk, caches, s, queue);
  if (conv.links()) list_states(chunk, caches.images, caches.ring == nullptr && caches.images != nullptr, conv);
  for (int64_t i = 0; i < 2 * conv.kept; ++i) conv.between.host.data[i] = conv.ends.row(i);
  queue.upload(conv.between, 2 * conv.kept);
  queue.upload(conv.places, conv.places.host.cols);
  queue.upload(conv.linked, conv.linked.host.cols);
  queue.upload(conv.views, conv.views.host.cols);
}

void convolve(const LayerPass& pass, const RowBlock& block, Queue& q) {
  const ConvScratch& conv = pass.scratch.conv;
  const int64_t index = block.first / pass.scratch.limits.block_rows;
  const int64_t layer = pass.cache_layer() * pass.scratch.limits.kv.local.state_stride();
  const bool is_first = block.first == 0;
  float* const* const before =
      is_first ? conv.places.device.data : conv.between.device.data + (index - 1) % 2 * conv.kept;
  short_conv({.conv = convolution_of(pass.config(), pass.weights(), block.rows),
              .before = before,
              .before_offset = is_first ? layer : 0,
              .places = conv.places.device.data + conv.kept + block.first,
              .places_offset = layer,
              .states = states_from(conv, block.first, pass.cache_layer()),
              .end = conv.ends.slice_rows(index % 2 * conv.kept, conv.kept)},
             q);
}

}  // namespace ocellus
