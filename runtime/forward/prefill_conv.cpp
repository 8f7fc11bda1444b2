#include "runtime/forward/prefill_conv.h"

#include <algorithm>

#include "kernels/rows/short_conv.h"
#include "runtime/forward/prefill.h"

namespace ocellus {

Status ConvScratch::lay_out(const TextConfig& c, const PrefillLimits& limits, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  if (!c.local.convolve()) return {};
  kept = c.local.window - 1;
  OCELLUS_TRY(take_rows(sink, "rows between blocks", kLife, kPhase, 2 * kept, c.width, &ends));
  OCELLUS_TRY(between.lay_out(sink, "places between blocks", kLife, kPhase, 1, 2 * kept));
  return places.lay_out(sink, "places of rows", kLife, kPhase, 1, kept + limits.rows);
}

void plan_convolutions(const PromptChunk& chunk, const WindowCaches& caches, const PrefillScratch& s, Queue& queue) {
  const ConvScratch& conv = s.conv;
  float** const places = conv.places.host.data;
  std::fill_n(places, conv.places.host.cols, nullptr);
  const int64_t past = caches.past != nullptr ? caches.past->seen_rows() : 0;
  for (int64_t i = conv.kept - past; i < conv.kept; ++i)
    places[i] = caches.past->state_row(caches.past->rows() - conv.kept + i);
  if (caches.ring != nullptr) {
    const int64_t stored = s.limits.kv.local.stored_of(chunk.row_count);
    caches.ring->reserve(stored);
    for (int64_t i = 0; i < stored; ++i)
      places[conv.kept + chunk.row_count - stored + i] = caches.ring->state_row(caches.ring->rows() + i);
  }
  for (int64_t i = 0; i < 2 * conv.kept; ++i) conv.between.host.data[i] = conv.ends.row(i);
  queue.upload(conv.between, 2 * conv.kept);
  queue.upload(conv.places, conv.places.host.cols);
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
              .end = conv.ends.slice_rows(index % 2 * conv.kept, conv.kept)},
             q);
}

}  // namespace ocellus
