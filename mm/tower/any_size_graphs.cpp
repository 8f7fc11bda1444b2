#include "mm/tower/any_size_graphs.h"

#include "kernels/rows/convert_rows.h"

namespace ocellus {
namespace {

/// Parts of a layer in layers_.
constexpr int32_t before_attention(int32_t layer) { return 2 * layer; }
constexpr int32_t after_attention(int32_t layer) { return 2 * layer + 1; }

/// True if what comes before a layer's attention has a recording of its own. Otherwise it ends that of the layer
/// before. A projector between the two uses the same scratch.
bool begins_alone(const VisionConfig& c, int32_t layer) { return layer == 0 || c.projects_inner_rows(layer - 1); }

/// Projectors by the place of their columns in a row: the projector, then those of DeepStack.
const Projector& projector_at(const VisionModel& m, int32_t i) { return i == 0 ? m.projector : m.deepstack[i - 1]; }

int32_t frame_kernels(const VisionModel& m) { return m.next_frame_embedding.rows > 0 ? 2 : 1; }

/// Runs a part once before it is recorded: a library's choices and loads at a first call cannot be recorded.
template <class Enqueue>
Status run_and_record(RecordedParts& parts, int32_t shape, int32_t part, Queue& queue, Enqueue&& enqueue) {
  enqueue();
  return parts.record(shape, part, queue, enqueue);
}

void end_layer(const TowerPass& pass, int32_t layer, Queue& queue) {
  const VisionConfig& c = pass.model.config;
  end_attention(pass, layer, queue);
  run_mlp(pass, layer, 0, pass.hidden.rows, queue);
  if (layer + 1 < c.layer_count && !begins_alone(c, layer + 1)) begin_attention(pass, layer + 1, queue);
}

}  // namespace

int32_t AnySizeGraphs::shape_of(int64_t rows) const {
  int32_t shape = 0;
  for (int64_t at = padded_rows(1, most_rows()); at < rows && shape + 1 < shapes_; ++shape)
    at = padded_rows(at + 1, most_rows());
  return shape;
}

Status AnySizeGraphs::record(const VisionModel& model, const VisionScratch& scratch, Queue& queue) {
  const VisionConfig& c = model.config;
  scratch_ = scratch;
  shapes_ = 0;
  for (int64_t rows = 0; rows < most_rows(); rows = padded_rows(rows + 1, most_rows())) ++shapes_;
  OCELLUS_TRY(embeddings_.allocate(shapes_, frame_kernels(model)));
  OCELLUS_TRY(layers_.allocate(shapes_, 2 * c.layer_count));
  OCELLUS_TRY(projectors_.allocate(shapes_, 1 + c.deepstack_count));
  int64_t rows = 0;
  for (int32_t shape = 0; shape < shapes_; ++shape) {
    rows = padded_rows(rows + 1, most_rows());
    OCELLUS_TRY(record_shape(model, shape, rows, queue));
  }
  return queue.finish();
}

Status AnySizeGraphs::record_shape(const VisionModel& model, int32_t shape, int64_t rows, Queue& queue) {
  const VisionConfig& c = model.config;
  const ViewBatch no_places;
  const TowerPass pass{model, scratch_, no_places, scratch_.hidden.slice_rows(0, rows),
                       BlockRows(rows, queue.traits())};
  for (int32_t frame = 0; frame < frame_kernels(model); ++frame)
    OCELLUS_TRY(run_and_record(embeddings_, shape, frame, queue, [&] { embed_frame(pass, frame, 0, rows, queue); }));
  for (int32_t layer = 0; layer < c.layer_count; ++layer) {
    if (begins_alone(c, layer))
      OCELLUS_TRY(
          run_and_record(layers_, shape, before_attention(layer), queue, [&] { begin_attention(pass, layer, queue); }));
    OCELLUS_TRY(run_and_record(layers_, shape, after_attention(layer), queue, [&] { end_layer(pass, layer, queue); }));
  }
  const DeviceView<float> projected = scratch_.projected.slice_rows(0, rows / (c.scale_factor * c.scale_factor));
  for (int32_t i = 0; i <= c.deepstack_count; ++i)
    OCELLUS_TRY(run_and_record(projectors_, shape, i, queue,
                               [&] { project_joined(model, projector_at(model, i), scratch_, projected, queue); }));
  return {};
}

void AnySizeGraphs::embed(const TowerPass& pass, int32_t shape, DeviceView<const float> pixels, Queue& queue) const {
  const int64_t rows = pass.hidden.rows;
  for (int32_t frame = 0; frame < frame_kernels(pass.model); ++frame) {
    // A still picture is both frames of a pair.
    if (frame < pass.batch.frames) cut_frame(pass, pixels, frame, 0, rows, queue);
    embeddings_.run_part(shape, frame, queue);
  }
  place_rows(pass, 0, rows, queue);
  find_places(pass, queue);
}

void AnySizeGraphs::project_part(const TowerPass& pass, int32_t shape, int32_t projector, DeviceView<float> out,
                                 Queue& queue) const {
  const VisionModel& m = pass.model;
  const int64_t tokens = pass.batch.tokens(), width = m.config.output_width;
  join_rows(m, projector_at(m, projector), pass.batch, scratch_, queue);
  projectors_.run_part(shape, projector, queue);
  convert_rows({.from = scratch_.projected.slice_rows(0, tokens),
                .to = out.slice_rows(0, tokens).slice_cols(projector * width, width)},
               queue);
}

Status AnySizeGraphs::encode(const VisionModel& model, DeviceView<const float> pixels, const ViewBatch& batch,
                             DeviceView<float> out, const StopSignal* stop, Queue& queue) const {
  const VisionConfig& c = model.config;
  const TowerPass pass = tower_pass(model, batch, scratch_, queue);
  const int32_t shape = shape_of(batch.rows());
  embed(pass, shape, pixels, queue);
  for (int32_t layer = 0; layer < c.layer_count && !queue.stopped(stop); ++layer) {
    if (begins_alone(c, layer)) layers_.run_part(shape, before_attention(layer), queue);
    attend(pass, layer, queue);
    layers_.run_part(shape, after_attention(layer), queue);
    for (int32_t i = 0; i < c.deepstack_count; ++i)
      if (c.deepstack_layers[i] == layer) project_part(pass, shape, i + 1, out, queue);
  }
  normalise_views(model, batch, scratch_, queue);
  return queue.status();
}

Status AnySizeGraphs::project(const VisionModel& model, const ViewBatch& batch, DeviceView<float> out,
                              Queue& queue) const {
  project_part(tower_pass(model, batch, scratch_, queue), shape_of(batch.rows()), 0, out, queue);
  return queue.status();
}

}  // namespace ocellus
