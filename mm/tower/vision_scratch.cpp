// Buffers of the tower and the projector.
#include <algorithm>

#include "kernels/attention/attend_rows.h"
#include "mm/tower/tower_notes.h"
#include "mm/tower/tower_pass.h"

namespace ocellus {
namespace {

/// A pass without weights or memory, which runs nothing.
TowerNeeds find_needs(const VisionConfig& config, const ViewBatch& most, const DeviceTraits& device) {
  TowerNeeds needs;
  VisionModel model;
  const VisionScratch none;
  model.config = config;
  TowerPass pass({.model = model, .batch = most, .scratch = none}, device, &needs);
  config.tower->encode(pass);
  return needs;
}

/// Consecutive pieces of a row of memory. Without memory it only counts.
struct PieceCursor {
  std::byte* memory;
  int64_t bytes = 0;

  std::byte* take(int64_t count) {
    std::byte* const piece = memory == nullptr ? nullptr : memory + bytes;
    bytes += aligned_bytes(count);
    return piece;
  }
  template <class T>
  DeviceView<T> rows(int64_t count, int64_t cols) {
    return {reinterpret_cast<T*>(take(count * cols * static_cast<int64_t>(sizeof(T)))), count, cols};
  }
  ActivationView activations(ActivationType type, int64_t count, int64_t cols) {
    if (type == ActivationType::kF16) return rows<Half>(count, cols);
    return rows<float>(count, cols);
  }
};

}  // namespace

/// Divides the row that embedding, layers and projector use in turn; returns its length.
int64_t VisionScratch::cut_turns(const VisionConfig& c, const TowerNeeds& needs, const ViewBatch& most,
                                 const DeviceTraits& device, std::byte* memory) {
  const ActivationType type = device.activations();
  const int64_t tokens = most.tokens();
  PieceCursor embedding{memory}, layers{memory}, projector{memory};
  if (device.in_blocks()) {
    pixels = embedding.rows<float>(1, most.pixel_values());
    keys = layers.rows<Half>(most.rows_per_view(), c.width);
    values = layers.rows<Half>(most.rows_per_view(), c.width);
  }
  normed_or_mixed = layers.activations(type, BlockRows(most.rows(), device).others, c.width);
  // A norm reads f32.
  joined = projector.activations(needs.joined_floats ? ActivationType::kF32 : type, tokens, c.joined_width());
  if ((device.is_cuda() && !(c.any_size && device.lean)) || c.views()->has_map || c.views()->has_lines)
    projected = projector.rows<float>(tokens, c.output_width);
  return std::max({embedding.bytes, layers.bytes, projector.bytes});
}

Status VisionScratch::take_turns(const VisionConfig& c, const TowerNeeds& needs, const ViewBatch& most,
                                 const DeviceTraits& device, Phase phase, RowSink& sink) {
  DeviceView<std::byte> turns;
  OCELLUS_TRY(take_rows(sink, device.in_blocks() ? "vision pixels or layer" : "vision layer", Lifetime::kScratch, phase,
                        1, cut_turns(c, needs, most, device, nullptr), &turns));
  cut_turns(c, needs, most, device, turns.data);
  return {};
}

Status VisionScratch::lay_out_pixels(const VisionConfig& c, const ViewBatch& most, const DeviceTraits& device,
                                     Phase phase, RowSink& sink) {
  return device.in_blocks() ? take_turns(c, find_needs(c, most, device), most, device, phase, sink) : Status();
}

Status VisionScratch::lay_out(const VisionConfig& c, const ViewBatch& most, const DeviceTraits& device, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kImagePhase;
  const TowerNeeds needs = find_needs(c, most, device);
  const int64_t block = BlockRows(most.rows(), device).others;
  const int64_t op_bytes = std::max({needs.product_bytes, attend_rows_scratch_bytes(c.head_dim(), device),
                                     most.noted ? note_scratch_bytes(c, most.rows_per_view(), block, device) : 0});
  OCELLUS_TRY(take_turns(c, needs, most, device, kPhase, sink));
  OCELLUS_TRY(take_rows(sink, "vision hidden", kLife, kPhase, most.rows(), c.width, &hidden));
  if (needs.angles) OCELLUS_TRY(take_rows(sink, "vision angles", kLife, kPhase, most.rows(), c.head_dim(), &angles));
  if (needs.branch_rows > 0)
    OCELLUS_TRY(take_rows(sink, "vision branch", kLife, kPhase, needs.branch_rows, c.width, &branch));
  if (needs.windows) OCELLUS_TRY(take_rows(sink, "vision windows", kLife, kPhase, 1, most.rows(), &seen));
  if (most.noted) {
    OCELLUS_TRY(take_rows(sink, "vision attention", kLife, kPhase, c.heads, most.rows_per_view(), &scores));
    OCELLUS_TRY(take_rows(sink, "vision notes", kLife, kPhase, most.tokens(), c.note_width(), &notes));
  }
  OCELLUS_TRY(take_activations(sink, "vision patches, qkv or mlp", kLife, kPhase, device.activations(), 1,
                               needs.wide_values, &wide));
  return take_rows(sink, "vision products, attention", kLife, kPhase, 1, op_bytes, &op_scratch);
}

}  // namespace ocellus
