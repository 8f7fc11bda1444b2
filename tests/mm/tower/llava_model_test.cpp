// mmproj files of LLaVA-1.5: what they may leave out, and good ones with one thing changed, which must be refused with
// a sentence that names it. What all mmproj files have in common is in vision_model_test.cpp.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "mm/tower/vision_model.h"
#include "runtime/models/family.h"
#include "tests/support/failure.h"
#include "tests/support/small_pair.h"

namespace ocellus {
namespace {

using test::ExactBytes;
using test::GgufBuilder;
using test::set_count;
using test::set_tensor;
using test::small_llava_projector;
using test::without;

/// Checks only, as when a pair is opened, and once more with the weights where they lie in the file.
Status read(const GgufBuilder& builder, VisionConfig* config) {
  ExactBytes bytes(builder.build());
  GgufFile file;
  VisionModel model;
  OCELLUS_TRY(file.parse(bytes.data(), bytes.size()));
  OCELLUS_TRY(read_vision_config(file, vision_families(), config));
  OCELLUS_TRY(bind_vision_model(file, *config, nullptr, &model));
  return bind_vision_model(file, *config, bytes.data() + file.data_offset(), &model);
}

void check_refused(const GgufBuilder& builder, Code code, const std::string& says) {
  CAPTURE(says);
  VisionConfig config;
  test::clear_failure();
  CHECK(read(builder, &config).code() == code);
  const std::string sentence = last_failure().sentence;
  CAPTURE(sentence);
  CHECK(sentence.find(says) != std::string::npos);
  CHECK(sentence.size() + 1 < sizeof(Failure::sentence));
}

VisionConfig read_good(const GgufBuilder& builder) {
  VisionConfig config;
  CHECK_MESSAGE(read(builder, &config).ok(), last_failure().sentence);
  return config;
}

}  // namespace

TEST_CASE("LLaVA's mmproj file that is changed below is good") {
  const VisionConfig config = read_good(small_llava_projector());
  CHECK(config.family == &find_family("LLaVA-1.5").vision);
  CHECK(config.class_rows == 1);
  CHECK(config.activation == Activation::kQuickGelu);
  CHECK(config.tokens_per_view() == 16);
  CHECK(config.position_rows() == 17);
  CHECK(config.layer_count == 2);
  CHECK(config.projector_width == 24);
  CHECK(config.output_width == 32);  // projection_dim is CLIP's own
  CHECK(config.longest_edge == 0);
}

TEST_CASE("the first files of LLaVA-1.5 name no projector") {
  GgufBuilder file = small_llava_projector();
  without(file, "clip.projector_type");
  check_refused(file, Code::kBadFile, "projector_type' is missing");
  file.add_bool("clip.has_llava_projector", false);
  check_refused(file, Code::kBadFile, "projector_type' is missing");
  without(file, "clip.has_llava_projector").add_bool("clip.has_llava_projector", true);
  CHECK(read_good(file).family == &find_family("LLaVA-1.5").vision);
  file.add_string("clip.projector_type", "ldp");
  check_refused(file, Code::kUnsupported, "clip.projector_type 'ldp' is not supported");
  without(file, "clip.projector_type").add_string("clip.vision.projector_type", "mlp");
  CHECK(read_good(file).family == &find_family("LLaVA-1.5").vision);
  without(file, "clip.has_llava_projector").add_u32("clip.has_llava_projector", 1);
  check_refused(file, Code::kBadFile, "'clip.has_llava_projector' has type u32");
  without(file, "clip.has_llava_projector");
  without(file, "clip.vision.projection_dim");
  read_good(file);
}

TEST_CASE("what stands behind the rows that the projector reads is not looked at") {
  GgufBuilder file = small_llava_projector();
  set_tensor(file, "v.post_ln.weight", {7});
  set_count(file, "clip.vision.preproc_image_size", 4000000000u);
  set_count(file, "clip.vision.projector.scale_factor", 3);
  CHECK(read_good(file).tokens_per_view() == 16);
}

TEST_CASE("the layer that the projector reads") {
  const std::string key = "clip.vision.feature_layer";
  GgufBuilder file = small_llava_projector();
  file.add_i32_array(key, {2});
  CHECK(read_good(file).layer_count == 2);
  without(file, key).add_u32_array(key, {1});
  CHECK(read_good(file).layer_count == 1);
  for (const int32_t layer : {0, -2, 3, INT32_MAX}) {
    without(file, key).add_i32_array(key, {layer});
    check_refused(file, Code::kBadFile, key + " is " + std::to_string(layer) + ", but must be 1 to 2");
  }
  without(file, key).add_i32_array(key, {1, 2});
  check_refused(file, Code::kUnsupported, key + " names 2 layers");
  without(file, key).add_i32_array(key, {});
  check_refused(file, Code::kUnsupported, key + " names 0 layers");
  without(file, key).add_u32(key, 2);
  check_refused(file, Code::kBadFile, "'" + key + "' has type u32");
  without(file, key).add_f32_array(key, {2});
  check_refused(file, Code::kBadFile, "'" + key + "' has type array of f32");
}

TEST_CASE("how views are joined tells LLaVA-1.5 from LLaVA-1.6") {
  const std::string key = "clip.vision.mm_patch_merge_type", sizes = "clip.vision.image_grid_pinpoints";
  GgufBuilder file = small_llava_projector();
  file.add_string(key, "flat");
  CHECK(read_good(file).family == &find_family("LLaVA-1.5").vision);
  without(file, key).add_string(key, std::string(3000, 'x'));
  check_refused(file, Code::kUnsupported, key + " 'xxx");
  without(file, key).add_u32(key, 0);
  check_refused(file, Code::kBadFile, "'" + key + "' has type u32");
  without(file, key).add_string(key, "spatial_unpad");
  check_refused(file, Code::kBadFile, sizes + " must list 1 to 32 pairs of sides");
  file.add_i32_array(sizes, {32, 64, 64});
  check_refused(file, Code::kBadFile, sizes + " must list 1 to 32 pairs of sides");
  without(file, sizes).add_i32_array(sizes, {32, 64, 64, 32});
  check_refused(file, Code::kBadFile, "tensor 'model.image_newline' is missing");
  file.add_tensor("model.image_newline", WeightFormat::kF32, {32});
  const VisionConfig config = read_good(file);
  CHECK(config.family == &find_family("LLaVA-1.6").vision);
  CHECK(config.tiled_size_count == 2);
  CHECK(config.tiled_sizes[0] == Size{64, 32});  // the height comes first
  without(file, key);
  CHECK(read_good(file).family == &find_family("LLaVA-1.6").vision);
}

TEST_CASE("every tensor of LLaVA's file is needed, except biases of linear maps") {
  for (const GgufBuilder::Tensor& tensor : small_llava_projector().tensors) {
    GgufBuilder file = small_llava_projector();
    file.remove_tensor(tensor.name);
    const bool is_norm = tensor.name.find("ln") != std::string::npos;
    const bool is_bias = tensor.name.find(".bias") != std::string::npos;
    if (is_bias && !is_norm) {
      read_good(file);
    } else {
      check_refused(file, Code::kBadFile, "tensor '" + tensor.name + "' is missing");
    }
  }
}

TEST_CASE("every tensor of LLaVA's file must have its shape") {
  for (const GgufBuilder::Tensor& tensor : small_llava_projector().tensors) {
    GgufBuilder file = small_llava_projector();
    std::vector<uint64_t> ne = tensor.ne;
    ne[0] *= 2;
    set_tensor(file, tensor.name, ne);
    check_refused(file, Code::kBadFile, "tensor '" + tensor.name + "' has ");
    ne = tensor.ne;
    ne.push_back(2);
    set_tensor(file, tensor.name, ne);
    VisionConfig config;
    CHECK(read(file, &config).code() == Code::kBadFile);
  }
}

TEST_CASE("positions without a class row's, and widths that cannot be") {
  GgufBuilder file = small_llava_projector();
  set_tensor(file, "v.position_embd.weight", {16, 16});
  check_refused(file, Code::kBadFile,
                "'v.position_embd.weight' has shape [16, 16], but the metadata asks for [17, 16]");
  file = small_llava_projector();
  set_tensor(file, "mm.0.weight", {16, 65537});
  check_refused(file, Code::kUnsupported, "tensor 'mm.0.weight' has 65537 rows, more than this build runs");
  file = small_llava_projector();
  set_tensor(file, "mm.0.weight", {16, 25});
  check_refused(file, Code::kBadFile, "tensor 'mm.0.bias' has 1 x 24 values, but 25 are needed");
  file = small_llava_projector();
  set_tensor(file, "mm.0.weight", {16, 25});
  set_tensor(file, "mm.0.bias", {25});
  check_refused(file, Code::kBadFile, "'mm.2.weight' has shape [32, 24], but the metadata asks for [32, 25]");
}

TEST_CASE("LLaVA's positions come in the formats of weights, its class row in F32") {
  for (const WeightFormat format : {WeightFormat::kF16, WeightFormat::kBF16}) {
    GgufBuilder file = small_llava_projector();
    file.remove_tensor("v.position_embd.weight");
    file.add_tensor("v.position_embd.weight", format, {16, 17});
    read_good(file);
  }
  for (const std::string name : {"v.class_embd", "v.pre_ln.weight", "mm.0.bias"}) {
    GgufBuilder file = small_llava_projector();
    const std::vector<uint64_t> ne = file.tensor(name).ne;
    file.remove_tensor(name);
    file.add_tensor(name, WeightFormat::kF16, ne);
    check_refused(file, Code::kUnsupported, "tensor '" + name + "' is stored as F16");
  }
}

}  // namespace ocellus
