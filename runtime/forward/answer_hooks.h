// SlotDropper, TextPacker: branches that change the slots of sessions that answer. An engine has at most one of them.
#pragma once

#include <algorithm>

#include "kernels/base/step_row.h"
#include "platform/arena.h"
#include "platform/queue.h"
#include "platform/set_up_memory.h"
#include "runtime/models/text_layer.h"

namespace ocellus {

class SessionCache;
struct KvShape;
struct PromptChunk;
struct StepLimits;
struct StepScratch;
struct StepShape;

struct AnswerSteps {
  int64_t steps = 0;  // steps that fit
  int64_t slots = 0;  // maximum of text slots that they take in the order of text
  int64_t spare = 0;  // maximum of those that they take for packed slots
};

/// Text slots and positions left for an answer.
struct AnswerRoom {
  int64_t text = 0;
  int64_t positions = 0;
  int64_t packed = 0;  // maximum of packed slots in a layer and head: a token takes a text slot where one is dropped

  /// Returns how many of `wanted` steps fit if each takes a slot.
  AnswerSteps steps(int64_t wanted) const {
    const int64_t fit = std::max<int64_t>(std::min({wanted, text, positions}), 0);
    return {.steps = fit, .slots = fit};
  }
};

/// Drops slots for the tokens of answers.
class SlotDropper : public SetUpObject {
 public:
  virtual ~SlotDropper() = default;

  // Functions for prompts.
  /// Takes scratch for chunks of at most `rows` rows.
  virtual Status lay_out_prompt(int64_t rows, RowSink& sink) = 0;
  /// Enters a chunk's text, none of which was dropped, into the ledger, in every layer: it is stored in the pages after
  /// the live text.
  virtual void note_text(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache, Queue& queue) = 0;

  // Functions for steps.
  virtual Status lay_out_steps(const TextConfig& config, const StepLimits& limits, const DeviceTraits& device,
                               RowSink& sink) = 0;
  /// The device's part in an answer that begins.
  virtual StepEviction begin(const SessionCache& cache) const = 0;
  /// Returns how many of `wanted` steps fit, the first at `position`.
  virtual AnswerSteps plan(const StepEviction& device, int64_t position, const AnswerRoom& room,
                           int64_t wanted) const = 0;
  /// Drops a slot for the token of each active row that needs one, before attention in a layer.
  virtual void drop(const TextModel& model, const StepShape& shape, const StepScratch& scratch, const LayerRows& rows,
                    DeviceView<const float> angles, int32_t layer, Queue& queue) = 0;
  /// Gives the newest token of every active row its slot in all layers, if the last step has dropped one for it: the
  /// beginning of the next step.
  virtual void settle(const TextModel& model, const StepShape& shape, const StepScratch& scratch, Queue& queue) = 0;
};

/// Packs the oldest text of a session.
class TextPacker : public SetUpObject {
 public:
  virtual ~TextPacker() = default;
  virtual Status lay_out_steps(const KvShape& kv, RowSink& sink) = 0;
  /// True if there is text to pack when `more` tokens have been read.
  virtual bool is_due(const SessionCache& cache, int32_t more) const = 0;
  /// Packs it. Waits for the device: no other work may be queued. kFull: never, if the cache was planned for this.
  virtual Status pack(const TextModel& model, SessionCache& cache, Queue& queue) = 0;
};

}  // namespace ocellus
