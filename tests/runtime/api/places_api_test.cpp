// The C API's facts about boxes and points in answers.
#include <doctest/doctest.h>

#include <memory>

#include "runtime/models/family.h"
#include "runtime/ocellus.h"
#include "tests/support/goldens.h"

namespace ocellus {
namespace {

struct Closer {
  void operator()(ocellus_model* model) const { ocellus_model_close(model); }
  void operator()(ocellus_engine* engine) const { ocellus_engine_destroy(engine); }
};
using ModelHandle = std::unique_ptr<ocellus_model, Closer>;
using EngineHandle = std::unique_ptr<ocellus_engine, Closer>;

EngineHandle make_engine(const ModelHandle& model, int32_t images) {
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits.max_images = images;
  config.limits.max_image_pixels = 65536;
  ocellus_engine* engine = nullptr;
  REQUIRE(ocellus_engine_create(model.get(), &config, &engine) == OCELLUS_OK);
  return EngineHandle(engine);
}

TEST_CASE("a model, its family and its shape name the same units of places" * doctest::test_suite("long")) {
  ocellus_known_model known;
  int32_t count = 0;
  for (; ocellus_known_model_get(count, &known) == OCELLUS_OK; ++count) {
    CHECK(known.place_units == static_cast<int32_t>(find_family(known.family).places));
    ocellus_model* model = nullptr;
    REQUIRE(ocellus_model_open_shape(known.name, "Q8_0", 3, &model) == OCELLUS_OK);
    ocellus_model_facts facts;
    CHECK(ocellus_model_get_facts(model, &facts) == OCELLUS_OK);
    CHECK(facts.place_units == known.place_units);
    ocellus_model_close(model);
  }
  CHECK(count > 0);
}

TEST_CASE("an engine tells the size to which it resizes a whole picture") {
  const test::ModelPair pair = test::bundled_pair();
  ocellus_model* opened = nullptr;
  REQUIRE(ocellus_model_open(pair.model.c_str(), pair.mmproj.c_str(), &opened) == OCELLUS_OK);
  const ModelHandle model(opened);
  ocellus_model_facts facts;
  REQUIRE(ocellus_model_get_facts(opened, &facts) == OCELLUS_OK);
  CHECK(facts.place_units == OCELLUS_PLACES_NONE);
  const EngineHandle engine = make_engine(model, 1);
  int32_t width = 0, height = 0;
  CHECK(ocellus_engine_resized_size(engine.get(), 300, 200, &width, &height) == OCELLUS_OK);
  CHECK(width == facts.image_size);
  CHECK(height == facts.image_size);
  CHECK(ocellus_engine_resized_size(engine.get(), 0, 200, &width, &height) == OCELLUS_BAD_IMAGE);
  CHECK(ocellus_engine_resized_size(engine.get(), 300, -1, &width, &height) == OCELLUS_BAD_IMAGE);
  CHECK(ocellus_engine_resized_size(engine.get(), 3000, 2000, &width, &height) == OCELLUS_BAD_IMAGE);
  CHECK(ocellus_engine_resized_size(nullptr, 1, 1, &width, &height) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_engine_resized_size(engine.get(), 1, 1, nullptr, &height) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_engine_resized_size(engine.get(), 1, 1, &width, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_engine_resized_size(make_engine(model, 0).get(), 1, 1, &width, &height) == OCELLUS_BAD_ARGUMENT);
}

}  // namespace
}  // namespace ocellus
