// Engines on GPUs with memory of their own, or with the host's: see ocellus_gpu_memory.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/plans.h"

namespace ocellus {
namespace {

ocellus_limits packing_limits() {
  ocellus_limits limits = test::board_limits(2, 256);
  limits.max_sessions = 2;
  std::snprintf(limits.cache.evict, sizeof limits.cache.evict, "snapkv");
  limits.cache.keep = 0.5f;
  limits.cache.kv_bits = 4;
  return limits;
}

/// The plan for a GPU, without needing one.
ocellus_plan plan_on_gpu(ocellus_gpu_memory memory, ocellus_limits limits) {
  limits.device = OCELLUS_DEVICE_CUDA;
  limits.gpu_memory = memory;
  return test::plan_of(limits);
}

/// Number of rows that exist on the host and on the device.
int twin_count(const ocellus_plan& plan) {
  int count = 0;
  for (int i = 0; i < plan.row_count; ++i)
    for (int k = 0; k < i; ++k) {
      const ocellus_plan_row &one = plan.rows[i], &other = plan.rows[k];
      const bool staged = std::strcmp(one.lifetime, "staging") == 0, also = std::strcmp(other.lifetime, "staging") == 0;
      count += std::strcmp(one.name, other.name) == 0 && staged != also ? 1 : 0;
    }
  return count;
}

std::vector<test::Answer> answers_of(Engine& engine) {
  const std::vector<Session*> sessions = {&test::open_session(engine), &test::open_session(engine)};
  for (Session* session : sessions)
    REQUIRE(test::add_turn(*session, "<image> What is this? <image>", {"images/115.png", "images/024.png"}).ok());
  std::vector<test::Answer> answers = test::batch_answers(sessions, test::default_params(40));
  REQUIRE(test::add_turn(*sessions[0], "Which is larger?", {}).ok());
  answers.push_back(test::answer_of(*sessions[0], test::default_params(40)));
  return answers;
}

}  // namespace

TEST_CASE("a GPU that shares the host's memory has no staged rows twice, and its weights may be mapped") {
  const ocellus_plan device = plan_on_gpu(OCELLUS_GPU_MEMORY_DEVICE, packing_limits()),
                     shared = plan_on_gpu(OCELLUS_GPU_MEMORY_SHARED, packing_limits()),
                     mapped = plan_on_gpu(OCELLUS_GPU_MEMORY_MAPPED, packing_limits());
  CHECK(twin_count(device) > 10);
  CHECK(twin_count(shared) == 0);
  CHECK(shared.staging_bytes == device.staging_bytes);
  CHECK(shared.weights_bytes == device.weights_bytes);
  CHECK(shared.total_bytes < device.total_bytes);
  CHECK(mapped.staging_bytes == device.staging_bytes + device.weights_bytes);
  CHECK(mapped.weights_bytes == 0);
  CHECK(mapped.total_bytes == shared.total_bytes);
  ocellus_limits limits = packing_limits();
  limits.gpu_memory = OCELLUS_GPU_MEMORY_MAPPED + 1;
  ocellus_plan plan;
  CHECK(plan_memory(test::bundled_model(), limits, &plan).code() == Code::kBadArgument);
}

TEST_CASE("a plan for a GPU needs none and no build with CUDA, and an engine does") {
  // Bytes on the device, the same in every build: those of the host depend on the libraries that decode pictures.
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  const auto device_bytes = [&](ocellus_gpu_memory memory) {
    const ocellus_plan plan = plan_on_gpu(memory, limits);
    return plan.total_bytes - plan.staging_bytes;
  };
  CHECK(device_bytes(OCELLUS_GPU_MEMORY_DEVICE) == 63'632'128);
  CHECK(device_bytes(OCELLUS_GPU_MEMORY_SHARED) == 63'605'504);
  CHECK(device_bytes(OCELLUS_GPU_MEMORY_MAPPED) == 26'393'856);
  limits.lean = 1;
  limits.max_sessions = 3;
  limits.draft_rows = 8;
  CHECK(device_bytes(OCELLUS_GPU_MEMORY_DEVICE) == 71'218'176);
  if (cuda_device_count() > 0) return;
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits = limits;
  config.limits.device = OCELLUS_DEVICE_CUDA;
  ocellus_plan plan;
  CHECK(plan_memory(test::bundled_model(), config.limits, &plan).code() == Code::kUnsupported);
  config.limits.gpu_memory = OCELLUS_GPU_MEMORY_DEVICE;
  std::unique_ptr<Engine> engine;
  CHECK(Engine::create(test::bundled_model(), config, &engine).code() == Code::kUnsupported);
  CHECK(std::string(last_failure().sentence).find("no CUDA") != std::string::npos);
}

TEST_CASE("a GPU gives the same answers with memory of its own, with shared memory and with mapped weights") {
  if (cuda_device_count() == 0) return;
  ocellus_limits limits = packing_limits();
  limits.device = OCELLUS_DEVICE_CUDA;
  std::vector<test::Answer> first;
  for (const auto memory : {OCELLUS_GPU_MEMORY_DEVICE, OCELLUS_GPU_MEMORY_SHARED, OCELLUS_GPU_MEMORY_MAPPED}) {
    CAPTURE(memory);
    limits.gpu_memory = memory;
    ocellus_plan plan;
    REQUIRE(plan_memory(test::bundled_model(), limits, &plan).ok());
    const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
    CHECK(engine->arena().capacity_bytes() == plan.total_bytes);
    CHECK(engine->arena().capacity_bytes(Place::kHost) == plan.staging_bytes);
    CHECK(engine->queue().traits().shares_memory == (memory != OCELLUS_GPU_MEMORY_DEVICE));
    const std::vector<test::Answer> answers = answers_of(*engine);
    if (first.empty()) first = answers;
    for (size_t i = 0; i < answers.size(); ++i) test::check_equal(answers[i], first[i]);
  }
}

}  // namespace ocellus
