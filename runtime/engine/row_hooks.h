// Interfaces by which branches choose rows of prompts and release those of sessions: see branch.h.
#pragma once

#include "platform/arena.h"
#include "platform/queue.h"
#include "platform/set_up_memory.h"

namespace ocellus {

class Engine;
class LayerSource;
class Room;
class SessionCache;
struct PrefillScratch;
struct RowNeed;

/// Which rows of a prompt's pictures are read. The others leave the engine's chunk; those that stay keep their
/// positions.
class RowChoice : public SetUpObject {
 public:
  virtual ~RowChoice() = default;
  /// Takes the scratch of after_encoding(), for a plan.
  virtual Status plan_scratch(RowSink& sink) const = 0;
  /// Gives layers the rows that stay, if some go after the first layers; else null.
  virtual LayerSource* source() = 0;
  /// Chooses when the chunk's pictures are encoded. Waits for the queue if there are any, and adds the time that the
  /// choice takes.
  virtual Status after_encoding(Engine& engine, double* spent_ms) = 0;
  /// Chooses by what the first layers make of the chunk, which will stand from `first_position` on, after what is in
  /// `cache`. *known_layers: layers that have been run; 0 if no row goes. Waits for the queue if some do.
  virtual Status after_first_layers(Engine& engine, int64_t first_position, SessionCache& cache,
                                    const PrefillScratch& scratch, const StopSignal* stop, int32_t* known_layers) = 0;
  /// Notes how long the chunk's rows took to read.
  virtual void note_time(double spent_ms, int64_t rows) = 0;
};

/// Makes room in rolling sessions, which go on for hours: their oldest rows are released for new ones.
class Roller : public SetUpObject {
 public:
  virtual ~Roller() = default;
  /// True if rows may be released to make room. False for a need that can never fit.
  virtual bool can_release(const Room& room, const RowNeed& need, const RowNeed& waiting) const = 0;
  /// True if the session keeps the waiting text as its beginning, which must not compete with the images after it.
  virtual bool begins(const Room& room, const RowNeed& need, const RowNeed& waiting) const = 0;
  /// Releases the oldest rows until there is room or nothing can be released. No rows may wait.
  virtual Status release(Room& room, const RowNeed& need) const = 0;
  /// Makes room for an answer whose prompt was read: releases rows from before the prompt until the answer fits, but no
  /// more than half of the planned text: few answers are as long as they may be.
  virtual void release_for_answer(Room& room, int64_t text_rows) const = 0;
};

}  // namespace ocellus
