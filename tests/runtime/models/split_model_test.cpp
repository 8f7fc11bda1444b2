// Pairs split into several files: the engine of the whole pair, byte for byte, and errors that name a file.
#include "tests/support/split_model.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/branches/library/library_session.h"
#include "runtime/engine/memory_plan.h"
#include "runtime/models/model.h"
#include "tests/support/loaded_engine.h"

namespace ocellus {
namespace {

/// Splits the file into parts of `per_part` tensors after a first part without any, as gguf-split does on request.
std::vector<test::GgufBuilder> cut(const std::string& path, size_t per_part) {
  GgufFile file;
  REQUIRE(file.open(path.c_str()).ok());
  const test::GgufBuilder whole(file);
  std::vector<size_t> counts = {0};
  for (size_t left = whole.tensors.size(); left > 0; left -= counts.back()) counts.push_back(std::min(left, per_part));
  return test::split_parts(whole, counts);
}

/// The bundled pair in 9 and 11 files.
struct SplitPair {
  test::SplitModel text{cut(test::bundled_pair().model, 10)};
  test::SplitModel vision{cut(test::bundled_pair().mmproj, 10)};
};

void check_equal_bytes(DeviceView<const std::byte> a, DeviceView<const std::byte> b, int64_t bytes, Queue& queue) {
  CHECK(test::download<uint8_t>(a.data, bytes, queue) == test::download<uint8_t>(b.data, bytes, queue));
}

}  // namespace

TEST_CASE("A split pair has the plan, the weights and the answers of the whole one") {
  const SplitPair files;
  Model split;
  REQUIRE_MESSAGE(split.open(files.text.path().c_str(), files.vision.path().c_str()).ok(), last_failure().sentence);
  const Model& whole = test::bundled_model();
  ocellus_model_facts facts, expected;
  split.describe(&facts);
  whole.describe(&expected);
  CHECK(std::memcmp(&facts, &expected, sizeof facts) == 0);

  const ocellus_limits limits = test::board_limits(1, 160);
  ocellus_plan plan, whole_plan;
  REQUIRE(plan_memory(split, limits, &plan).ok());
  REQUIRE(plan_memory(whole, limits, &whole_plan).ok());
  CHECK(plan.total_bytes == whole_plan.total_bytes);
  CHECK(plan.weights_bytes == whole_plan.weights_bytes);

  const std::unique_ptr<Engine> engine = test::make_engine(split, limits), other = test::make_bundled_engine(limits);
  CHECK(engine->arena().capacity_bytes() == plan.total_bytes);
  check_equal_bytes(engine->memory().weights.text, other->memory().weights.text, whole.text_file().data_bytes(),
                    engine->queue());
  check_equal_bytes(engine->memory().weights.vision, other->memory().weights.vision, whole.vision_file().data_bytes(),
                    engine->queue());
  Session &session = test::open_session(*engine), &whole_session = test::open_session(*other);
  for (Session* each : {&session, &whole_session})
    REQUIRE(test::add_turn(*each, "<image>Describe the image.", {"images/113.png"}).ok());
  test::check_equal(test::answer_of(session), test::answer_of(whole_session));
}

TEST_CASE("The fingerprint of a split model depends on every part") {
  const auto fingerprint = [](const test::SplitModel& text) {
    Model model;
    REQUIRE_MESSAGE(model.open(text.path().c_str(), nullptr).ok(), last_failure().sentence);
    const std::unique_ptr<Engine> engine = test::make_engine(model, test::board_limits(0, 16));
    REQUIRE_MESSAGE(fingerprint_model(*engine).ok(), last_failure().sentence);
    return engine->model_fingerprint();
  };
  std::vector<test::GgufBuilder> parts = cut(test::bundled_pair().model, 40);
  const Hash128 before = fingerprint(test::SplitModel(parts));
  CHECK(fingerprint(test::SplitModel(parts)) == before);
  for (size_t i = 1; i < parts.size(); ++i) {
    CAPTURE(i);
    parts[i].tensors.back().data.back() ^= 1;
    CHECK(fingerprint(test::SplitModel(parts)) != before);
    parts[i].tensors.back().data.back() ^= 1;
  }
}

TEST_CASE("A vision file whose part is missing, or is changed before the engine reads it, is named") {
  const SplitPair files;
  Model model;
  REQUIRE(model.open(files.text.path().c_str(), files.vision.path().c_str()).ok());
  std::filesystem::resize_file(files.vision.path(2), 4096);
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits = test::board_limits(1, 160);
  std::unique_ptr<Engine> engine;
  CHECK(Engine::create(model, config, &engine).code() == Code::kBadFile);
  CHECK_MESSAGE(std::string(last_failure().sentence).find(files.vision.path(2) + ": the file changed") == 0,
                last_failure().sentence);
  std::filesystem::remove(files.vision.path(3));
  std::filesystem::remove(files.vision.path(2));
  CHECK(model.open(files.text.path().c_str(), files.vision.path().c_str()).code() == Code::kBadFile);
  CHECK_MESSAGE(std::string(last_failure().sentence).find(files.vision.name(2)) != std::string::npos,
                last_failure().sentence);
}

}  // namespace ocellus
