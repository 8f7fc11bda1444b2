// One decode step: one token in, the next one out, for one or more sessions at once.
#pragma once

#include "kernels/base/step_row.h"
#include "kernels/sampling/top_tokens.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "platform/trace.h"
#include "runtime/cache/kv_cache.h"
#include "runtime/forward/answer_hooks.h"
#include "runtime/models/text_layer.h"

namespace ocellus {

template <>
struct TypeName<StepRow> {
  static constexpr const char* value = "step";
};
template <>
struct TypeName<StepResult> {
  static constexpr const char* value = "token";
};

template <>
struct TypeName<TopTokens> {
  static constexpr const char* value = "tokens";
};
template <>
struct TypeName<LogitNotes> {
  static constexpr const char* value = "logits";
};

/// Number of rows of a step, and of tiles that its attention is prepared for. On CUDA a step is recorded once for each
/// shape and launched repeatedly, so both are rounded up to one of a few values.
struct StepShape {
  int64_t rows = 1;
  int64_t most_tiles = 0;
};

/// Rows of the largest step of an engine with this many sessions. On CUDA a power of two, or a multiple of 64 if that
/// is less: full batches of many sessions are padded little.
int64_t most_step_rows(int64_t sessions, const DeviceTraits& device);
/// Rows of a step with `rows` active rows: on CUDA a power of two, or the largest step.
int64_t step_rows(int64_t rows, int64_t sessions, const DeviceTraits& device);
/// The same for a step whose largest has `most` rows.
int64_t recorded_rows(int64_t rows, int64_t most, const DeviceTraits& device);

/// Sizes and kinds of steps, for the plan.
struct StepLimits {
  int64_t rows = 1;
  int64_t tiles_per_session = 0;
  int64_t slots_per_session = 0;  // live slots
  bool has_masks = false;         // answers may be constrained
  bool lists_tops = false;        // rows may have SamplerParams::top_tokens
  bool guesses = false;           // rows may continue each other
  bool batch_invariant = false;   // see DeviceTraits
  KvShape kv;                     // storage of visual slots
  KvCalibration calibration;
};

/// Runs that the rows of a step see.
struct StepRuns {
  StagedRows<KvRun> all;            // [B, tiles per row]
  StagedRows<KvRun> local;          // [B, tiles of a ring] in layers with a window, if there are any
  StagedRows<int32_t> ring_starts;  // [1, B] see StepTiles

  Status lay_out(const StepLimits& limits, RowSink& sink);
  bool has_rings() const { return local.host.cols > 0; }
  /// Uploads the lists of the first rows.
  void upload(int64_t rows, Queue& queue) const;
};

/// From logits to tokens.
struct StepSampling {
  HostView<StepResult> results;  // [kResultSteps, B], written by the device
  HostView<int32_t> forced;      // [kResultSteps, B], read by the device: tokens of forced rows
  HostView<uint32_t> masks;      // [B, V / 32], likewise: tokens that masked rows may sample
  HostView<TopTokens> tops;      // [kResultSteps, B], written by the device, if planned
  DeviceView<LogitNotes> notes;  // [1, B], if tops are planned
  DeviceView<float> logits;      // [B, V]
  DeviceView<std::byte> scratch;

  /// Takes what the host reads and writes, and the notes.
  Status lay_out(const StepLimits& limits, int32_t vocabulary, RowSink& sink);
};

/// Buffers of a step: one row for each session of the batch, and then those of guessed tokens.
struct StepScratch {
  StagedRows<StepRow> steps;  // [1, B]
  StepRuns runs;
  DeviceView<float> hidden;        // [B, D]
  DeviceView<float> angles;        // [B, rotated]
  DeviceView<float> local_angles;  // [B, rotated] of layers with a window, if there are any
  LayerScratch layer;              // B rows
  LayerInputScratch inputs;        // B rows, if layers have inputs
  ActivationView shared_kv[2];     // [B, 2 G E] newest keys and values of layers that others share: of the last one
                                   // without and with a window
  DeviceView<std::byte> attend_scratch;
  StepSampling sampling;
  StepLimits limits;
  SlotDropper* dropper = nullptr;  // set by the code that lays this out; so is the packer
  TextPacker* packer = nullptr;
  TraceSink trace;  // set by the code that takes this

  Status lay_out(const TextConfig& config, const StepLimits& limits, const DeviceTraits& device, RowSink& sink);
  /// True if a recorded step ends with its logits: its masks come later.
  bool samples_apart() const { return sampling.masks.data != nullptr; }
  /// The buffers of a layer for the first `rows` rows. Keys and values that layers share have a place of their own.
  LayerRows rows_of(const TextConfig& config, int32_t layer, int64_t rows) const;
};

/// Lists a session's ring for row `row` of the step, whose token stands at its position.
void list_ring(const LocalRing& ring, int64_t row, const StepScratch& scratch);

/// Sets a flag of a row on the device, in the order of the steps even if the GPU reads host memory directly: it may
/// still be working on the previous step.
void set_step_flag(int32_t* flag, bool value, Queue& queue);

/// Copies all that the device keeps of a row to another one, after the steps so far.
void move_step_row(const StepScratch& scratch, int64_t from, int64_t to, Queue& queue);

/// Enqueues the step for rows 0 .. shape.rows - 1 up to its logits: reads each active row's token, and writes its keys
/// and values to the row's new slot. All values that differ from step to step are in scratch.steps. Stops between
/// layers with kCancelled or kDeadline.
Status enqueue_forward(const TextModel& model, const StepShape& shape, const StepScratch& scratch,
                       const StopSignal* stop, Queue& queue);
/// Enqueues the rest of it: samples the next token of each active row and advances the row. Masks are read here, so
/// that they may be written while the forward pass runs.
Status enqueue_sampling(int64_t rows, const StepScratch& scratch, Queue& queue);
/// The same, unless the recorded step has sampled.
Status sample_step(int64_t rows, const StepScratch& scratch, Queue& queue);

/// scratch.sampling.logits = unembedding of final_norm(scratch.hidden).
void enqueue_logits(const TextModel& model, int64_t rows, const StepScratch& scratch, Queue& queue);

/// Samples each active row's first token from scratch.hidden, the last layer's output for the newest prompt row; the
/// row is then ready for its first step.
Status enqueue_first_token(const TextModel& model, int64_t rows, const StepScratch& scratch, Queue& queue);

}  // namespace ocellus
