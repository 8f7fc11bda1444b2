// The progress of loading, told to a function of the caller's, which may end it.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/failure.h"
#include "tests/support/goldens.h"
#include "tests/support/loaded_engine.h"
#include "tests/support/split_model.h"

namespace ocellus {
namespace {

/// What a caller was told, and when it ends the loading.
struct Told {
  int64_t enough = INT64_MAX;  // bytes
  std::vector<int64_t> done = {};
  int64_t total = 0;
};

int tell(void* user, int64_t done_bytes, int64_t total_bytes) {
  Told& told = *static_cast<Told*>(user);
  told.done.push_back(done_bytes);
  told.total = total_bytes;
  return done_bytes < told.enough ? 0 : 1;
}

struct OpenModel {
  explicit OpenModel(const test::ModelPair& pair) {
    const char* const mmproj = pair.mmproj.empty() ? nullptr : pair.mmproj.c_str();
    REQUIRE(ocellus_model_open(pair.model.c_str(), mmproj, &handle) == OCELLUS_OK);
  }
  OpenModel(const char* shape, const char* format) {
    REQUIRE(ocellus_model_open_shape(shape, format, 1, &handle) == OCELLUS_OK);
  }
  ~OpenModel() { ocellus_model_close(handle); }
  OpenModel(const OpenModel&) = delete;
  OpenModel& operator=(const OpenModel&) = delete;

  ocellus_model_facts facts() const {
    ocellus_model_facts facts;
    REQUIRE(ocellus_model_get_facts(handle, &facts) == OCELLUS_OK);
    return facts;
  }
  /// Creates an engine and ends it.
  ocellus_status load(int32_t images, Told* told) const {
    ocellus_engine_config config;
    ocellus_engine_config_init(&config);
    config.limits = test::board_limits(images, 64);
    config.progress = tell;
    config.progress_user = told;
    ocellus_engine* engine = nullptr;
    const ocellus_status status = ocellus_engine_create(handle, &config, &engine);
    CHECK((engine != nullptr) == (status == OCELLUS_OK));
    ocellus_engine_destroy(engine);
    return status;
  }

  ocellus_model* handle = nullptr;
};

/// Steps of at most `most` bytes from 0 to the total.
void check_steps(const Told& told, int64_t total, int64_t most) {
  REQUIRE(told.done.size() >= 2);
  CHECK(told.total == total);
  CHECK(told.done.front() == 0);
  CHECK(told.done.back() == total);
  for (size_t i = 1; i < told.done.size(); ++i) {
    CHECK(told.done[i] > told.done[i - 1]);
    CHECK(told.done[i] - told.done[i - 1] <= most);
  }
}

constexpr int64_t kStep = int64_t{8} << 20;

}  // namespace

TEST_CASE("a caller is told every 8 MiB how much of the weights is loaded, with pictures of both files") {
  const OpenModel model(test::bundled_pair());
  const ocellus_model_facts facts = model.facts();
  for (const int32_t images : {1, 0}) {
    CAPTURE(images);
    Told told;
    REQUIRE(model.load(images, &told) == OCELLUS_OK);
    check_steps(told, facts.text_weight_bytes + (images > 0 ? facts.vision_weight_bytes : 0), kStep);
    CHECK(static_cast<int64_t>(told.done.size()) <= told.total / kStep + 6);  // and the ends of files and stretches
  }
}

TEST_CASE("a caller is told of the weights of all files of a split model, and of random weights") {
  GgufFile file;
  REQUIRE(file.open(test::bundled_pair().model.c_str()).ok());
  const test::GgufBuilder whole(file);
  const test::SplitModel files(test::split_parts(whole, {0, 20, whole.tensors.size() - 20}));
  Told split;
  REQUIRE(OpenModel({files.path(), ""}).load(0, &split) == OCELLUS_OK);
  check_steps(split, file.data_bytes(), kStep);

  const OpenModel shape("SmolVLM-256M", "Q4_0");
  Told random;
  REQUIRE(shape.load(0, &random) == OCELLUS_OK);
  check_steps(random, shape.facts().text_weight_bytes, random.total);
  CHECK(random.done.size() > 9);  // tensors
}

TEST_CASE("a caller ends the loading, and the model loads when it is asked again") {
  const OpenModel model(test::bundled_pair());
  Told all;
  REQUIRE(model.load(1, &all) == OCELLUS_OK);
  for (const int64_t enough : {int64_t{0}, all.total / 2, all.total}) {
    CAPTURE(enough);
    Told told{.enough = enough};
    CHECK(model.load(1, &told) == OCELLUS_CANCELLED);
    CHECK(test::last_error_says(OCELLUS_CANCELLED, "ended the loading"));
    REQUIRE(!told.done.empty());
    CHECK(told.done.back() >= enough);
    CHECK(told.done.back() <= enough + kStep);
    CHECK((told.done.size() == 1 || told.done[told.done.size() - 2] < enough));  // it was not called again
  }
  Told again;
  CHECK(model.load(1, &again) == OCELLUS_OK);
  CHECK(again.done == all.done);
}

}  // namespace ocellus
