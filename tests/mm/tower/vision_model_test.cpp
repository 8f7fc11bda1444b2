// mmproj files that lie. Each is a good one with one thing changed; each must be refused with a sentence that names it.
#include "mm/tower/vision_model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "runtime/models/family.h"
#include "tests/support/failure.h"
#include "tests/support/small_pair.h"

namespace ocellus {
namespace {

using test::ExactBytes;
using test::GgufBuilder;
using test::set_count;
using test::set_float;
using test::set_tensor;
using test::small_projector;
using test::without;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

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

void check_count_refused(const std::string& key, uint32_t value, Code code, const std::string& says) {
  GgufBuilder file = small_projector();
  set_count(file, key, value);
  check_refused(file, code, says);
}

VisionConfig read_good(const GgufBuilder& builder) {
  VisionConfig config;
  CHECK_MESSAGE(read(builder, &config).ok(), last_failure().sentence);
  return config;
}

/// The tensor under another name, in its old place.
void rename_tensor(GgufBuilder& file, const std::string& from, const std::string& to) { file.tensor(from).name = to; }

}  // namespace

TEST_CASE("the mmproj file that is changed below is good") {
  const VisionConfig config = read_good(small_projector());
  CHECK(config.position_rows() == 16);
  CHECK(config.head_dim() == 8);
  CHECK(config.tokens_per_view() == 4);
  CHECK(config.activation == Activation::kGeluTanh);
}

TEST_SUITE("what kind of mmproj file") {
  TEST_CASE("another architecture, or none") {
    GgufBuilder file = small_projector();
    without(file, "general.architecture");
    check_refused(file, Code::kBadFile, "'general.architecture' is missing");
    file.add_string("general.architecture", "llama");
    check_refused(file, Code::kBadFile, "general.architecture is 'llama', not 'clip'");
    without(file, "general.architecture").add_u32("general.architecture", 7);
    check_refused(file, Code::kBadFile, "'general.architecture' has type u32");
    without(file, "general.architecture").add_string("general.architecture", std::string(2000, 'x'));
    check_refused(file, Code::kBadFile, "general.architecture is 'xxxx");
  }

  TEST_CASE("no vision tower") {
    GgufBuilder file = small_projector();
    without(file, "clip.has_vision_encoder");
    check_refused(file, Code::kUnsupported, "clip.has_vision_encoder is not set");
    file.add_bool("clip.has_vision_encoder", false);
    check_refused(file, Code::kUnsupported, "clip.has_vision_encoder is not set");
    without(file, "clip.has_vision_encoder").add_string("clip.has_vision_encoder", "yes");
    check_refused(file, Code::kBadFile, "'clip.has_vision_encoder' has type string");
  }

  TEST_CASE("other projectors are named") {
    for (const std::string kind : {"mlp_norm", "qwen2.5o", "ldpv2", "Idefics3"}) {
      GgufBuilder file = small_projector();
      without(file, "clip.projector_type").add_string("clip.projector_type", kind);
      check_refused(file, Code::kUnsupported, "clip.projector_type '" + kind + "' is not supported");
      without(file, "clip.projector_type").add_string("clip.vision.projector_type", kind);
      check_refused(file, Code::kUnsupported, "clip.projector_type '" + kind + "' is not supported");
    }
    GgufBuilder file = small_projector();
    without(file, "clip.projector_type");
    check_refused(file, Code::kBadFile, "projector_type' is missing");
    file.add_u32("clip.projector_type", 3);
    check_refused(file, Code::kBadFile, "'clip.projector_type' has type u32");
  }

  TEST_CASE("the projector type may stand under the vision key") {
    GgufBuilder file = small_projector();
    without(file, "clip.projector_type").add_string("clip.vision.projector_type", "idefics3");
    read_good(file);
  }

  TEST_CASE("the activation follows the flags") {
    GgufBuilder file = small_projector();
    without(file, "clip.use_gelu");
    CHECK(read_good(file).activation == Activation::kQuickGelu);
    file.add_bool("clip.use_silu", true);
    CHECK(read_good(file).activation == Activation::kSilu);
    file.add_bool("clip.use_gelu", false);
    CHECK(read_good(file).activation == Activation::kSilu);
    without(file, "clip.use_gelu").add_bool("clip.use_gelu", true);
    check_refused(file, Code::kBadFile, "clip.use_gelu and clip.use_silu are both set");
    without(file, "clip.use_silu").add_u32("clip.use_silu", 0);
    check_refused(file, Code::kBadFile, "'clip.use_silu' has type u32");
  }
}

TEST_SUITE("sizes of an mmproj file") {
  TEST_CASE("missing, zero, negative, huge, or of another type") {
    for (const std::string name : {"image_size", "patch_size", "embedding_length", "feed_forward_length", "block_count",
                                   "attention.head_count", "projection_dim"}) {
      const std::string key = "clip.vision." + name;
      GgufBuilder file = small_projector();
      without(file, key);
      check_refused(file, Code::kBadFile, "'" + key + "' is missing");
      file.add_i32(key, -1);
      check_refused(file, Code::kBadFile, "'" + key + "' is -1");
      without(file, key).add_u64(key, UINT64_MAX);
      check_refused(file, Code::kBadFile, "'" + key + "' is 18446744073709551615");
      without(file, key).add_f32(key, 16);
      check_refused(file, Code::kBadFile, "'" + key + "' has type f32");
      without(file, key).add_u32_array(key, {16});
      check_refused(file, Code::kBadFile, "'" + key + "' has type array of u32");
      check_count_refused(key, 0, Code::kBadFile, "'" + key + "' is 0");
      check_count_refused(key, UINT32_MAX, Code::kBadFile, "'" + key + "' is 4294967295");
    }
  }

  TEST_CASE("patches that do not fit the image") {
    check_count_refused("clip.vision.patch_size", 33, Code::kBadFile, "clip.vision.patch_size 33 is larger");
    check_count_refused("clip.vision.image_size", 7, Code::kBadFile, "clip.vision.patch_size 8 is larger");
    check_count_refused("clip.vision.image_size", 4097, Code::kBadFile, "'clip.vision.image_size' is 4097");
    GgufBuilder file = small_projector();
    set_count(file, "clip.vision.image_size", 4096);
    check_refused(file, Code::kUnsupported, "262144 patches per view are more");
    set_count(file, "clip.vision.patch_size", 1);
    check_refused(file, Code::kUnsupported, "16777216 patches per view are more");
    set_count(file, "clip.vision.patch_size", 4096);
    check_refused(file, Code::kBadFile, "clip.vision.projector.scale_factor 2 does not divide the 1 patches");
    set_count(file, "clip.vision.projector.scale_factor", 1);
    check_refused(file, Code::kBadFile,
                  "'v.patch_embd.weight' has shape [16, 192], but the metadata asks for [16, 50331648]");
  }

  TEST_CASE("an image that is no whole number of patches loses its rim, as in SigLIP at 384 pixels") {
    GgufBuilder file = small_projector();
    set_count(file, "clip.vision.image_size", 39);
    CHECK(read_good(file).position_rows() == 16);
  }

  TEST_CASE("a pixel shuffle that does not come out even") {
    const std::string key = "clip.vision.projector.scale_factor";
    for (const uint32_t scale : {3u, 5u, 64u})
      check_count_refused(key, scale, Code::kBadFile,
                          key + " " + std::to_string(scale) + " does not divide the 4 patches");
    check_count_refused(key, 0, Code::kBadFile, "'" + key + "' is 0");
    check_count_refused(key, 65, Code::kBadFile, "'" + key + "' is 65");
    check_count_refused(key, 4, Code::kBadFile,
                        "'mm.model.fc.weight' has shape [32, 64], but the metadata asks for [32, 256]");
    GgufBuilder file = small_projector();
    without(file, key);  // no shuffle
    check_refused(file, Code::kBadFile, "'mm.model.fc.weight' has shape [32, 64], but the metadata asks for [32, 16]");
  }

  TEST_CASE("heads that do not divide the width, or of a size that cannot be run") {
    for (const uint32_t heads : {3u, 4u, 16u, 17u})
      check_count_refused("clip.vision.attention.head_count", heads, Code::kUnsupported,
                          "clip.vision.embedding_length 16 over " + std::to_string(heads) + " heads");
    check_count_refused("clip.vision.embedding_length", 4096, Code::kUnsupported, "4096 over 2 heads");
    check_count_refused("clip.vision.embedding_length", 12, Code::kUnsupported, "12 over 2 heads");
  }

  TEST_CASE("more blocks than there are tensors, and more than there can be") {
    check_count_refused("clip.vision.block_count", 3, Code::kBadFile, "'v.blk.2.ln1.weight' is missing");
    check_count_refused("clip.vision.block_count", 512, Code::kBadFile, "'v.blk.2.ln1.weight' is missing");
    check_count_refused("clip.vision.block_count", 513, Code::kBadFile, "'clip.vision.block_count' is 513");
    GgufBuilder file = small_projector();
    set_count(file, "clip.vision.block_count", 1);  // further layers are not used
    CHECK(read_good(file).layer_count == 1);
  }

  TEST_CASE("tiled images out of range") {
    const std::string key = "clip.vision.preproc_image_size";
    check_count_refused(key, 16385, Code::kBadFile, "'" + key + "' is 16385");
    check_count_refused(key, UINT32_MAX, Code::kBadFile, "'" + key + "' is 4294967295");
    GgufBuilder file = small_projector();
    without(file, key).add_i32(key, -1);
    check_refused(file, Code::kBadFile, "'" + key + "' is -1");
    CHECK(read_good(without(file, key)).longest_edge == 0);
  }
}

TEST_SUITE("numbers of an mmproj file") {
  TEST_CASE("the mean and deviation of pixels") {
    for (const std::string key : {"clip.vision.image_mean", "clip.vision.image_std"}) {
      GgufBuilder file = small_projector();
      without(file, key);
      check_refused(file, Code::kBadFile, "'" + key + "' is missing");
      for (const std::vector<float>& values : {std::vector<float>(), {0.5f}, {0.5f, 0.5f}, {0.5f, 0.5f, 0.5f, 0.5f}}) {
        without(file, key).add_f32_array(key, values);
        check_refused(file, Code::kBadFile, "'" + key + "' holds " + std::to_string(values.size()) + " numbers");
      }
      for (const float value : {kNan, kInfinity, -kInfinity}) {
        without(file, key).add_f32_array(key, {0.5f, 0.5f, value});
        check_refused(file, Code::kBadFile, "number 2 of metadata key '" + key + "'");
      }
      without(file, key).add_f32(key, 0.5f);
      check_refused(file, Code::kBadFile, "'" + key + "' has type f32");
      without(file, key).add_i32_array(key, {1, 1, 1});
      check_refused(file, Code::kBadFile, "'" + key + "' has type array of i32");
    }
    for (const float value : {0.0f, -0.0f, -0.5f}) {
      GgufBuilder file = small_projector();
      without(file, "clip.vision.image_std").add_f32_array("clip.vision.image_std", {0.5f, value, 0.5f});
      check_refused(file, Code::kBadFile, "clip.vision.image_std holds a value that is not positive");
    }
  }

  TEST_CASE("the epsilon of norms") {
    const std::string key = "clip.vision.attention.layer_norm_epsilon";
    GgufBuilder file = small_projector();
    without(file, key);
    check_refused(file, Code::kBadFile, "'" + key + "' is missing");
    for (const float value : {kNan, kInfinity, -kInfinity}) {
      set_float(file, key, value);
      check_refused(file, Code::kBadFile, "'" + key + "' is ");
    }
    set_float(file, key, -1e-6f);
    check_refused(file, Code::kBadFile, key + " is negative");
    set_count(file, key, 0);
    check_refused(file, Code::kBadFile, "'" + key + "' has type u32");
  }
}

TEST_SUITE("tensors of an mmproj file") {
  TEST_CASE("every tensor is needed, except biases of linear maps") {
    for (const GgufBuilder::Tensor& tensor : small_projector().tensors) {
      GgufBuilder file = small_projector();
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

  TEST_CASE("every tensor must have its shape") {
    for (const GgufBuilder::Tensor& tensor : small_projector().tensors) {
      GgufBuilder file = small_projector();
      std::vector<uint64_t> ne = tensor.ne;
      ne[0] *= 2;
      set_tensor(file, tensor.name, ne);
      check_refused(file, Code::kBadFile, "tensor '" + tensor.name + "' has ");
      ne = tensor.ne;
      ne.back() += 1;
      set_tensor(file, tensor.name, ne);
      check_refused(file, Code::kBadFile, "tensor '" + tensor.name + "' has ");
    }
  }

  TEST_CASE("a position embedding for another number of patches") {
    GgufBuilder file = small_projector();
    set_tensor(file, "v.position_embd.weight", {16, 17});  // with a class token
    check_refused(file, Code::kBadFile,
                  "'v.position_embd.weight' has shape [17, 16], but the metadata asks for [16, 16]");
  }

  TEST_CASE("formats that cannot be run in their place") {
    for (const std::string name :
         {"v.blk.1.ln2.weight", "v.blk.0.attn_q.bias", "v.post_ln.bias", "v.patch_embd.bias"}) {
      GgufBuilder file = small_projector();
      const std::vector<uint64_t> ne = file.tensor(name).ne;
      file.remove_tensor(name);
      file.add_tensor(name, WeightFormat::kF16, ne);
      check_refused(file, Code::kUnsupported, "tensor '" + name + "' is stored as F16");
    }
    GgufBuilder file = small_projector();
    file.remove_tensor("v.position_embd.weight");
    file.add_tensor("v.position_embd.weight", WeightFormat::kF16, {16, 16});
    check_refused(file, Code::kUnsupported, "'v.position_embd.weight' must be F32");
    file = small_projector();
    set_count(file, "clip.vision.image_size", 128);
    set_count(file, "clip.vision.patch_size", 32);
    file.remove_tensor("v.patch_embd.weight");
    file.add_tensor("v.patch_embd.weight", WeightFormat::kQ8_0, {32, 32, 3, 16});
    check_refused(file, Code::kUnsupported, "'v.patch_embd.weight' is a convolution in block format Q8_0");
  }

  TEST_CASE("a patch embedding may be stored as a matrix") {
    GgufBuilder file = small_projector();
    file.tensor("v.patch_embd.weight").ne = {192, 16};
    read_good(file);
    file.tensor("v.patch_embd.weight").ne = {16, 192};
    check_refused(file, Code::kBadFile,
                  "'v.patch_embd.weight' has shape [192, 16], but the metadata asks for [16, 192]");
  }

  TEST_CASE("the MLP of old files, whose matrices have each other's names") {
    GgufBuilder file = small_projector();
    for (const std::string layer : {"v.blk.0.", "v.blk.1."}) {
      for (const std::string suffix : {".weight", ".bias"}) {
        rename_tensor(file, layer + "ffn_up" + suffix, layer + "other");
        rename_tensor(file, layer + "ffn_down" + suffix, layer + "ffn_up" + suffix);
        rename_tensor(file, layer + "other", layer + "ffn_down" + suffix);
      }
    }
    read_good(file);
    // With the weights renamed, the biases must be too.
    file = small_projector();
    rename_tensor(file, "v.blk.0.ffn_up.weight", "other");
    rename_tensor(file, "v.blk.0.ffn_down.weight", "v.blk.0.ffn_up.weight");
    rename_tensor(file, "other", "v.blk.0.ffn_down.weight");
    check_refused(file, Code::kBadFile, "'v.blk.0.ffn_down.bias' has 1 x 16 values, but 32 are needed");
  }
}

}  // namespace ocellus
