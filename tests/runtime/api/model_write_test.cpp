// The C API hands out the files of made-up models.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "runtime/ocellus.h"
#include "tests/support/goldens.h"

namespace ocellus {

TEST_CASE("the files of a made-up model are handed out, and only those that it has") {
  struct Taken {
    int64_t bytes = 0, most = INT64_MAX;
  };
  const auto take = [](void* user, const void* bytes, int64_t count) {
    auto& taken = *static_cast<Taken*>(user);
    if (bytes == nullptr || taken.bytes + count > taken.most) return 1;
    taken.bytes += count;
    return 0;
  };
  ocellus_model* model = nullptr;
  REQUIRE(ocellus_model_open_shape("Qwen2.5-0.5B", "Q4_K", 1, &model) == OCELLUS_OK);
  ocellus_model_facts facts;
  REQUIRE(ocellus_model_get_facts(model, &facts) == OCELLUS_OK);
  CHECK(facts.layer_count == 1);
  Taken whole, part{.most = 5000000};
  CHECK(ocellus_model_write(model, OCELLUS_TEXT_FILE, OCELLUS_SHAPE_SEED, take, &whole) == OCELLUS_OK);
  CHECK(whole.bytes > facts.text_weight_bytes);
  CHECK(ocellus_model_write(model, OCELLUS_TEXT_FILE, 7, take, &part) == OCELLUS_CANCELLED);
  CHECK(part.bytes <= part.most);
  CHECK(ocellus_model_write(model, OCELLUS_MMPROJ_FILE, 7, take, &part) == OCELLUS_BAD_ARGUMENT);
  CHECK(std::string(ocellus_last_error()->sentence) == "the model has no file number 1");
  CHECK(ocellus_model_write(nullptr, OCELLUS_TEXT_FILE, 7, take, &part) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_write(model, OCELLUS_TEXT_FILE, 7, nullptr, &part) == OCELLUS_BAD_ARGUMENT);
  ocellus_model_close(model);

  const test::ModelPair pair = test::bundled_pair();
  REQUIRE(ocellus_model_open(pair.model.c_str(), nullptr, &model) == OCELLUS_OK);
  CHECK(ocellus_model_write(model, OCELLUS_TEXT_FILE, 7, take, &whole) == OCELLUS_BAD_ARGUMENT);
  CHECK(std::string(ocellus_last_error()->sentence) == "the model was opened from files: copy them instead");
  ocellus_model_close(model);
}

TEST_CASE("every known model opens as a shape" * doctest::test_suite("long")) {
  ocellus_known_model known;
  int32_t count = 0;
  for (; ocellus_known_model_get(count, &known) == OCELLUS_OK; ++count) {
    CAPTURE(known.name);
    ocellus_model* model = nullptr;
    REQUIRE(ocellus_model_open_shape(known.name, "Q8_0", 3, &model) == OCELLUS_OK);
    ocellus_model_facts facts;
    REQUIRE(ocellus_model_get_facts(model, &facts) == OCELLUS_OK);
    CHECK((known.family[0] != '\0') == (facts.has_vision != 0));
    CHECK(std::string(known.published).find('/') != std::string::npos);
    ocellus_model_close(model);
  }
  CHECK(count > 10);
  CHECK(ocellus_known_model_get(count, &known) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_known_model_get(-1, &known) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_known_model_get(0, nullptr) == OCELLUS_BAD_ARGUMENT);
}

}  // namespace ocellus
