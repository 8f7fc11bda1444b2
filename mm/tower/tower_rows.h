// Ops of a tower on rows, as the forward pass of a family writes them down: on a block of hidden rows, on their heads,
// and on joined rows on their way to the language model. None lets one row see another or knows the places of patches,
// so that recordings of them serve views of any size.
#pragma once

#include <algorithm>
#include <span>

#include "kernels/linear/matmul.h"
#include "kernels/rows/rope.h"
#include "mm/tower/vision_tower.h"

namespace ocellus {

/// The weights, the batch and the buffers of a pass. One that plans has a batch only: it notes what buffers it would
/// use.
class PassMemory {
 public:
  /// `rows`: of the batch, or of a recording. `needs`: of a pass that plans, which has no queue.
  PassMemory(const EncodeArgs& args, const DeviceTraits& device, int64_t rows, Queue* queue, TowerNeeds* needs)
      : args_(args), device_(device), rows_(rows), queue_(queue), needs_(needs) {}

  bool plans() const { return needs_ != nullptr; }
  TowerNeeds& needs() const { return *needs_; }
  const EncodeArgs& args() const { return args_; }
  const VisionModel& model() const { return args_.model; }
  const VisionConfig& config() const { return args_.model.config; }
  const VisionScratch& scratch() const { return args_.scratch; }
  const ViewBatch& batch() const { return args_.batch; }
  const DeviceTraits& device() const { return device_; }
  Queue& queue() const { return *queue_; }
  int64_t rows() const { return rows_; }

  /// Rotation of heads by scratch.angles.
  const RopeParams& rope() const { return rope_; }
  void set_rope(const RopeParams& rope) { rope_ = rope; }

  DeviceView<float> hidden(int64_t first, int64_t count) const { return scratch().hidden.slice_rows(first, count); }
  /// Buffers of a block of rows.
  ActivationView normed(int64_t count) const {
    const VisionScratch& s = scratch();
    return {s.normed_or_mixed.data, count, config().width, config().width, s.normed_or_mixed.type};
  }
  ActivationView wide(int64_t count, int64_t cols) const {
    if (plans()) needs_->wide_values = std::max(needs_->wide_values, count * cols);
    return {scratch().wide.data, count, cols, cols, scratch().wide.type};
  }
  DeviceView<float> branch(int64_t count) const {
    if (plans()) needs_->branch_rows = std::max(needs_->branch_rows, count);
    return scratch().branch.slice_rows(0, count);
  }
  DeviceView<std::byte> op_scratch() const { return scratch().op_scratch; }
  /// Notes a product of a plan.
  void plan_product(int64_t rows, int64_t cols, int64_t outputs) const {
    needs_->product_bytes = std::max(needs_->product_bytes, matmul_scratch_bytes(rows, cols, outputs, device_));
  }

 private:
  const EncodeArgs args_;
  const DeviceTraits device_;
  const int64_t rows_;
  Queue* const queue_;
  TowerNeeds* const needs_;
  RopeParams rope_;
};

/// Queries, keys and values of rows `first` and on, each [T, D]. A pass in blocks has the queries alone, or the others.
struct HeadRows {
  const PassMemory& pass;
  int64_t first = 0;
  ActivationView query = {}, key = {}, value = {};

  /// RMS norm of queries and of keys, all heads of a row together; weights [D].
  void normalise(const float* query_weight, const float* key_weight) const;
  /// RMS norm of each head of queries and of keys, weights [E], and of values, without. Attention does not divide the
  /// scores by sqrt(E).
  void normalise_each(const float* query_weight, const float* key_weight) const;
  /// Rotates queries and keys by the angles of TowerPass::find_angles.
  void rotate() const;
};

/// Hidden rows [first, first + count), each [D], in a branch of a layer: mapped to `result`, from which a last map is
/// added to them.
class HiddenRows {
 public:
  /// `result`: what the last map reads, in the place of `room` or not. `room`: for its output.
  HiddenRows(const PassMemory& pass, int64_t first, int64_t count, ActivationView result, ActivationView room)
      : pass_(pass), first_(first), count_(count), result_(result), room_(room) {}

  /// result [T, F] = activation(W norm(hidden) + b).
  void map(const NormWeights& norm, const BoundedLinear& up, Activation activation);
  /// result [T, F] = activation(gate) * up, both maps of norm(hidden).
  void map_gated(const NormWeights& norm, const BoundedLinear& gate, const BoundedLinear& up, Activation activation);
  /// Queries, keys and values of the layer: those that `heads` has room for.
  void map_heads(const VisionLayer& layer, const HeadRows& heads) const;

  /// hidden += W result + b.
  void add(const BoundedLinear& map) const;
  /// hidden += scale * (W result + b), scale [D].
  void add_scaled(const BoundedLinear& map, const float* scale) const;
  /// hidden += RMS norm of (W result + b), weight [D].
  void add_normalised(const BoundedLinear& map, const float* weight) const;

 private:
  struct MapTo {
    const BoundedLinear& map;
    ActivationView output;
  };
  void run_maps(const NormWeights& norm, std::span<const MapTo> maps, Activation activation) const;
  void run_last_map(const BoundedLinear& map, const ActivationView& output, bool adds) const;

  const PassMemory& pass_;
  int64_t first_, count_;
  ActivationView result_, room_;
};

/// Joined rows, on their way to rows of the language model.
class JoinedRows {
 public:
  JoinedRows(const PassMemory& pass, const ActivationView& joined, DeviceView<float> out)
      : pass_(pass), rows_(joined), out_(out) {}

  /// rows = (factor * rows - bias) * scale in place, if there is a scale. Of joined rows in f32.
  void standardise(float factor, const float* bias, const float* scale) const;
  /// Normalises them, which are f32 then.
  void normalise(const NormWeights& norm, float epsilon);
  /// rows [T, width] = activation(W rows + b).
  void map(const Linear& map, int64_t width, Activation activation);
  /// The row of the language model: W rows + b.
  void write(const Linear& map) const;

 private:
  ActivationView take(int64_t cols);

  const PassMemory& pass_;
  ActivationView rows_;
  DeviceView<float> out_;
  int64_t taken_ = 0;  // values of a row in the wide buffer
};

}  // namespace ocellus
