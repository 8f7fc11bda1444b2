// Scratch of the phases of an engine, stated once: the planner records what a phase takes from the arena later.
#pragma once

#include "mm/tower/vision_tower.h"
#include "runtime/engine/engine_memory.h"
#include "runtime/forward/decode_step.h"
#include "runtime/forward/prefill.h"

namespace ocellus {

/// Scratch of tokenising one text.
struct TextScratch {
  HostView<std::byte> workspace;
};

/// Scratch from encoded bytes or a frame to the pixels of views. A picture of one view is finished when the tower
/// begins, which then reuses its memory: it has a phase of its own, and the tower's is laid out later. A picture with
/// several views may be encoded partly before the other views are made: its scratch is beside the tower's.
struct ImageScratch {
  VisionScratch vision;                // pixels of pictures with one view only
  StagedRows<std::byte> picture;       // the decoded picture or the frame's planes; on the CPU also the scratch of
                                       // views
  DeviceView<std::byte> view_scratch;  // CUDA only: the picture as RGB8 on the device, and the scratch of its views
};

/// Takes the scratch of a phase from a sink: an arena, in a scope that ends with the phase, or the planner.
class PhaseScratch {
 public:
  /// `memory`: laid out in the same sink.
  PhaseScratch(const Model& model, const EngineShape& shape, const EngineMemory& memory, RowSink& sink)
      : model_(model), shape_(shape), memory_(memory), sink_(sink) {}

  Status take(TextScratch* out) const;
  Status take(ImageScratch* out) const;
  /// The tower and the projector, for the views that wait.
  Status take(VisionScratch* out) const;
  Status take(PrefillScratch* out) const;
  Status take(StepScratch* out) const;
  /// Takes the scratch of every phase, for a sink that counts them.
  Status take_all() const;

 private:
  const Model& model_;
  const EngineShape& shape_;
  const EngineMemory& memory_;
  RowSink& sink_;
};

}  // namespace ocellus
