// Engines on GPUs with memory of their own, or with the host's: see ocellus_gpu_memory.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/engine/memory_plan.h"
#include "tests/support/loaded_engine.h"

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

/// Records the plan for a GPU, without needing one.
PlanRecorder record_on_gpu(bool shares_memory, bool maps_weights) {
  EngineShape shape;
  REQUIRE_MESSAGE(resolve_shape(test::bundled_model(), packing_limits(), &shape).ok(), last_failure().sentence);
  shape.device.kind = DeviceKind::kCuda;
  shape.device.shares_memory = shares_memory;
  shape.device.maps_weights = maps_weights;
  PlanRecorder recorder(shape.device);
  EngineMemory memory;
  REQUIRE(memory.lay_out(test::bundled_model(), shape, recorder).ok());
  REQUIRE(PhaseScratch(test::bundled_model(), shape, memory, recorder).take_all().ok());
  return recorder;
}

/// Number of rows that exist on the host and on the device.
int twin_count(const PlanRecorder& plan) {
  int count = 0;
  for (int i = 0; i < plan.row_count(); ++i)
    for (int k = 0; k < i; ++k)
      count += std::strcmp(plan.row(i).name, plan.row(k).name) == 0 && plan.row(i).place != plan.row(k).place ? 1 : 0;
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
  const PlanRecorder device = record_on_gpu(false, false), shared = record_on_gpu(true, false),
                     mapped = record_on_gpu(true, true);
  CHECK(twin_count(device) > 10);
  CHECK(twin_count(shared) == 0);
  const int64_t weights = device.lifetime_bytes(Lifetime::kWeights), staged = device.lifetime_bytes(Lifetime::kStaging);
  CHECK(shared.lifetime_bytes(Lifetime::kStaging) == staged);
  CHECK(shared.lifetime_bytes(Lifetime::kWeights) == weights);
  CHECK(shared.total_bytes() < device.total_bytes());
  CHECK(mapped.lifetime_bytes(Lifetime::kStaging) == staged + weights);
  CHECK(mapped.lifetime_bytes(Lifetime::kWeights) == 0);
  CHECK(mapped.total_bytes() == shared.total_bytes());
  ocellus_limits limits = packing_limits();
  limits.gpu_memory = OCELLUS_GPU_MEMORY_MAPPED + 1;
  ocellus_plan plan;
  CHECK(plan_memory(test::bundled_model(), limits, &plan).code() == Code::kBadArgument);
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
