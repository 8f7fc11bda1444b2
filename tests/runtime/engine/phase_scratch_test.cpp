// Scratch by phase: what the planner counts is what a phase takes.

#include <doctest/doctest.h>

#include <cstring>

#include "tests/support/loaded_engine.h"
#include "tests/support/plans.h"

namespace ocellus {
namespace {

/// Number of rows that one phase takes; each is in the plan, with the same bytes.
template <class Scratch>
int count_planned(const Model& model, const EngineShape& shape, const EngineMemory& memory, const PlanRecorder& plan) {
  PlanRecorder taken(shape.device);
  Scratch scratch;
  REQUIRE_MESSAGE(PhaseScratch(model, shape, memory, taken).take(&scratch).ok(), last_failure().sentence);
  for (int i = 0; i < taken.row_count(); ++i) {
    const RowSpec& row = taken.row(i);
    CAPTURE(row.name);
    int found = 0;
    for (int j = 0; j < plan.row_count(); ++j) {
      const RowSpec& planned = plan.row(j);
      found += std::strcmp(planned.name, row.name) == 0 && planned.phase == row.phase && planned.place == row.place &&
               planned.bytes == row.bytes;
    }
    CHECK(found == 1);
  }
  return taken.row_count();
}

void check_phases(const Model& model, DeviceKind device) {
  EngineShape shape;
  REQUIRE_MESSAGE(resolve_shape(model, test::board_limits(2, 64), &shape).ok(), last_failure().sentence);
  shape.device.kind = device;
  PlanRecorder lasting(shape.device), plan(shape.device);
  EngineMemory memory;
  REQUIRE_MESSAGE(memory.lay_out(model, shape, lasting).ok(), last_failure().sentence);
  REQUIRE_MESSAGE(PhaseScratch(model, shape, memory, plan).take_all().ok(), last_failure().sentence);
  const int tower = count_planned<VisionScratch>(model, shape, memory, plan);
  const int picture = count_planned<ImageScratch>(model, shape, memory, plan);
  const int others = count_planned<TextScratch>(model, shape, memory, plan) +
                     count_planned<PrefillScratch>(model, shape, memory, plan) +
                     count_planned<StepScratch>(model, shape, memory, plan);
  // The tower of pictures with several views is laid out beside them.
  CHECK(plan.row_count() == others + picture + (shape.pictures.views > 1 ? 0 : tower));
}

}  // namespace

TEST_CASE("every phase takes the rows that the plan counts for it, and no row is counted for no phase") {
  Model tiled, any_size;
  REQUIRE_MESSAGE(tiled.open_shape("SmolVLM-256M", "Q8_0").ok(), last_failure().sentence);
  REQUIRE_MESSAGE(any_size.open_shape("Qwen3-VL-2B", "Q8_0").ok(), last_failure().sentence);
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    CAPTURE(static_cast<int>(device));
    check_phases(test::bundled_model(), device);
    check_phases(tiled, device);
    check_phases(any_size, device);
  }
}

}  // namespace ocellus
