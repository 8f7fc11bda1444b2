// Ministral 3, Pixtral and LightOnOCR: what is their own besides arithmetic.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "mm/views/view_plan.h"
#include "runtime/models/family.h"
#include "tests/support/random_model.h"
#include "tests/support/small_pair.h"
#include "tests/support/text_sink.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::GgufBuilder;

/// Rows of a picture, with the token at its end if it has one, as the published processor counts them.
int64_t counted_rows(const char* shape, Size size, int32_t most_rows) {
  Model model;
  REQUIRE_MESSAGE(model.open_shape(shape, "F16", 1).ok(), last_failure().sentence);
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  limits.max_image_rows = most_rows;
  ViewPlan plan;
  REQUIRE(plan_views(preprocess_config(model.vision(), limits), size.width, size.height, &plan).ok());
  CHECK(plan.position_count() == plan.row_count());
  if (!plan.rules->has_lines) return plan.row_count();
  const RowPlace place = plan.row_place(0);
  CHECK(place.lines * (place.cols + 1) == plan.row_count() + 1);
  return plan.row_count() + 1;
}

GgufBuilder builder_of(const std::string& path) {
  GgufFile file;
  REQUIRE(file.open(path.c_str()).ok());
  return GgufBuilder(file);
}

void check_refused(const GgufBuilder* text, const GgufBuilder* projector, Code code, const std::string& says,
                   const char* family = "ministral3") {
  CAPTURE(says);
  const test::ModelPair pair = test::family_pair(family);
  const test::TemporaryFile changed(text != nullptr ? *text : *projector);
  Model model;
  const Status status = text != nullptr ? model.open(changed.path().c_str(), pair.mmproj.c_str())
                                        : model.open(pair.model.c_str(), changed.path().c_str());
  CHECK(status.code() == code);
  const std::string sentence = last_failure().sentence;
  CAPTURE(sentence);
  CHECK(sentence.find(says) != std::string::npos);
}

/// The number of a head's first pair that is slowed, and of the first that is slowed in full.
std::pair<int32_t, int32_t> slowed_pairs(float base) {
  const YarnScaling yarn{.length = 16384, .factor = 16.0f};
  const RopeParams rope{.rotated = 128, .base = base};
  int32_t first = 0, full = 0;
  while (yarn.factor_of(rope, first) == 1.0f) ++first;
  while (yarn.factor_of(rope, full) < 16.0f) ++full;
  return {first, full};
}

}  // namespace

TEST_CASE("pictures have the rows of the published processor, whatever their size") {
  struct Rows {
    Size size;
    int64_t whole, within_1280, pixtral, page;  // no bound; 1,280 rows; Pixtral 12B and LightOnOCR without a bound
  };
  for (const Rows& rows : {Rows{{336, 336}, 156, 156, 462, 144},
                           {{448, 448}, 272, 272, 812, 256},
                           {{640, 480}, 432, 432, 1230, 414},
                           {{1280, 720}, 1222, 1222, 2340, 1196},
                           {{1920, 1080}, 1736, 1222, 2340, 1705},
                           {{1080, 1920}, 1760, 1242, 2368, 1705},
                           {{300, 200}, 96, 96, 260, 88},
                           {{100, 40}, 10, 10, 24, 8},
                           {{900, 900}, 1122, 1122, 3306, 1089},
                           {{2000, 2000}, 3080, 1260, 4160, 3025},
                           {{1, 1}, 2, 2, 2, 1}}) {  // transformers 5.24.0 fails on a picture of one row
    CAPTURE(rows.size.width);
    CAPTURE(rows.size.height);
    CHECK(counted_rows("Ministral3-3B", rows.size, 100000) == rows.whole);
    CHECK(counted_rows("Ministral3-3B", rows.size, 0) == rows.within_1280);
    CHECK(counted_rows("Pixtral-12B", rows.size, 100000) == rows.pixtral);
    CHECK(counted_rows("LightOnOCR-2-1B", rows.size, 0) == rows.page);
  }
}

TEST_CASE("YaRN slows pairs that turn seldom, and leaves those that turn often") {
  CHECK(slowed_pairs(1e6f) == std::pair(21, 37));
  CHECK(slowed_pairs(1e9f) == std::pair(14, 25));
  const RopeParams rope{.rotated = 128, .base = 1e6f};
  const YarnScaling yarn{.length = 16384, .factor = 16.0f};
  CHECK(static_cast<double>(yarn.factor_of(rope, 28)) == doctest::Approx(1 / (1 - 8 / 17.0 * 15 / 16)));
}

TEST_CASE("the factors of YaRN are planned among the weights") {
  const std::unique_ptr<Model> model = test::open_tiny_family("ministral3");
  const auto engine = test::make_engine(*model, test::family_limits());
  const TextConfig& text = engine->text().config;
  REQUIRE(text.rope.factors != nullptr);
  CHECK(text.temperature.scale == 1.0f);
  const std::vector<float> factors = test::download({text.rope.factors, 1, text.rope.rotated / 2}, engine->queue());
  for (int32_t pair = 0; pair < text.rope.rotated / 2; ++pair)
    CHECK(factors[static_cast<size_t>(pair)] == text.yarn.factor_of(text.rope, pair));
  CHECK(factors.front() == 1.0f);
  CHECK(factors.back() == 4.0f);
}

