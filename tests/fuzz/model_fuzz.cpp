// Model files from opening to an answer: what opens is planned, and what fits a small budget gets an engine, which
// reads some text and a picture and decodes two tokens. One half of the pair is the input, the other one is good.
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "runtime/engine/engine.h"
#include "runtime/engine/memory_plan.h"
#include "tests/fuzz/gguf_changes.h"
#include "tests/fuzz/picture_seeds.h"
#include "tests/support/failure.h"
#include "tests/support/short_answer.h"

namespace ocellus::fuzz {
namespace {

// A view of 14 pixels from a picture with a side of 8,192, as LLaVA-1.5's pictures may have, takes 58 MB of scratch.
constexpr int64_t kBudgetBytes = int64_t{64} << 20;
constexpr size_t kMaxModelBytes = size_t{1} << 20;
constexpr int64_t kMaxHeapBytes = int64_t{64} << 20;

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

void require_sentence() { require(last_failure().sentence[0] != '\0', "a failure has a sentence"); }

bool open_and_talk(const MemoryFile& text, const MemoryFile& projector, size_t number) {
  test::clear_failure();
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
  static const Bytes picture = make_png_seeds().front();
  const Status answered = test::hear_short_answer(*engine, model.has_vision() ? picture : Bytes());
  if (!answered.ok()) return require_sentence(), false;
  return true;
}

enum class Half { kText, kProjector };

bool run(Half changed, const uint8_t* data, size_t size) {
  static const MemoryFile text, projector;
  static const Bytes good_text = make_text_models().front(), good_projector = make_projectors().front();
  text.hold(good_text.data(), good_text.size());
  projector.hold(good_projector.data(), good_projector.size());
  (changed == Half::kText ? text : projector).hold(data, size);
  return open_and_talk(text, projector, size);
}

const Registration kText({.name = "model",
                          .make_seeds = make_text_models,
                          .mutate = change_gguf,
                          .run = [](const uint8_t* data, size_t size) { return run(Half::kText, data, size); },
                          .most_bytes = kMaxModelBytes,
                          .most_heap_bytes = kMaxHeapBytes});
const Registration kProjector({.name = "mmproj",
                               .make_seeds = make_projectors,
                               .mutate = change_gguf,
                               .run = [](const uint8_t* data,
                                         size_t size) { return run(Half::kProjector, data, size); },
                               .most_bytes = kMaxModelBytes,
                               .most_heap_bytes = kMaxHeapBytes});

}  // namespace
}  // namespace ocellus::fuzz
