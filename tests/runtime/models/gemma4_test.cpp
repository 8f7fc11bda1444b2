// Gemma 4: what is its own besides arithmetic, on the tiny random pair.
#include <doctest/doctest.h>

#include <cstring>

#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

/// The row of this name; null if the plan has none.
const ocellus_plan_row* find_row(const ocellus_plan& plan, const char* name) {
  for (int32_t i = 0; i < plan.row_count; ++i)
    if (std::strcmp(plan.rows[i].name, name) == 0) return &plan.rows[i];
  return nullptr;
}

}  // namespace

TEST_CASE("gemma4: the table of layer inputs is planned on the host of a GPU, and among the weights elsewhere") {
  const std::unique_ptr<Model> model = test::open_tiny_family("gemma4");
  const GgufFile& file = model->text_file();
  const GgufTensor* const table = file.find_tensor(kLayerInputTable);
  REQUIRE(table != nullptr);
  for (const ocellus_device device : {OCELLUS_DEVICE_CPU, OCELLUS_DEVICE_CUDA}) {
    if (device == OCELLUS_DEVICE_CUDA && cuda_device_count() == 0) continue;
    ocellus_limits limits = test::family_limits();
    limits.device = device;
    ocellus_plan plan;
    REQUIRE_MESSAGE(plan_memory(*model, limits, &plan).ok(), last_failure().sentence);
    EngineShape shape;
    REQUIRE(resolve_shape(*model, limits, &shape).ok());
    const ocellus_plan_row *const weights = find_row(plan, "text weights"),
                                  *apart = find_row(plan, "table of layer inputs");
    REQUIRE(weights != nullptr);
    const bool is_apart = shape.device.is_cuda() && !shape.device.shares_memory;
    REQUIRE((apart != nullptr) == is_apart);
    CHECK(weights->bytes <= aligned_bytes(file.data_bytes() - (is_apart ? table->bytes : 0)));
    if (!is_apart) continue;
    CHECK(apart->bytes >= table->bytes);
    CHECK(std::strcmp(apart->lifetime, "staging") == 0);
  }
}

}  // namespace ocellus