TEST_CASE("a magnitude of YaRN other than 1 is in the scale of queries") {
  GgufBuilder file = builder_of(test::family_pair("ministral3").model);
  file.remove("mistral3.rope.scaling.yarn_log_multiplier");
  const test::TemporaryFile changed(file);
  Model model;
  REQUIRE_MESSAGE(model.open(changed.path().c_str(), nullptr).ok(), last_failure().sentence);
  const double magnitude = 1 + 0.1 * std::log(4.0);
  CHECK(static_cast<double>(model.text().temperature.scale) == doctest::Approx(magnitude * magnitude));
}

TEST_CASE("files that lie are refused with the key or tensor at fault") {
  const test::ModelPair pair = test::family_pair("ministral3");
  SUBCASE("scaling") {
    for (const auto& [key, value] : {std::pair{"factor", 0.0f},
                                     {"factor", 0.5f},
                                     {"yarn_beta_fast", 0.1f},
                                     {"yarn_beta_slow", 0.0f},
                                     {"yarn_log_multiplier", -1.0f}}) {
      GgufBuilder file = builder_of(pair.model);
      const std::string name = std::string("mistral3.rope.scaling.") + key;
      test::without(file, name).add_f32(name, value);
      check_refused(&file, nullptr, Code::kBadFile, "are no scaling by YaRN");
    }
    GgufBuilder file = builder_of(pair.model);
    file.remove("mistral3.rope.scaling.original_context_length");
    check_refused(&file, nullptr, Code::kBadFile, "mistral3.rope.scaling.original_context_length");
  }
  SUBCASE("a temperature without a length, or below 0") {
    GgufBuilder file = builder_of(pair.model);
    file.remove("mistral3.rope.scaling.type");
    file.remove("mistral3.rope.scaling.factor");
    check_refused(&file, nullptr, Code::kBadFile, "mistral3.attention.temperature_scale is 0.1, which needs");
    GgufBuilder cold = builder_of(pair.model);
    test::without(cold, "mistral3.attention.temperature_scale").add_f32("mistral3.attention.temperature_scale", -1);
    check_refused(&cold, nullptr, Code::kBadFile, "mistral3.attention.temperature_scale is -1");
  }
  SUBCASE("a table of factors of another length, or beside the keys") {
    GgufBuilder file = builder_of(pair.model);
    file.add_tensor("rope_freqs.weight", WeightFormat::kF32, {16});
    check_refused(&file, nullptr, Code::kUnsupported, "'rope_freqs.weight' beside the keys of YaRN");
    test::without(file, "mistral3.rope.scaling.type").remove("mistral3.attention.temperature_scale");
    file.tensor("rope_freqs.weight").ne[0] = 15;
    check_refused(&file, nullptr, Code::kBadFile, "'rope_freqs.weight'");
  }
  SUBCASE("patches that are joined and a merger, one without the other") {
    GgufBuilder file = builder_of(pair.mmproj);
    file.remove("clip.vision.spatial_merge_size");
    check_refused(nullptr, &file, Code::kBadFile, "but tensor 'mm.patch_merger.weight' joins patches");
    GgufBuilder bare = builder_of(pair.mmproj);
    bare.remove_tensor("mm.patch_merger.weight");
    check_refused(nullptr, &bare, Code::kBadFile, "tensor 'mm.patch_merger.weight' is missing");
  }
  SUBCASE("another activation, no row at the end of lines") {
    GgufBuilder file = builder_of(pair.mmproj);
    file.remove("clip.use_silu");
    check_refused(nullptr, &file, Code::kUnsupported, "clip.use_silu is not set");
    GgufBuilder bare = builder_of(pair.mmproj);
    bare.remove_tensor("v.token_embd.img_break");
    check_refused(nullptr, &bare, Code::kBadFile, "tensor 'v.token_embd.img_break' is missing");
  }
}

TEST_CASE("LightOnOCR's prompts begin with an empty system message, and nothing stands around its pages") {
  test::TextSink sink;
  MessageState state;
  const std::unique_ptr<Model> model = test::open_tiny_family("lightonocr");
  MessageWriter writer(model->layout(), state, sink);
  REQUIRE(writer.begin(Role::kUser).ok());
  REQUIRE(writer.begin_picture(false, false).ok());
  REQUIRE(writer.end_picture(false).ok());
  REQUIRE(writer.end().ok());
  REQUIRE(writer.open_answer().ok());
  CHECK(sink.text == "<|im_start|>system<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n");
  CHECK(model->delimiter_tokens({}) == 0);
}

TEST_CASE("files of LightOnOCR that lie are refused with the key or tensor at fault") {
  const test::ModelPair pair = test::family_pair("lightonocr");
  for (const char* name : {"v.pre_ln.weight", "mm.input_norm.weight", "mm.patch_merger.weight", "mm.1.weight",
                           "mm.2.weight", "v.blk.0.ffn_gate.weight"}) {
    GgufBuilder file = builder_of(pair.mmproj);
    file.remove_tensor(name);
    check_refused(nullptr, &file, Code::kBadFile, "'" + std::string(name) + "' is missing", "lightonocr");
  }
  GgufBuilder file = builder_of(pair.mmproj);
  file.remove("clip.vision.spatial_merge_size");
  check_refused(nullptr, &file, Code::kBadFile, "but tensor 'mm.patch_merger.weight' joins patches", "lightonocr");
  GgufBuilder other = builder_of(pair.mmproj);
  test::without(other, "clip.projector_type").add_string("clip.projector_type", "pixtral");
  check_refused(nullptr, &other, Code::kBadFile, "tensor 'v.token_embd.img_break' is missing", "lightonocr");
}

}  // namespace ocellus
