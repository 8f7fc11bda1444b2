// Buffers of the tower and the projector.
#include <algorithm>

#include "kernels/attention/attend_rows.h"
#include "kernels/linear/matmul.h"
#include "mm/tower/tower_notes.h"

namespace ocellus {
namespace {

int64_t matmul_bytes(const VisionConfig& c, const ViewBatch& most, const DeviceTraits& device) {
  const BlockRows blocks(most.rows(), device);
  const int64_t tokens = device.block_rows(most.tokens());
  return std::max({matmul_scratch_bytes(blocks.others, std::max(c.patch_values(), c.width), c.width, device),
                   matmul_scratch_bytes(blocks.mlp, c.width, c.mlp_width, device),
                   matmul_scratch_bytes(blocks.mlp, c.mlp_width, c.width, device),
                   matmul_scratch_bytes(tokens, std::max<int64_t>(c.joined_width(), c.middle_width()),
                                        std::max<int64_t>(c.middle_width(), c.output_width), device)});
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
int64_t VisionScratch::cut_turns(const VisionConfig& c, const ViewBatch& most, const DeviceTraits& device,
                                 std::byte* memory) {
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
  joined = projector.activations(c.has_joined_norm() ? ActivationType::kF32 : type, tokens, c.joined_width());
  if ((device.is_cuda() && !(c.any_size && device.lean)) || c.ends_lines)
    projected = projector.rows<float>(tokens, c.output_width);
  return std::max({embedding.bytes, layers.bytes, projector.bytes});
}

Status VisionScratch::take_turns(const VisionConfig& c, const ViewBatch& most, const DeviceTraits& device, Phase phase,
                                 RowSink& sink) {
  DeviceView<std::byte> turns;
  OCELLUS_TRY(take_rows(sink, device.in_blocks() ? "vision pixels or layer" : "vision layer", Lifetime::kScratch, phase,
                        1, cut_turns(c, most, device, nullptr), &turns));
  cut_turns(c, most, device, turns.data);
  return {};
}

Status VisionScratch::lay_out_pixels(const VisionConfig& c, const ViewBatch& most, const DeviceTraits& device,
                                     Phase phase, RowSink& sink) {
  return device.in_blocks() ? take_turns(c, most, device, phase, sink) : Status();
}

Status VisionScratch::lay_out(const VisionConfig& c, const ViewBatch& most, const DeviceTraits& device, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kImagePhase;
  const BlockRows blocks(most.rows(), device);
  const int64_t products = (device.lean ? 2 : 3) * int64_t{c.width};
  const int64_t wide_values =
      std::max({blocks.others * std::max<int64_t>(c.patch_values(), products), blocks.mlp * c.mlp_values(),
                device.block_rows(most.tokens()) * c.projector_values()});
  const int64_t op_bytes =
      std::max({matmul_bytes(c, most, device), attend_rows_scratch_bytes(c.head_dim(), device),
                most.noted ? note_scratch_bytes(c, most.rows_per_view(), blocks.others, device) : 0});
  OCELLUS_TRY(take_turns(c, most, device, kPhase, sink));
  OCELLUS_TRY(take_rows(sink, "vision hidden", kLife, kPhase, most.rows(), c.width, &hidden));
  if (c.rotates) OCELLUS_TRY(take_rows(sink, "vision angles", kLife, kPhase, most.rows(), c.head_dim(), &angles));
  if (c.normalises_branches)
    OCELLUS_TRY(take_rows(sink, "vision branch", kLife, kPhase, std::max(blocks.others, blocks.mlp), c.width, &branch));
  if (c.window > 0) OCELLUS_TRY(take_rows(sink, "vision windows", kLife, kPhase, 1, most.rows(), &seen));
  if (most.noted) {
    OCELLUS_TRY(take_rows(sink, "vision attention", kLife, kPhase, c.heads, most.rows_per_view(), &scores));
    OCELLUS_TRY(take_rows(sink, "vision notes", kLife, kPhase, most.tokens(), c.note_width(), &notes));
  }
  OCELLUS_TRY(
      take_activations(sink, "vision patches, qkv or mlp", kLife, kPhase, device.activations(), 1, wide_values, &wide));
  return take_rows(sink, "vision products, attention", kLife, kPhase, 1, op_bytes, &op_scratch);
}

}  // namespace ocellus
