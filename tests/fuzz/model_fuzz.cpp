// Model files from opening to an answer: what opens is planned, and what fits a small budget gets an engine, which
// reads some text and a picture and decodes two tokens. One half of the pair is the input, the other one is good.
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "runtime/engine.h"
#include "runtime/memory_plan.h"
#include "tests/fuzz/gguf_changes.h"
#include "tests/fuzz/picture_seeds.h"

namespace ocellus::fuzz {
namespace {

// A view of 14 pixels from a picture with a side of 8,192, as LLaVA-1.5's pictures may have, takes 58 MB of scratch.
constexpr int64_t kBudgetBytes = int64_t{64} << 20;
constexpr size_t kMostModelBytes = size_t{1} << 20;
constexpr int64_t kMostHeapBytes = int64_t{64} << 20;

// A file in memory, which the library opens by its path.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("model", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "a file in memory can be made");
    path_ = "/proc/self/fd/" + std::to_string(descriptor_);
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void hold(const uint8_t* data, size_t size) const {
    require(::ftruncate(descriptor_, 0) == 0, "the file in memory can be emptied");
    require(::pwrite(descriptor_, data, size, 0) == static_cast<ssize_t>(size), "the file in memory can be written");
  }
  const char* path() const { return path_.c_str(); }

 private:
  int descriptor_;
  std::string path_;
};

// Every bit width, and room for a picture if the pair has eyes. The input decides, so that a run can be repeated.
ocellus_limits choose_limits(const Model& model, size_t number) {
  constexpr int32_t kBits[] = {16, 8, 4, 2, 1};
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  limits.device = OCELLUS_DEVICE_CPU;
  limits.thread_count = 1;
  limits.max_images = model.has_vision() ? 1 : 0;
  limits.max_text_tokens = 32;
  limits.max_image_pixels = 64 * 64;
  limits.budget_bytes = kBudgetBytes;
  limits.lean = number % 2 == 0 ? 1 : 0;
  limits.cache.kv_bits = kBits[number % std::size(kBits)];
  return limits;
}

Status talk(Engine& engine, bool has_vision) {
  Session* session = nullptr;
  OCELLUS_TRY(engine.open_session(&session));
  OCELLUS_TRY(session->begin_turn());
  OCELLUS_TRY(session->add_text("What is", false));
  if (has_vision) {
    static const Bytes picture = make_png_seeds().front();
    OCELLUS_TRY(session->add_encoded_image(picture.data(), static_cast<int64_t>(picture.size())));
  }
  OCELLUS_TRY(session->end_turn());
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.max_tokens = 2;
  params.ignore_end = 1;
  ocellus_generate_stats stats;
  return generate(&session, &params, &stats, 1);
}

void require_sentence() { require(last_failure().sentence[0] != '\0', "a failure has a sentence"); }

bool open_and_talk(const MemoryFile& text, const MemoryFile& projector, size_t number) {
  clear_failure();
  Model model;
  if (!model.open(text.path(), projector.path()).ok()) return require_sentence(), false;
  const ocellus_limits limits = choose_limits(model, number);
  ocellus_plan plan;
  if (!plan_memory(model, limits, &plan).ok()) return require_sentence(), false;
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits = limits;
  std::unique_ptr<Engine> engine;
  const Status created = Engine::create(model, config, &engine);
  require(plan.fits != 0 || !created.ok(), "what does not fit gets no engine");
  if (!created.ok()) return require_sentence(), false;
  if (!talk(*engine, model.has_vision()).ok()) return require_sentence(), false;
  return true;
}

bool run_text(const uint8_t* data, size_t size) {
  static const MemoryFile text, projector;
  static const Bytes good = make_projectors().front();
  projector.hold(good.data(), good.size());
  text.hold(data, size);
  return open_and_talk(text, projector, size);
}

bool run_projector(const uint8_t* data, size_t size) {
  static const MemoryFile text, projector;
  static const Bytes good = make_text_models().front();
  text.hold(good.data(), good.size());
  projector.hold(data, size);
  return open_and_talk(text, projector, size);
}

const Registration kText({.name = "model",
                          .make_seeds = make_text_models,
                          .mutate = change_gguf,
                          .run = run_text,
                          .most_bytes = kMostModelBytes,
                          .most_heap_bytes = kMostHeapBytes});
const Registration kProjector({.name = "mmproj",
                               .make_seeds = make_projectors,
                               .mutate = change_gguf,
                               .run = run_projector,
                               .most_bytes = kMostModelBytes,
                               .most_heap_bytes = kMostHeapBytes});

}  // namespace
}  // namespace ocellus::fuzz
