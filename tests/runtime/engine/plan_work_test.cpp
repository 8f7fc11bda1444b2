// The work of a plan, counted by hand.
#include "runtime/engine/plan_work.h"

#include <doctest/doctest.h>

namespace ocellus {
namespace {

ocellus_work work_of(const Model& model, int32_t images, int32_t text_tokens) {
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  limits.device = OCELLUS_DEVICE_CPU;
  limits.max_images = images;
  limits.max_text_tokens = text_tokens;
  ocellus_work work = {};
  REQUIRE(plan_work(model, limits, &work).ok());
  return work;
}

TEST_CASE("operations are those of SmolVLM-256M's matrices and its attention") {
  Model model;
  REQUIRE(model.open_shape("SmolVLM-256M", "F16").ok());
  // 30 layers of 9 query and 3 key heads of 64; the last layer counts for nothing.
  const int64_t layer = 2 * (2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536);
  const auto prompt = [&](int64_t rows) { return 29 * (layer * rows + 4 * 576 * (rows * (rows + 1) / 2)); };
  CHECK(work_of(model, 0, 100).prompt_operations == prompt(100));
  CHECK(work_of(model, 0, 100).encode_operations == 0);
  // 17 views of 1024 patches, which become 64 rows of 16 patches each.
  const int64_t tower = 12 * (2 * (4 * 768 * 768 + 2 * 768 * 3072) * int64_t{1024} + 4 * 768 * int64_t{1024} * 1024);
  const int64_t view = tower + 2 * 768 * int64_t{768} * 1024 + 2 * 16 * 768 * 576 * int64_t{64};
  CHECK(work_of(model, 2, 100).encode_operations == 17 * view);
  CHECK(work_of(model, 2, 100).prompt_operations == prompt(100 + 2 * 17 * 64));
}

TEST_CASE("rows outside a window are not counted") {
  Model model;
  REQUIRE(model.open_shape("Gemma3-4B", "F16").ok());
  const auto each = [&](int32_t rows) { return work_of(model, 0, rows).prompt_operations / rows; };
  // Beyond the window of 1,024 rows the attention of five in six layers no longer grows.
  CHECK(each(1024) - each(512) > 2 * (each(2048) - each(1536)));
}

TEST_CASE("a step reads the bytes of its tensors") {
  for (const char* name : {"SmolVLM-256M", "InternVL2.5-8B"}) {
    Model model;
    REQUIRE(model.open_shape(name, "Q8_0").ok());
    const GgufFile& file = model.text_file();
    const bool is_tied = file.find_tensor("output.weight") == nullptr;
    int64_t bytes = 0;
    for (const GgufTensor& tensor : file.tensors())
      if (is_tied || tensor.name != "token_embd.weight") bytes += tensor.bytes;
    ocellus_model_facts facts;
    model.describe(&facts);
    CHECK(facts.step_weight_bytes >= bytes);
    CHECK(facts.step_weight_bytes < bytes + 32 * file.tensors().size());  // each begins at a multiple of 32 bytes
  }
}

}  // namespace
}  // namespace ocellus
