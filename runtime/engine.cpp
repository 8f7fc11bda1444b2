#include "runtime/engine.h"

#include <sys/mman.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>

#include "runtime/memory_plan.h"

namespace ocellus {
namespace {

/// Memory the system says can be had without swapping; INT64_MAX if it does not say.
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

/// Page faults belong to set-up, not to the first image.
void touch_pages(std::byte* memory, int64_t bytes) {
  constexpr int64_t kSmallestPage = 4096;
  for (int64_t at = 0; at < bytes; at += kSmallestPage) *const_cast<volatile std::byte*>(memory + at) = std::byte{0};
}

Status check_budget(const ocellus_limits& limits, int64_t total_bytes) {
  if (limits.budget_bytes == 0 || total_bytes <= limits.budget_bytes) return {};
  return OCELLUS_FAIL(Code::kOverBudget,
                      "this plan needs %" PRId64 " bytes, the budget is %" PRId64 ": %" PRId64
                      " bytes are missing (ocellus plan shows what would fit)",
                      total_bytes, limits.budget_bytes, total_bytes - limits.budget_bytes);
}

/// Takes the rows of one phase after the other from the arena, and gives each phase's back before the next.
class PhaseTrial : public RowSink {
 public:
  explicit PhaseTrial(Arena& arena) : arena_(arena) {}
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
  std::unique_ptr<ocellus_plan> plan(new (std::nothrow) ocellus_plan);
  std::unique_ptr<Engine> engine(new (std::nothrow) Engine);
  if (plan == nullptr || engine == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for an engine");

  ocellus_limits planned = config.limits;
  planned.budget_bytes = 0;  // the verdict comes below; advice would cost time
  OCELLUS_TRY(plan_memory(model, planned, plan.get()));
  OCELLUS_TRY(check_budget(config.limits, plan->total_bytes));
  OCELLUS_TRY(resolve_shape(model, config.limits, &engine->shape_));
  engine->model_ = &model;
  engine->log_ = {config.log, config.log_user};
  OCELLUS_TRY(engine->take_memory(config, plan->total_bytes));
  OCELLUS_TRY(engine->lay_out_memory(config.extent_count));
  OCELLUS_TRY(engine->load_weights());
  OCELLUS_TRY(engine->pool_.start(engine->shape_.thread_count));

  const int32_t session_count = engine->shape_.sessions;
  engine->sessions_.reset(new (std::nothrow) Session[static_cast<size_t>(session_count)]);
  if (engine->sessions_ == nullptr)
    return OCELLUS_FAIL(Code::kIo, "the system has no memory for %d sessions", session_count);
  for (int32_t i = 0; i < session_count; ++i) {
    engine->memory_.caches[i].attach(&engine->memory_.pools);
    engine->sessions_[i].attach(engine.get(), i);
  }
  engine->load_ms_ = elapsed_ms(start, now_ns());
  engine->log_.write(LogLevel::kInfo, "engine ready: %" PRId64 " bytes, %d threads, %.1f ms", plan->total_bytes,
                     engine->shape_.thread_count, engine->load_ms_);
  *out = std::move(engine);
  return {};
}

Engine::~Engine() {
  pool_.stop();
  if (own_memory_ != nullptr) ::munmap(own_memory_, static_cast<size_t>(own_bytes_));
}

Status Engine::take_memory(const ocellus_engine_config& config, int64_t total_bytes) {
  if (config.extent_count > 0) {
    if (config.extents == nullptr) return OCELLUS_FAIL(Code::kBadArgument, "extent_count is set, but extents is null");
    for (int32_t i = 0; i < config.extent_count; ++i)
      OCELLUS_TRY(arena_.add_extent({static_cast<std::byte*>(config.extents[i].data), config.extents[i].bytes}));
    if (arena_.capacity_bytes() < total_bytes)
      return OCELLUS_FAIL(Code::kOverBudget, "this plan needs %" PRId64 " bytes, the memory given has %" PRId64,
                          total_bytes, arena_.capacity_bytes());
    return {};
  }
  const int64_t available = available_memory_bytes();
  if (total_bytes > available)
    return OCELLUS_FAIL(Code::kIo, "this plan needs %" PRId64 " bytes, but the system has only %" PRId64 " to give",
                        total_bytes, available);
  void* memory =
      ::mmap(nullptr, static_cast<size_t>(total_bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return OCELLUS_FAIL(Code::kIo, "the system refused %" PRId64 " bytes of memory: %s", total_bytes,
                        std::strerror(errno));
  // Large pages where the system has them: a token reads every weight once, and small pages cost it address lookups.
  ::madvise(memory, static_cast<size_t>(total_bytes), MADV_HUGEPAGE);
  touch_pages(static_cast<std::byte*>(memory), total_bytes);
  own_memory_ = memory;
  own_bytes_ = total_bytes;
  return arena_.add_extent({static_cast<std::byte*>(memory), total_bytes});
}

Status Engine::lay_out_memory(int32_t extent_count) {
  Status status = memory_.lay_out(*model_, shape_, arena_);
  // Pieces may hold the plan's bytes and still not its rows: found out now, not when the first image comes.
  if (extent_count > 1) {
    PhaseTrial trial(arena_);
    if (status.ok()) status = lay_out_phases(*model_, shape_, trial);
  }
  if (status.ok() || extent_count == 0) return status;
  char reason[sizeof(Failure::sentence)];
  std::memcpy(reason, last_failure().sentence, sizeof reason);
  return OCELLUS_FAIL(Code::kOverBudget, "%s: give fewer or larger memory extents", reason);
}

Status Engine::load_weights() {
  const GgufFile& text = model_->text_file();
  OCELLUS_TRY(text.map().read_at(text.data_offset(), memory_.text_weights.data, text.data_bytes()));
  OCELLUS_TRY(
      bind_text_model(text, model_->text(), reinterpret_cast<const uint8_t*>(memory_.text_weights.data), &text_));
  if (shape_.images_per_session == 0) return {};
  const GgufFile& vision = model_->vision_file();
  OCELLUS_TRY(vision.map().read_at(vision.data_offset(), memory_.vision_weights.data, vision.data_bytes()));
  return bind_vision_model(vision, model_->vision(), reinterpret_cast<const uint8_t*>(memory_.vision_weights.data),
                           &vision_);
}

Status Engine::open_session(Session** out) {
  for (int32_t i = 0; i < shape_.sessions; ++i) {
    if (sessions_[i].is_open()) continue;
    sessions_[i].open();
    *out = &sessions_[i];
    return {};
  }
  return OCELLUS_FAIL(Code::kFull, "all %d planned sessions are open: close one or plan more sessions",
                      shape_.sessions);
}

void Engine::note_cache_use() {
  // Everything of the session lifetime except cache blocks that were never taken.
  const KvShape& kv = shape_.kv;
  const int64_t pool_bytes = kv.page_count * kv.page_bytes() + kv.image_count * kv.image_bytes();
  arena_.note_session_use(arena_.used_bytes(Lifetime::kSession) - pool_bytes + memory_.pools.used_bytes());
}

void Engine::describe(ocellus_engine_stats* out) const {
  out->arena_bytes = arena_.capacity_bytes();
  out->weights_high_water_bytes = arena_.high_water_bytes(Lifetime::kWeights);
  out->session_high_water_bytes = arena_.session_use_high_water_bytes();
  out->scratch_high_water_bytes = arena_.high_water_bytes(Lifetime::kScratch);
  out->load_ms = load_ms_;
}

}  // namespace ocellus
