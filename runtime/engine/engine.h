// Engine: one model on one device, one arena. The only object that allocates, and only in create().
#pragma once

#include <bitset>
#include <memory>

#include "kernels/linear/matmul_library.h"
#include "platform/log.h"
#include "platform/queue.h"
#include "platform/trace.h"
#include "runtime/engine/chunk_loan.h"
#include "runtime/engine/phase_scratch.h"
#include "runtime/forward/prefill_graphs.h"
#include "runtime/forward/step_graphs.h"

namespace ocellus {

class Engine : public SetUpObject {
 public:
  /// Plans, checks the budget, takes the memory, loads the weights, starts the threads. kOverBudget names the bytes
  /// needed; kIo if the system refuses them. The model must outlive the engine.
  static Status create(const Model& model, const ocellus_engine_config& config, std::unique_ptr<Engine>* out);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Takes a planned session that is not open: 0 <= *slot < shape().sessions. kFull if all are open.
  Status take_slot(int32_t* slot);
  void give_slot_back(int32_t slot) { open_slots_[static_cast<size_t>(slot)] = false; }
  void describe(ocellus_engine_stats* out) const;

  const Model& model() const { return *model_; }
  const EngineShape& shape() const { return shape_; }
  const TextModel& text() const { return text_; }
  const VisionModel& vision() const { return vision_; }
  EngineMemory& memory() { return memory_; }
  const Tokenizer& tokenizer() const { return memory_.tokenizer; }
  Arena& arena() { return arena_; }
  Queue& queue() { return queue_; }
  /// Trace sink of the ranges of work; null: none.
  const TraceSink& trace() const { return trace_; }

  /// Lends memory().chunk to one prompt at a time.
  ChunkLoan& chunk_loan() { return chunk_loan_; }

  /// Identifies the model where pictures are stored, once that has asked for it: then a hash over its files.
  const Hash128& model_fingerprint() const { return fingerprint_; }
  void set_model_fingerprint(const Hash128& hash) { fingerprint_ = hash; }

  /// Takes the scratch of a phase from the arena, until the caller's ArenaScope ends: see PhaseScratch.
  template <class Scratch>
  Status take_scratch(Scratch* out) {
    return PhaseScratch(*model_, shape_, memory_, arena_).take(out);
  }

  /// Keeps the high-water mark of cache blocks in use.
  void note_cache_use();

  /// Runs the first `rows` rows of the chunk through the text model; see prefill_rows. The plan's lists are uploaded
  /// here.
  Status run_prefill(int64_t rows, const PrefillPlan& plan, const PrefillScratch& scratch, const StopSignal* stop);

  /// Launches one decode step, of which sample_step() launches what is left; see enqueue_forward.
  Status run_forward(const StepShape& step, const StepScratch& scratch, const StopSignal* stop);

 private:
  Engine() : queue_(pool_) {}
  Status open_cuda(void* stream);
  Status take_memory(const ocellus_engine_config& config, const ocellus_plan& plan);
  Status take_host_memory(int64_t bytes);
  Status take_cuda_memory(const ocellus_engine_config& config, const ocellus_plan& plan);
  Status lay_out_memory(int32_t extent_count);
  Status load_weights(const ocellus_engine_config& config);
  Status finish_cuda();
  Status settle_memory(const ocellus_engine_config& config);

  const Model* model_ = nullptr;
  EngineShape shape_;
  LogSink log_;
  void* own_memory_ = nullptr;
  int64_t own_bytes_ = 0;
  Extent locked_extents_[Arena::kMaxExtents];
  int locked_extent_count_ = 0;
  Arena arena_;
  ThreadSettings threads_;
  TraceSink trace_;
  ThreadPool pool_;
  std::unique_ptr<CudaDevice> cuda_;  // before all members that use it
  std::unique_ptr<MatmulLibrary> matmul_library_;
  PrefillGraphs prefill_graphs_;
  StepGraphs step_graphs_;
  Queue queue_;
  EngineMemory memory_;
  TextModel text_;
  VisionModel vision_;
  ChunkLoan chunk_loan_{memory_.chunk, memory_.pictures.waiting};
  std::bitset<kMaxSessions> open_slots_;
  Hash128 fingerprint_;
  double load_ms_ = 0;
  int64_t outside_bytes_ = 0;
};

}  // namespace ocellus
