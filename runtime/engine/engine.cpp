#include "runtime/engine/engine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>

#include "platform/round_up.h"
#include "runtime/engine/load_weights.h"
#include "runtime/engine/memory_plan.h"
#include "runtime/engine/warm_up.h"

namespace ocellus {
namespace {

/// Returns the memory available without swapping; INT64_MAX if the system does not report it.
int64_t available_memory_bytes() {
  std::FILE* file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return INT64_MAX;
  char line[128];
  long long kilobytes = -1;
  while (kilobytes < 0 && std::fgets(line, sizeof line, file) != nullptr)
    if (std::sscanf(line, "MemAvailable: %lld kB", &kilobytes) != 1) kilobytes = -1;
  std::fclose(file);
  return kilobytes < 0 ? INT64_MAX : int64_t{kilobytes} * 1024;
}

/// Touches every page by all threads: a page that no process had before is cleared first, by who touches it.
void touch_by_all(ThreadPool& pool, void* memory, int64_t bytes) {
  constexpr int64_t kLargePage = int64_t{2} << 20;
  auto* const begin = static_cast<std::byte*>(memory);
  const auto unaligned = static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory) % kLargePage);
  pool.run(divide_up(unaligned + bytes, kLargePage), 1, [&](int64_t first, int64_t end, int) {
    const int64_t from = std::max<int64_t>(0, first * kLargePage - unaligned);
    touch_pages(begin + from, std::min(bytes, end * kLargePage - unaligned) - from);
  });
}

Status check_budget(const ocellus_limits& limits, int64_t total_bytes) {
  if (limits.budget_bytes == 0 || total_bytes <= limits.budget_bytes) return {};
  return OCELLUS_FAIL(Code::kOverBudget,
                      "this plan needs %" PRId64 " bytes, the budget is %" PRId64 ": %" PRId64
                      " bytes are missing (ocellus plan shows what would fit)",
                      total_bytes, limits.budget_bytes, total_bytes - limits.budget_bytes);
}

/// `plan`: on the CPU all of it is locked, on a GPU, whose memory is never swapped, only stacks are.
ThreadSettings thread_settings(const ocellus_engine_config& config, const EngineShape& shape,
                               const ocellus_plan& plan) {
  static_assert(sizeof config.thread_cpus == sizeof ThreadSettings::cpus);
  ThreadSettings settings{.priority = config.thread_priority, .touches_stack = config.prefault != 0};
  std::copy(std::begin(config.thread_cpus), std::end(config.thread_cpus), settings.cpus);
  if (config.lock_memory == 0) return settings;
  const int64_t threads = shape.device.thread_count - 1 + shape.other_threads;
  settings.locked_bytes = (shape.device.is_cuda() ? 0 : plan.total_bytes) + threads * kResidentStackBytes;
  return settings;
}

/// Takes the rows of one phase after the other from the arena, and returns each phase's before the next.
class PhaseTrial : public RowSink {
 public:
  explicit PhaseTrial(Arena& arena) : arena_(arena) {}
  bool shares_host_memory() const override { return arena_.shares_host_memory(); }
  Status take(const RowSpec& row, std::byte** out) override {
    if (row.phase != phase_) {
      scope_.reset();
      scope_.emplace(arena_);
      phase_ = row.phase;
    }
    return arena_.take(row, out);
  }

 private:
  Arena& arena_;
  std::optional<ArenaScope> scope_;
  Phase phase_ = Phase::kNone;
};

}  // namespace

