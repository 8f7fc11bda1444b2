#include "tests/apps/setup/engine_rows.h"

#include "runtime/api/handles.h"
#include "runtime/branches/reduce/reduction_rule.h"
#include "runtime/engine/engine_shape.h"
#include "runtime/engine/picture_source.h"
#include "runtime/session/picture_rows.h"

namespace ocellus::test {

EngineRows::EngineRows() : shape_(std::make_unique<EngineShape>()) {}
EngineRows::~EngineRows() = default;
EngineRows::EngineRows(EngineRows&&) noexcept = default;
EngineRows& EngineRows::operator=(EngineRows&&) noexcept = default;

ocellus_status EngineRows::plan(const ocellus_model* model, const ocellus_limits& limits) {
  return result(resolve_shape(model->model, limits, shape_.get()));
}

int64_t EngineRows::of(int32_t width, int32_t height) const {
  ViewPlan plan;
  const Status status = plan_picture(shape_->pictures, {.width = width, .height = height}, &plan);
  return status.ok() ? plan.row_count() : -1;
}

int64_t EngineRows::planned() const { return shape_->pictures.rows; }

int64_t EngineRows::kept_of(int64_t rows) const {
  Reduction reduction;
  return plan_reduction(shape_->limits, &reduction).ok() ? reduction.kept_of(rows) : -1;
}

}  // namespace ocellus::test
