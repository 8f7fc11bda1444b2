#include "mm/tower/tower_pass.h"

#include "kernels/linear/elementwise.h"
#include "kernels/rows/class_rows.h"
#include "kernels/rows/convert_rows.h"
#include "kernels/vision/grid_positions.h"

namespace ocellus {
namespace {

/// A recording has rows of its own, and as many joined rows as its patches make.
int64_t row_count(const EncodeArgs& args, const PassParts* parts) {
  return parts == nullptr || parts->launches() ? args.batch.rows() : parts->rows();
}
int64_t joined_count(const EncodeArgs& args, const PassParts* parts) {
  const int32_t scale = args.model.config.scale_factor;
  return parts == nullptr || parts->launches() ? args.batch.tokens() : parts->rows() / (scale * scale);
}

/// Cuts patches of one frame of the views.
void cut_frame(const PassMemory& pass, int32_t frame, int64_t first, int64_t count) {
  const DeviceView<const float>& pixels = pass.args().pixels;
  const ViewBatch& batch = pass.batch();
  const int64_t frame_rows = pixels.rows / batch.frames;
  cut_patches({.pixels = pixels.slice_rows(frame * frame_rows, frame_rows),
               .height = batch.size.height,
               .grid = batch.grid,
               .patch = pass.config().patch_size,
               .lead = batch.lead,
               .first = first,
               .output = pass.wide(count, pass.config().patch_values())},
              pass.queue());
}

/// Embeds the patches that were cut. Those of a second frame are added to those of the first.
void embed_frame(const PassMemory& pass, int32_t frame, int64_t first, int64_t count) {
  const VisionModel& m = pass.model();
  const ActivationView patches = pass.wide(count, m.config.patch_values());
  if (pass.plans()) return pass.plan_product(count, patches.cols, m.config.width);
  const bool is_first = frame == 0;
  matmul({.input = patches,
          .weights = {is_first ? m.patch_embedding.weight : m.next_frame_embedding},
          .biases = {is_first ? m.patch_embedding.bias : nullptr},
          .outputs = {pass.hidden(first, count)},
          .accumulate = !is_first,
          .scratch = pass.op_scratch()},
         pass.queue());
}

/// The table of positions, in f32.
DeviceView<const float> position_table(const VisionModel& m) {
  return {reinterpret_cast<const float*>(m.positions.data), m.positions.rows, m.config.width};
}

}  // namespace

TowerPass::TowerPass(const EncodeArgs& args, Queue& queue, PassParts* parts)
    : memory_(args, queue.traits(), row_count(args, parts), &queue, nullptr),
      parts_(parts),
      tokens_(joined_count(args, parts)),
      blocks_(memory_.rows(), memory_.device()) {}

TowerPass::TowerPass(const EncodeArgs& args, const DeviceTraits& device, TowerNeeds* needs)
    : memory_(args, device, args.batch.rows(), nullptr, needs),
      tokens_(args.batch.tokens()),
      blocks_(memory_.rows(), device) {}

bool TowerPass::in_range() const {
  const LayerRange& layers = memory_.args().layers;
  if (stopped_) return false;
  if (layer_ < 0) return layers.first == 0;
  return layer_ < config().layer_count || layers.end > config().layer_count;
}

bool TowerPass::at_rows() { return in_range() && (parts_ == nullptr || parts_->at_rows(memory_.queue())); }

bool TowerPass::at_places() {
  return in_range() && !memory_.plans() && (parts_ == nullptr || parts_->at_places(memory_.queue()));
}

/// The CPU needs milliseconds per layer, so it checks for a stop more often. On a GPU every check counts as a layer.
bool TowerPass::begins_mlp() {
  if (!at_rows()) return false;
  return memory_.plans() || memory_.device().is_cuda() || !memory_.queue().stopped(memory_.args().stop);
}

void TowerPass::embed_patches() {
  for_each_block(memory_, memory_.rows(), blocks_.others, [&](int64_t first, int64_t count) {
    for (int32_t frame = 0; frame < config().frame_kernels; ++frame) {
      if (at_places() && frame < memory_.batch().frames) cut_frame(memory_, frame, first, count);
      if (at_rows()) embed_frame(memory_, frame, first, count);
    }
  });
}

void TowerPass::place_class_rows() {
  if (!at_places()) return;
  ocellus::place_class_rows(
      {.values = memory_.hidden(0, memory_.rows()), .class_row = model().class_row, .positions = model().positions},
      memory_.queue());
}

/// Several views repeat all positions.
void TowerPass::add_position_rows() {
  if (!at_places()) return;
  add_rows({.values = memory_.hidden(0, memory_.rows()), .addend = position_table(model())}, memory_.queue());
}

void TowerPass::add_resized_positions(bool averages, bool by_edges) {
  if (!at_places()) return;
  const AddPositionsArgs args = {.values = memory_.hidden(0, memory_.rows()),
                                 .table = position_table(model()),
                                 .side = config().position_side,
                                 .grid = memory_.batch().grid,
                                 .by_edges = by_edges};
  averages ? add_mean_positions(args, memory_.queue()) : add_positions(args, memory_.queue());
}

void TowerPass::add_axis_positions() {
  if (!at_places()) return;
  ocellus::add_axis_positions({.values = memory_.hidden(0, memory_.rows()),
                               .table = position_table(model()),
                               .side = config().axis_positions,
                               .grid = memory_.batch().grid},
                              memory_.queue());
}

void TowerPass::find_angles(RopePairing pairing, float base, bool cols_first, bool alternates) {
  memory_.set_rope({.pairing = pairing, .rotated = config().head_dim(), .base = base});
  if (memory_.plans()) memory_.needs().angles = true;
  if (!at_places()) return;
  grid_angles({.grid = memory_.batch().grid,
               .params = memory_.rope(),
               .cols_first = cols_first,
               .alternates = alternates,
               .angles = memory_.scratch().angles.slice_rows(0, memory_.rows())},
              memory_.queue());
}

void TowerPass::find_windows() {
  if (memory_.plans()) memory_.needs().windows = true;
  if (at_places()) list_windows({.grid = memory_.batch().grid, .spans = memory_.scratch().seen.data}, memory_.queue());
}

void TowerPass::normalise(const NormWeights& norm, float epsilon) {
  if (!at_places()) return;
  const DeviceView<float> hidden = memory_.hidden(0, memory_.rows());
  apply_norm(norm, epsilon > 0 ? epsilon : config().epsilon, hidden, hidden, memory_.queue());
}

const VisionLayer* TowerPass::next_layer() {
  static constexpr VisionLayer kNoWeights;
  const EncodeArgs& args = memory_.args();
  layer_ = layer_ < 0 ? args.layers.first : layer_ + 1;
  if (layer_ >= std::min(args.layers.end, config().layer_count)) {
    layer_ = config().layer_count;
    return nullptr;
  }
  if (memory_.plans()) return &kNoWeights;
  stopped_ = memory_.queue().stopped(args.stop);
  return stopped_ ? nullptr : &model().layers[layer_];
}

void TowerPass::join_patches(Join join, ActivationType type) {
  if (memory_.plans() && type == ActivationType::kF32) memory_.needs().joined_floats = true;
  if (!at_places()) return;
  if (type == ActivationType::kF32 && memory_.scratch().joined.type != type)
    return memory_.queue().fail(OCELLUS_FAIL(Code::kInternal, "a tower joins rows as f32, but was planned for f16"));
  const int64_t cols = config().joined_width();
  const ViewBatch& batch = memory_.batch();
  join({.input = memory_.hidden(0, memory_.rows()),
        .views = batch.views,
        .grid = batch.grid,
        .scale = batch.scale,
        .lead = batch.lead,
        .output = {memory_.scratch().joined.data, tokens_, cols, cols, type}},
       memory_.queue());
}

DeviceView<float> TowerPass::out(int32_t part) const {
  const DeviceView<float>& all = memory_.args().out;
  const int64_t width = config().output_width;
  return memory_.plans() ? all : all.slice_cols(part * width, width);
}

/// Rows of a recording have a buffer of their own.
JoinedRows TowerPass::joined_rows(int32_t part, ActivationType type, int64_t first, int64_t count) const {
  const int64_t cols = config().joined_width();
  const ActivationView joined(memory_.scratch().joined.data, tokens_, cols, cols, type);
  const DeviceView<float> rows = parts_ == nullptr ? out(part) : memory_.scratch().projected;
  return {memory_, joined.slice_rows(first, count), rows.slice_rows(first, count)};
}

/// Rows of a view whose lines have places of their own stay where they are.
void TowerPass::copy_projected(int32_t part) {
  if (parts_ == nullptr || !at_places() || out(part).data == memory_.scratch().projected.data) return;
  convert_rows({.from = memory_.scratch().projected.slice_rows(0, tokens_), .to = out(part).slice_rows(0, tokens_)},
               memory_.queue());
}

}  // namespace ocellus