Status Engine::create(const Model& model, const ocellus_engine_config& config, std::unique_ptr<Engine>* out) {
  if (config.struct_bytes != sizeof config)
    return OCELLUS_FAIL(Code::kBadArgument, "the configuration was not set up by ocellus_engine_config_init");
  const int64_t start = now_ns();
  Buffer<ocellus_plan> plans;
  OCELLUS_TRY(plans.resize(1));
  ocellus_plan* const plan = plans.data();
  std::unique_ptr<Engine> engine(new (std::nothrow) Engine);
  if (engine == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for an engine");

  engine->trace_ = {config.trace, config.trace_user};
  const TraceRange range(engine->trace_, "create engine");
  ocellus_limits planned = config.limits;
  planned.budget_bytes = 0;  // the verdict is computed below; advice would cost time
  OCELLUS_TRY(plan_memory(model, planned, plan));
  OCELLUS_TRY(check_budget(config.limits, plan->total_bytes));
  OCELLUS_TRY(resolve_shape(model, config.limits, &engine->shape_));
  engine->queue_.set_lean(engine->shape_.device.lean);
  engine->queue_.set_cpu_math(engine->shape_.device.cpu_math);
  engine->model_ = &model;
  engine->log_ = {config.log, config.log_user};
  engine->threads_ = thread_settings(config, engine->shape_, *plan);
  OCELLUS_TRY(engine->threads_.check());
  OCELLUS_TRY(engine->pool_.start(engine->shape_.device.thread_count, engine->threads_));
  if (engine->shape_.device.is_cuda()) OCELLUS_TRY(engine->open_cuda(config.stream));
  OCELLUS_TRY(engine->take_memory(config, *plan));
  OCELLUS_TRY(engine->settle_memory(config));
  OCELLUS_TRY(engine->lay_out_memory(config.extent_count));
  OCELLUS_TRY(engine->load_weights(config));
  if (engine->shape_.pictures.planned()) OCELLUS_TRY(engine->memory_.pictures.decoder.open());
  engine->memory_.pictures.waiting.set_trace(engine->trace_);
  if (engine->cuda_ != nullptr) OCELLUS_TRY(engine->finish_cuda());

  if (PictureStores* const stores = engine->memory_.branches.stores.get())
    OCELLUS_TRY(stores->start(engine->shape_, engine->threads_, engine->trace_, engine->log_));
  engine->memory_.linked.shared.attach(engine->memory_.linked.shared_memory, &engine->memory_.pools);
  for (int32_t i = 0; i < engine->shape_.sessions; ++i) engine->memory_.caches[i].attach(&engine->memory_.pools, i);
  engine->load_ms_ = elapsed_ms(start, now_ns());
  engine->log_.write(LogLevel::kInfo, "engine ready on %s: %" PRId64 " bytes, %d threads, %.1f ms",
                     engine->cuda_ != nullptr ? engine->cuda_->facts().name : "the CPU", plan->total_bytes,
                     engine->shape_.device.thread_count, engine->load_ms_);
  *out = std::move(engine);
  return {};
}

Engine::~Engine() {
  memory_.branches.stores.reset();
  queue_.enter();
  pool_.stop();
  for (int i = 0; i < locked_extent_count_; ++i) unlock_pages(locked_extents_[i].data, locked_extents_[i].bytes);
  if (own_memory_ != nullptr) ::munmap(own_memory_, static_cast<size_t>(own_bytes_));
}

Status Engine::open_cuda(void* stream) {
  OCELLUS_TRY(CudaDevice::open(shape_.device_index, stream, &cuda_));
  OCELLUS_TRY(MatmulLibrary::create(*cuda_, &matmul_library_));
  queue_.use_cuda(cuda_.get(), matmul_library_.get());
  queue_.set_shares_memory(shape_.device.shares_memory);
  return {};
}

/// Last steps of setting up a GPU: after them it allocates nothing more.
Status Engine::finish_cuda() {
  const TraceRange range(trace_, "warm up");
  OCELLUS_TRY(warm_up(*this, &prefill_graphs_, &step_graphs_));
  if (memory_.branches.stores != nullptr) {  // the driver sets a stream up at its first use
    queue_.begin_transfers();
    queue_.transfer(memory_.last_hidden.data, memory_.token_ids.data, sizeof(float));
    for (int ticket = 0; ticket < Queue::kTickets; ++ticket) queue_.end_transfers(ticket);
    OCELLUS_TRY(queue_.finish());
  }
  matmul_library_->freeze();
  outside_bytes_ = cuda_->outside_bytes();
  return {};
}

Status Engine::take_memory(const ocellus_engine_config& config, const ocellus_plan& plan) {
  constexpr int32_t kMaxExtents = Arena::kMaxExtents - 1;
  if (config.extent_count > kMaxExtents)
    return OCELLUS_FAIL(Code::kBadArgument, "at most %d memory extents are supported", kMaxExtents);
  for (int32_t i = 0; i < config.extent_count; ++i) {
    if (config.extents == nullptr) return OCELLUS_FAIL(Code::kBadArgument, "extent_count is set, but extents is null");
    const Extent extent{static_cast<std::byte*>(config.extents[i].data), config.extents[i].bytes};
    if (cuda_ != nullptr && extent.data != nullptr) OCELLUS_TRY(cuda_->check_reachable(extent.data));
    OCELLUS_TRY(cuda_ == nullptr ? arena_.add_extent(extent) : arena_.add_extent(extent, Place::kDevice));
  }
  const int64_t needed = plan.total_bytes - plan.staging_bytes;
  if (config.extent_count > 0 && arena_.capacity_bytes() < needed)
    return OCELLUS_FAIL(Code::kOverBudget, "this plan needs %" PRId64 " bytes, the memory given has %" PRId64, needed,
                        arena_.capacity_bytes());
  if (cuda_ != nullptr) return take_cuda_memory(config, plan);
  return config.extent_count > 0 ? Status() : take_host_memory(plan.total_bytes);
}

/// Takes device memory, unless the caller gave some, and pinned host memory.
Status Engine::take_cuda_memory(const ocellus_engine_config& config, const ocellus_plan& plan) {
  const int64_t device_bytes = plan.total_bytes - plan.staging_bytes;
  std::byte* memory = nullptr;
  if (config.extent_count == 0) {
    OCELLUS_TRY(cuda_->allocate_device(device_bytes, &memory));
    OCELLUS_TRY(arena_.add_extent({memory, device_bytes}, Place::kDevice));
  }
  OCELLUS_TRY(cuda_->allocate_pinned(plan.staging_bytes, &memory));
  OCELLUS_TRY(arena_.add_extent({memory, plan.staging_bytes}, Place::kHost));
  arena_.set_shares_host_memory(shape_.device.shares_memory);
  return {};
}

Status Engine::take_host_memory(int64_t total_bytes) {
  const int64_t available = available_memory_bytes();
  if (total_bytes > available)
    return OCELLUS_FAIL(Code::kIo, "this plan needs %" PRId64 " bytes, but the system has only %" PRId64 " to give",
                        total_bytes, available);
  void* memory =
      ::mmap(nullptr, static_cast<size_t>(total_bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return OCELLUS_FAIL(Code::kIo, "the system refused %" PRId64 " bytes of memory: %s", total_bytes,
                        std::strerror(errno));
  // Large pages if the system has them: a token reads every weight once, and small pages cost address lookups.
  ::madvise(memory, static_cast<size_t>(total_bytes), MADV_HUGEPAGE);
  touch_by_all(pool_, memory, total_bytes);
  own_memory_ = memory;
  own_bytes_ = total_bytes;
  return arena_.add_extent({static_cast<std::byte*>(memory), total_bytes});
}

/// Page faults belong to set-up: no frame may wait for them. Memory of our own has been touched already.
Status Engine::settle_memory(const ocellus_engine_config& config) {
  if (config.prefault != 0) {
    touch_code();
    touch_stack();
    for (int32_t i = 0; cuda_ == nullptr && i < config.extent_count; ++i)
      touch_by_all(pool_, config.extents[i].data, config.extents[i].bytes);
  }
  if (config.lock_memory == 0 || cuda_ != nullptr) return {};
  if (own_memory_ != nullptr) return lock_pages(own_memory_, own_bytes_, threads_.locked_bytes);
  for (int32_t i = 0; i < config.extent_count; ++i) {
    OCELLUS_TRY(lock_pages(config.extents[i].data, config.extents[i].bytes, threads_.locked_bytes));
    locked_extents_[locked_extent_count_++] = {static_cast<std::byte*>(config.extents[i].data),
                                               config.extents[i].bytes};
  }
  return {};
}

Status Engine::lay_out_memory(int32_t extent_count) {
  Status status = memory_.lay_out(*model_, shape_, arena_);
  // Extents may hold the plan's bytes and still not its rows: found out now, not at the first image.
  if (extent_count > 1) {
    PhaseTrial trial(arena_);
    if (status.ok()) status = PhaseScratch(*model_, shape_, memory_, trial).take_all();
  }
  if (status.ok() || extent_count == 0) return status;
  char reason[sizeof(Failure::sentence)];
  std::memcpy(reason, last_failure().sentence, sizeof reason);
  return OCELLUS_FAIL(Code::kOverBudget, "%s: give fewer or larger memory extents", reason);
}

Status Engine::load_weights(const ocellus_engine_config& config) {
  const TraceRange range(trace_, "load weights");
  const GgufFile& text = model_->text_file();
  const LoadedSection<std::byte> section = memory_.weights.text_section(text);
  const bool host_writes = !shape_.device.is_cuda() || shape_.device.maps_weights;
  const int64_t vision_bytes = shape_.pictures.planned() ? model_->vision_file().data_bytes() : 0;
  LoadProgress progress(config.progress, config.progress_user, text.data_bytes() + vision_bytes);
  OCELLUS_TRY(progress.add(0));
  OCELLUS_TRY(load_tensors(text, section, host_writes, queue_, progress));
  const auto* const data = reinterpret_cast<const uint8_t*>(section.data);
  const auto* const apart = reinterpret_cast<const uint8_t*>(section.apart);
  OCELLUS_TRY(bind_text_model(text, model_->text(), {data, apart, section.stretch}, &text_));
  if (text_.config.yarn.used()) OCELLUS_TRY(load_rope_factors(memory_.weights.rope_factors, &text_.config, queue_));
  if (!shape_.pictures.planned()) return {};
  const GgufFile& vision = model_->vision_file();
  OCELLUS_TRY(load_tensors(vision, {.data = memory_.weights.vision.data}, host_writes, queue_, progress));
  if (const char* const turned = model_->vision().family->turned_matrix; turned[0] != '\0')
    OCELLUS_TRY(turn_matrix(vision, turned, memory_.weights.vision, queue_));
  return bind_vision_model(vision, model_->vision(), reinterpret_cast<const uint8_t*>(memory_.weights.vision.data),
                           &vision_);
}

Status Engine::run_prefill(int64_t rows, const PrefillPlan& plan, const PrefillScratch& scratch,
                           const StopSignal* stop) {
  if (cuda_ != nullptr) return prefill_graphs_.run(text_, rows, plan, stop, queue_);
  return prefill_rows(text_, memory_.chunk.hidden.slice_rows(0, rows), plan, scratch, stop, queue_);
}

Status Engine::run_forward(const StepShape& step, const StepScratch& scratch, const StopSignal* stop) {
  if (cuda_ != nullptr) return step_graphs_.launch(step, scratch, queue_);
  return enqueue_forward(text_, step, scratch, stop, queue_);
}

Status Engine::take_slot(int32_t* slot) {
  for (int32_t i = 0; i < shape_.sessions; ++i) {
    if (open_slots_[static_cast<size_t>(i)]) continue;
    open_slots_[static_cast<size_t>(i)] = true;
    *slot = i;
    return {};
  }
  return OCELLUS_FAIL(Code::kFull, "all %d planned sessions are open: close one or plan more sessions",
                      shape_.sessions);
}

void Engine::note_cache_use() {
  // All rows of the session lifetime except cache blocks that were never taken.
  const KvShape& kv = shape_.kv;
  const int64_t pool_bytes = kv.page_count * kv.page_bytes() + kv.block_count * kv.block_bytes();
  arena_.note_session_use(arena_.used_bytes(Lifetime::kSession) - pool_bytes + memory_.pools.used_bytes());
}

void Engine::describe(ocellus_engine_stats* out) const {
  *out = {};
  out->arena_bytes = arena_.capacity_bytes();
  out->weights_high_water_bytes = arena_.high_water_bytes(Lifetime::kWeights);
  out->session_high_water_bytes = arena_.session_use_high_water_bytes();
  out->scratch_high_water_bytes = arena_.high_water_bytes(Lifetime::kScratch);
  out->staging_high_water_bytes = arena_.high_water_bytes(Lifetime::kStaging);
  out->outside_bytes = outside_bytes_;
  out->outside_bytes_now = cuda_ == nullptr ? 0 : cuda_->outside_bytes();
  out->load_ms = load_ms_;
  if (memory_.branches.stores != nullptr) memory_.branches.stores->describe(out);
  const SharedUse shared = memory_.linked.shared.use();
  out->shared_images_held = shared.held;
  out->shared_images_used = shared.used;
  out->shared_image_links = shared.links;
  out->shared_image_hits = memory_.linked.shared.hits();
  out->shared_bytes_used = shared.used * shape_.kv.image_bytes();
  out->shared_bytes_saved = (shared.links - shared.used) * shape_.kv.image_bytes();
}

}  // namespace ocellus
