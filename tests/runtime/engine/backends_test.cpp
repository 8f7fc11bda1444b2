// The two backends side by side on the same prompts, and the GPU against itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/memory_plan.h"
#include "tests/support/loaded_engine.h"
#if OCELLUS_HAS_CUDA
#include <cuda_runtime.h>
#endif

namespace ocellus {
namespace {

bool has_gpu() {
  if (cuda_device_count() > 0) return true;
  MESSAGE("not run: there is no GPU");
  return false;
}

/// One engine on each device over the same files.
struct Pair {
  explicit Pair(const test::ModelPair& files, int32_t images = 16) {
    REQUIRE_MESSAGE(model.open(files.model.c_str(), files.mmproj.c_str()).ok(), last_failure().sentence);
    ocellus_limits limits = test::board_limits(images, 512);
    limits.device = OCELLUS_DEVICE_CPU;
    cpu = test::make_engine(model, limits);
    limits.device = OCELLUS_DEVICE_CUDA;
    cuda = test::make_engine(model, limits);
  }
  Model model;
  std::unique_ptr<Engine> cpu, cuda;
};

/// The largest relative distance between the backends' first logits over the golden prompts.
double worst_first_logits(const Pair& pair) {
  Session& on_cpu = test::open_session(*pair.cpu);
  Session& on_cuda = test::open_session(*pair.cuda);
  double worst = 0;
  for (const test::Golden& golden : test::goldens()) {
    std::vector<float> logits[2];
    for (int i = 0; i < 2; ++i) {
      Session& session = i == 0 ? on_cpu : on_cuda;
      session.reset();
      test::add_question(session, golden);
      logits[i] = test::first_logits(session);
    }
    worst = std::max(worst, test::relative_error(logits[1].data(), logits[0]));
  }
  return worst;
}

}  // namespace

TEST_CASE("the backends agree on the bundled pair as far as the CPU's rounding of inputs allows") {
  if (!has_gpu()) return;
  const double worst = worst_first_logits(Pair(test::bundled_pair()));
  MESSAGE("first logits, Q8_0: " << worst);
  CHECK(worst < 6e-2);
}

TEST_CASE("the backends agree on F16 weights") {
  const char* folder = std::getenv("OCELLUS_F16_TWIN");
  if (folder == nullptr) {
    MESSAGE("not run: OCELLUS_F16_TWIN does not name a folder");
    return;
  }
  if (!has_gpu()) return;
  const std::string base = folder;
  const double worst =
      worst_first_logits(Pair({base + "/shapeboard-34m-f16.gguf", base + "/mmproj-shapeboard-34m-f16.gguf"}));
  MESSAGE("first logits, F16: " << worst);
  CHECK(worst < 3e-3);
}

TEST_CASE("the same run twice on a GPU gives the same bits, alone and in a batch") {
  if (!has_gpu()) return;
  ocellus_limits limits = test::board_limits(2, 256);
  limits.device = OCELLUS_DEVICE_CUDA;
  limits.max_sessions = 5;
  const std::unique_ptr<Engine> engine = test::make_engine(limits);
  const auto ask = [&](int sessions) {
    std::vector<Session*> open;
    for (int i = 0; i < sessions; ++i) open.push_back(&test::open_session(*engine));
    for (Session* session : open)
      REQUIRE(test::add_turn(*session, "<image> What is this? <image>", {"images/115.png", "images/024.png"}).ok());
    ocellus_generate_params params = test::default_params(40);
    params.ignore_end = 1;
    params.temperature = 0.9f;
    params.seed = 7;
    const std::vector<test::Answer> answers = test::batch_answers(open, params);
    for (Session* session : open) session->close();
    return answers;
  };
  for (const int sessions : {1, 3, 5}) {
    CAPTURE(sessions);
    const std::vector<test::Answer> first = ask(sessions), second = ask(sessions);
    for (size_t i = 0; i < first.size(); ++i) {
      CHECK(first[i].status.ok());
      CHECK(first[i].text == second[i].text);
      CHECK(first[i].stats.logits_hash == second[i].stats.logits_hash);
      CHECK(first[i].text == first[0].text);  // the same prompt and seed in another row
    }
  }
}

TEST_CASE("memory that the GPU cannot read is refused before anything is written to it") {
  if (!has_gpu()) return;
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits = test::board_limits(1, 64);
  config.limits.device = OCELLUS_DEVICE_CUDA;
  std::vector<std::byte> memory(size_t{1} << 20);
  void* start = memory.data();
  size_t room = memory.size();
  const ocellus_extent extent{std::align(kRowAlignment, 1 << 19, start, room), 1 << 19};
  config.extents = &extent;
  config.extent_count = 1;
  std::unique_ptr<Engine> engine;
  CHECK(Engine::create(test::bundled_model(), config, &engine).code() == Code::kBadArgument);
  CHECK(std::string(last_failure().sentence).find("device memory") != std::string::npos);
}

#if OCELLUS_HAS_CUDA
TEST_CASE("an engine works in the caller's device memory and on the caller's stream") {
  if (!has_gpu()) return;
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits = test::board_limits(1, 64);
  config.limits.device = OCELLUS_DEVICE_CUDA;
  ocellus_plan plan;
  REQUIRE(plan_memory(test::bundled_model(), config.limits, &plan).ok());
  const int64_t bytes = plan.total_bytes - plan.staging_bytes;
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaMalloc(&memory, static_cast<size_t>(bytes)) == cudaSuccess);
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  const ocellus_extent extent{memory, bytes};
  config.extents = &extent;
  config.extent_count = 1;
  config.stream = stream;
  std::unique_ptr<Engine> engine;
  REQUIRE_MESSAGE(Engine::create(test::bundled_model(), config, &engine).ok(), last_failure().sentence);
  CHECK(engine->queue().cuda()->stream() == stream);
  Session& session = test::open_session(*engine);
  REQUIRE(test::add_turn(session, "<image>What is on the left?", {"images/115.png"}).ok());
  CHECK(test::answer_of(session).text == " A large cyan star.");
  engine.reset();
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
}
#endif

}  // namespace ocellus
