// TowerPass: views on their way through a tower and its projectors. A family writes its forward pass as one function
// that calls steps from top to bottom, as encode_smolvlm() in runtime/models/smolvlm.cpp.
//
// The same function is planned, run and recorded. A pass that plans runs nothing and notes the scratch that it would
// use. A pass of some layers leaves out what comes before and after them. A pass in parts records what is done to rows,
// or launches it, between the steps that depend on the places of patches. Lean devices and the CPU take rows in blocks.
#pragma once

#include <algorithm>

#include "kernels/vision/patches.h"
#include "mm/tower/pass_parts.h"
#include "mm/tower/tower_attention.h"
#include "mm/tower/tower_rows.h"
#include "platform/trace.h"

namespace ocellus {

/// Calls visit(first, count) for rows in blocks. The first is the largest, a plan needs no other.
template <class Visit>
void for_each_block(const PassMemory& pass, int64_t rows, int64_t block, Visit visit) {
  for (int64_t first = 0; first < (pass.plans() ? std::min(block, rows) : rows); first += block)
    visit(first, std::min(block, rows - first));
}

class TowerPass {
 public:
  /// `parts`: of a pass that is recorded in parts; null: of one that is not.
  TowerPass(const EncodeArgs& args, Queue& queue, PassParts* parts = nullptr);
  /// A pass that plans, for the largest batch.
  TowerPass(const EncodeArgs& args, const DeviceTraits& device, TowerNeeds* needs);

  const VisionModel& model() const { return memory_.model(); }
  const VisionConfig& config() const { return memory_.config(); }

  /// Hidden rows [R, D] of each view: its patches, those of both frames if a view has two. Rows before them get the
  /// bias only. A still picture is both frames of a pair.
  void embed_patches();
  /// Writes class rows, and adds a row of the model's table of positions to each row.
  void place_class_rows();
  /// Adds a row of the table to each patch, in views of one size.
  void add_position_rows();
  /// Adds positions of views of any size: of a square table that is stretched over the patches, corner to corner, edge
  /// to edge or, if it `averages`, as pictures are resized; or of a column and of a line.
  void add_resized_positions(bool averages = false, bool by_edges = false);
  void add_axis_positions();
  /// Finds the angles by which heads are rotated: the first half of the pairs by the patch's line, or by its column;
  /// see GridAnglesArgs.
  void find_angles(RopePairing pairing, float base, bool cols_first = false, bool alternates = false);
  void find_windows();
  /// Normalises all hidden rows in place; by the model's epsilon, if there is none.
  void normalise(const NormWeights& norm, float epsilon = 0);
  /// The layers in turn; null after them, and on a stop.
  const VisionLayer* next_layer();
  int32_t layer() const { return layer_; }

  /// Attention of a layer, in which rows see their whole view. `prepare(HeadRows)` normalises or rotates heads,
  /// `add(HiddenRows)` adds the output of attention to the hidden rows.
  template <class Prepare, class Add>
  void attend(const VisionLayer& w, Prepare prepare, Add add) {
    run_attention(w, false, prepare, add);
  }
  template <class Add>
  void attend(const VisionLayer& w, Add add) {
    run_attention(
        w, false, [](const HeadRows&) {}, add);
  }
  /// The same, but rows see their window.
  template <class Prepare, class Add>
  void attend_in_windows(const VisionLayer& w, Prepare prepare, Add add) {
    run_attention(w, true, prepare, add);
  }

  /// `run(HiddenRows)` is the MLP of a layer.
  template <class Run>
  void run_mlp(Run run) {
    for_each_block(memory_, memory_.rows(), blocks_.mlp, [&](int64_t first, int64_t count) {
      if (begins_mlp()) run(HiddenRows(memory_, first, count, {}, memory_.normed(count)));
    });
  }

  using Join = void (*)(const JoinPatchesArgs& args, Queue& queue);
  /// Joins patches of each view, without class rows, by shuffle_pixels or another of its kind. `map(JoinedRows)` makes
  /// them rows of the language model.
  template <class Map>
  void project(Join join, Map map) {
    project_to(0, join, memory_.device().activations(), map);
  }
  /// The same for joined rows that are normalised first: they are f32.
  template <class Map>
  void project_normed(Join join, Map map) {
    project_to(0, join, ActivationType::kF32, map);
  }
  /// The same for rows of an inner layer, which join those of the language model's layer `i`.
  template <class Map>
  void project_inner(int32_t i, Join join, Map map) {
    project_to(i + 1, join, ActivationType::kF32, map);
  }

 private:
  template <class Prepare, class Add>
  void run_attention(const VisionLayer& w, bool in_windows, Prepare prepare, Add add) {
    const LayerSight sight{layer_, in_windows};
    if (memory_.device().lean) return attend_in_blocks(w, sight, prepare, add);
    const int64_t rows = memory_.rows();
    if (at_rows()) map_heads(memory_, w, head_rows(memory_, 0, rows, true, true), prepare);
    if (at_places()) attend_views(memory_, sight);
    if (at_rows()) add(mixed_rows(memory_, 0, rows));
  }
  /// The keys and values of all rows, then the queries of each block. For these its rows are normalised again, which
  /// costs little; only its own rows have changed by then.
  template <class Prepare, class Add>
  void attend_in_blocks(const VisionLayer& w, const LayerSight& sight, Prepare prepare, Add add) {
    for_each_block(memory_, memory_.rows(), blocks_.others, [&](int64_t first, int64_t count) {
      const HeadRows heads = head_rows(memory_, first, count, false, true);
      map_heads(memory_, w, heads, prepare);
      store_heads(memory_, heads);
    });
    for_each_block(memory_, memory_.rows(), blocks_.others, [&](int64_t first, int64_t count) {
      const HeadRows heads = head_rows(memory_, first, count, true, false);
      map_heads(memory_, w, heads, prepare);
      attend_stored(memory_, sight, heads);
      add(mixed_rows(memory_, first, count));
    });
  }
  /// A row's columns in the language model: those of the projector, then those of DeepStack.
  template <class Map>
  void project_to(int32_t part, Join join, ActivationType type, Map map) {
    if (!in_range()) return;
    const TraceRange range(part == 0 ? memory_.args().trace : TraceSink(), "project");
    join_patches(join, type);
    if (at_rows())
      for_each_block(memory_, tokens_, memory_.device().block_rows(tokens_),
                     [&](int64_t first, int64_t count) { map(joined_rows(part, type, first, count)); });
    copy_projected(part);
  }

  bool in_range() const;
  bool at_rows();
  bool at_places();
  bool begins_mlp();
  void join_patches(Join join, ActivationType type);
  DeviceView<float> out(int32_t part) const;
  JoinedRows joined_rows(int32_t part, ActivationType type, int64_t first, int64_t count) const;
  void copy_projected(int32_t part);

  PassMemory memory_;
  PassParts* const parts_ = nullptr;
  const int64_t tokens_;
  const BlockRows blocks_;
  int32_t layer_ = -1;  // the layer of the step; -1 before all, their number after them
  bool stopped_ = false;
};

}  // namespace ocellus
