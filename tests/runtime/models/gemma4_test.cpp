// Gemma 4: what is its own besides arithmetic, on the tiny random pair.
#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/models/clip.h"
#include "runtime/models/family.h"
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
    ocellus_limits limits = test::family_limits();
    limits.device = device;
    limits.gpu_memory = OCELLUS_GPU_MEMORY_DEVICE;  // needs no GPU
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

TEST_CASE("gemma4: frames of a video are those that transformers takes, with their times") {
  const std::unique_ptr<Model> model = test::open_tiny_family("gemma4");
  const auto sample = [&](int32_t frames, int32_t most) {
    std::vector<int32_t> indices(static_cast<size_t>(most));
    int32_t count = 0;
    REQUIRE(sample_clip(*model, OCELLUS_CLIP_AS_AUTHORS, frames, 10, most, indices.data(), &count).ok());
    indices.resize(static_cast<size_t>(count));
    return indices;
  };
  using Indices = std::vector<int32_t>;
  // As np.arange(most) * frames // most has them.
  CHECK(sample(300, 4) == Indices{0, 75, 150, 225});
  CHECK(sample(7, 5) == Indices{0, 1, 2, 4, 5});
  CHECK(sample(3, 32) == Indices{0, 1, 2});
  const Indices many = sample(1000, 64), more = sample(3001, 16);
  CHECK(many.size() == 32);
  CHECK(std::accumulate(many.begin(), many.end(), 0) == 15488);
  CHECK(std::accumulate(more.begin(), more.end(), 0) == 22500);

  const double seconds[] = {0.9, 61, 86399};
  const auto before = [&](int32_t frame) {
    ClipText text;
    family_of(model->vision())->clips.write_before({3, seconds, 0}, frame, &text);
    return std::string(text.text);
  };
  CHECK(before(0) == "00:00 ");
  CHECK(before(1) == " 01:01 ");
  CHECK(before(2) == " 1439:59 ");
}

}  // namespace ocellus
