// Parts of which recordings of towers with views of any size consist.
#include <doctest/doctest.h>

#include "mm/tower/tower_pass.h"
#include "tests/support/family_goldens.h"
#include "tests/support/pairs.h"
#include "tests/support/tiled_pictures.h"

namespace ocellus {

TEST_CASE("A pass is recorded in parts, from one step that depends on places to the next") {
  for (const char* name : {"qwen2-vl", "qwen3-vl", "cosmos3-edge", "gemma4", "ministral3", "lightonocr", "paddleocr"}) {
    CAPTURE(name);
    Model model;
    const test::ModelPair pair = test::family_pair(name);
    REQUIRE_MESSAGE(model.open(pair.model.c_str(), pair.mmproj.c_str()).ok(), last_failure().sentence);
    const auto engine = test::make_engine(model, test::picture_limits(1, 60));
    const ArenaScope scope(engine->arena());
    VisionScratch scratch;
    REQUIRE(engine->take_scratch(&scratch).ok());
    if (scratch.projected.data == nullptr) scratch.projected = engine->memory().chunk.inputs;  // there is none on a CPU
    const ViewBatch no_places;
    RecordedParts none;
    PassParts parts(none, 0, scratch.hidden.rows, PassParts::Mode::kTry);
    TowerPass pass({.model = engine->vision(), .batch = no_places, .scratch = scratch}, engine->queue(), &parts);
    pass.config().tower->encode(pass);
    // The embedding of each frame, what comes before a layer's attention and after it, and the projector. Those of
    // inner rows part what comes after a layer from what comes before the next.
    const VisionConfig& c = pass.config();
    int32_t expected = c.frame_kernels + c.layer_count + 1 + 1;
    for (int32_t i = 0; i < c.deepstack_count; ++i) expected += c.deepstack_layers[i] + 1 < c.layer_count ? 2 : 1;
    CHECK(parts.finish(engine->queue()) == expected);
    CHECK_MESSAGE(engine->queue().finish().ok(), last_failure().sentence);
  }
}

}  // namespace ocellus
