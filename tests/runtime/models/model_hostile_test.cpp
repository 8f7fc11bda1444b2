// Model files that lie. Each is a good one with one thing changed. Most must be refused with a sentence that names the
// file and the culprit; what is odd but possible must run. mmproj files are the subject of
// tests/mm/tower/vision_model_test.cpp, vocabularies that of tokenizer_hostile_test.cpp, values at the end of their
// range that of model_extremes_test.cpp, damage that of model_damage_test.cpp.
#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "runtime/models/model.h"
#include "tests/support/failure.h"
#include "tests/support/random_model.h"
#include "tests/support/short_talk.h"
#include "tests/support/small_pair.h"

namespace ocellus {
namespace {

using test::GgufBuilder;
using test::open_and_talk;
using test::set_count;
using test::set_float;
using test::set_tensor;
using test::small_model;
using test::small_projector;
using test::TemporaryFile;
using test::TextRecipe;
using test::without;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

void check_failure(Status status, Code code, const std::string& path, const std::string& says) {
  CAPTURE(says);
  CHECK(status.code() == code);
  const std::string sentence = last_failure().sentence;
  CAPTURE(sentence);
  CHECK(sentence.find(says) != std::string::npos);
  CHECK(sentence.rfind(path + ": ", 0) == 0);
  CHECK(sentence.size() + 1 < sizeof(Failure::sentence));
}

void check_refused(const GgufBuilder& builder, Code code, const std::string& says) {
  const TemporaryFile file(builder);
  Model model;
  test::clear_failure();
  check_failure(model.open(file.c_str(), nullptr), code, file.path(), says);
}

void check_count_refused(const std::string& key, uint32_t value, Code code, const std::string& says) {
  GgufBuilder file = small_model();
  set_count(file, key, value);
  check_refused(file, code, says);
}

void check_runs(const GgufBuilder& text, const GgufBuilder& vision = small_projector()) {
  CHECK_MESSAGE(open_and_talk(text, vision).ok(), last_failure().sentence);
}

constexpr const char* kCountKeys[] = {"llama.block_count", "llama.embedding_length", "llama.context_length",
                                      "llama.feed_forward_length", "llama.attention.head_count"};

}  // namespace

TEST_CASE("the pair that is changed below is good") { check_runs(small_model()); }

TEST_SUITE("which file") {
  TEST_CASE("another architecture, or none") {
    GgufBuilder file = small_model();
    without(file, "general.architecture");
    check_refused(file, Code::kBadFile, "'general.architecture' is missing");
    file.add_string("general.architecture", "mamba");
    check_refused(file, Code::kUnsupported,
                  "general.architecture 'mamba' is not supported: this build runs llama, internlm2, qwen2");
    without(file, "general.architecture").add_string("general.architecture", std::string(5000, 'x'));
    check_refused(file, Code::kUnsupported, "general.architecture 'xxx");
    without(file, "general.architecture").add_string("general.architecture", "");
    check_refused(file, Code::kUnsupported, "general.architecture '' is not supported");
    without(file, "general.architecture").add_i32("general.architecture", 1);
    check_refused(file, Code::kBadFile, "'general.architecture' has type i32");
    without(file, "general.architecture").add_string("general.architecture", "qwen2");
    check_refused(file, Code::kBadFile, "'qwen2.block_count' is missing");
  }

  TEST_CASE("the halves of a pair in each other's place") {
    check_refused(small_projector(), Code::kBadFile, "this is an mmproj file, not a language model");
    const TemporaryFile text(small_model());
    Model model;
    check_failure(model.open(text.c_str(), text.c_str()), Code::kBadFile, text.path(), "this is not an mmproj file");
  }

  TEST_CASE("halves of different pairs") {
    GgufBuilder vision = small_projector();
    set_count(vision, "clip.vision.projection_dim", 64);
    set_tensor(vision, "mm.model.fc.weight", {64, 64});
    const TemporaryFile text_file(small_model());
    const TemporaryFile vision_file(vision);
    Model model;
    check_failure(model.open(text_file.c_str(), vision_file.c_str()), Code::kBadFile, vision_file.path(),
                  "clip.vision.projection_dim is 64, but the language model has rows of 32");
    GgufBuilder llava = test::small_llava_projector();
    set_tensor(llava, "mm.2.weight", {24, 64});
    set_tensor(llava, "mm.2.bias", {64});
    const TemporaryFile llava_file(llava);
    Model other;
    check_failure(other.open(text_file.c_str(), llava_file.c_str()), Code::kBadFile, llava_file.path(),
                  "the height of tensor 'mm.2.weight' is 64, but the language model has rows of 32");
  }

  TEST_CASE("failures of an mmproj file carry its path") {
    const TemporaryFile text(small_model());
    GgufBuilder vision = small_projector();
    vision.remove_tensor("v.post_ln.weight");
    const TemporaryFile incomplete(vision);
    Model model;
    check_failure(model.open(text.c_str(), incomplete.c_str()), Code::kBadFile, incomplete.path(),
                  "tensor 'v.post_ln.weight' is missing");
    vision = small_projector();
    set_count(vision, "clip.vision.preproc_image_size", 32 * 16 + 1);
    const TemporaryFile tiled(vision);
    check_failure(model.open(text.c_str(), tiled.c_str()), Code::kUnsupported, tiled.path(),
                  "clip.vision.preproc_image_size must be 0..512");
    CHECK(!model.has_vision());
  }

  TEST_CASE("failures of the vocabulary carry the path") {
    GgufBuilder file = small_model();
    without(file, "tokenizer.ggml.tokens");
    check_refused(file, Code::kBadFile, "tokenizer.ggml.tokens is missing");
    file = small_model();
    without(file, "tokenizer.ggml.model").add_string("tokenizer.ggml.model", "bert");
    check_refused(file, Code::kUnsupported, "tokenizer.ggml.model is \"bert\"");
    file = small_model();
    without(file, "tokenizer.chat_template").add_u32("tokenizer.chat_template", 1);
    check_refused(file, Code::kBadFile, "'tokenizer.chat_template' has type u32");
  }
}

TEST_SUITE("counts of a language model") {
  TEST_CASE("missing, zero, negative, huge, or of another type") {
    for (const std::string key : kCountKeys) {
      GgufBuilder file = small_model();
      without(file, key);
      check_refused(file, Code::kBadFile, "is missing");
      CHECK(std::string(last_failure().sentence).find(key) != std::string::npos);
      check_count_refused(key, 0, Code::kBadFile, key);
      for (const int64_t value : {int64_t{-1}, INT64_MIN, INT64_MAX}) {
        without(file, key).add_i64(key, value);
        check_refused(file, Code::kBadFile, "'" + key + "' is " + std::to_string(value));
      }
      without(file, key).add_u64(key, UINT64_MAX);
      check_refused(file, Code::kBadFile, "'" + key + "' is 18446744073709551615");
      check_count_refused(key, UINT32_MAX, Code::kBadFile, "'" + key + "' is 4294967295");
      without(file, key).add_f32(key, 2);
      check_refused(file, Code::kBadFile, "'" + key + "' has type f32");
      without(file, key).add_string(key, "2");
      check_refused(file, Code::kBadFile, "'" + key + "' has type string");
    }
  }

  TEST_CASE("just outside what can be run") {
    check_count_refused("llama.block_count", 513, Code::kBadFile, "'llama.block_count' is 513");
    check_count_refused("llama.embedding_length", 131073, Code::kBadFile, "'llama.embedding_length' is 131073");
    check_count_refused("llama.context_length", (1 << 24) + 1, Code::kBadFile, "'llama.context_length' is 16777217");
    check_count_refused("llama.attention.head_count", 1025, Code::kBadFile, "'llama.attention.head_count' is 1025");
  }

  TEST_CASE("other counts than the tensors have") {
    check_count_refused("llama.block_count", 3, Code::kBadFile, "'blk.2.attn_norm.weight' is missing");
    check_count_refused("llama.block_count", 512, Code::kBadFile, "'blk.2.attn_norm.weight' is missing");
    check_count_refused("llama.block_count", 1, Code::kBadFile,
                        "' is of a further layer than the 1 of llama.block_count");
    check_count_refused("llama.embedding_length", 64, Code::kBadFile, "'token_embd.weight' has shape [1024, 32]");
    check_count_refused("llama.embedding_length", 131072, Code::kUnsupported, "a head dimension of 32768");
    check_count_refused("llama.feed_forward_length", 65, Code::kBadFile, "'blk.0.ffn_gate.weight' has shape [64, 32]");
    check_count_refused("llama.attention.head_count", 2, Code::kBadFile, "'blk.0.attn_k.weight' has shape [16, 32]");
  }

  TEST_CASE("heads that cannot be shared out") {
    const std::string kv = "llama.attention.head_count_kv";
    for (const uint32_t heads : {0u, 3u, 8u})
      check_count_refused(
          kv, heads, Code::kBadFile,
          "attention.head_count_kv " + std::to_string(heads) + " does not divide attention.head_count 4");
    check_count_refused(kv, UINT32_MAX, Code::kBadFile, "'" + kv + "' is 4294967295");
    check_count_refused(kv, 1, Code::kBadFile, "'blk.0.attn_k.weight' has shape [16, 32]");
    GgufBuilder file = small_model();
    set_count(file, "llama.attention.head_count", 64);
    set_count(file, kv, 1);
    check_refused(file, Code::kUnsupported, "attention.head_count 64 over attention.head_count_kv 1");
    without(file, kv).add_string(kv, "2");
    check_refused(file, Code::kBadFile, "'" + kv + "' has type string");
  }

  TEST_CASE("head sizes") {
    const std::string key_length = "llama.attention.key_length", value_length = "llama.attention.value_length";
    check_count_refused("llama.attention.head_count", 3, Code::kBadFile, "head_count_kv 2 does not divide");
    check_count_refused("llama.attention.head_count", 8, Code::kUnsupported, "a head dimension of 4");
    GgufBuilder file = small_model();
    set_count(file, "llama.attention.head_count_kv", 1);
    set_count(file, "llama.attention.head_count", 3);  // 32 / 3 = 10
    check_refused(file, Code::kUnsupported, "a head dimension of 10");
    for (const uint32_t length : {0u, 4u, 12u}) {
      file = small_model();
      set_count(file, key_length, length);
      set_count(file, value_length, length);
      check_refused(file, Code::kUnsupported, "a head dimension of " + std::to_string(length));
    }
    set_count(file, key_length, 16);
    check_refused(file, Code::kUnsupported, "attention.key_length 16 and attention.value_length 12 differ");
    set_count(file, value_length, 16);
    check_refused(file, Code::kBadFile, "'blk.0.attn_q.weight' has shape [32, 32], but the metadata asks for [64, 32]");
    check_count_refused(key_length, 520, Code::kBadFile, "'" + key_length + "' is 520");
    check_count_refused(value_length, UINT32_MAX, Code::kBadFile, "'" + value_length + "' is 4294967295");
  }

  TEST_CASE("counts per layer") {
    for (const char* name : {"llama.attention.head_count_kv", "llama.feed_forward_length"}) {
      const std::string key = name;
      const int32_t right = key == "llama.feed_forward_length" ? 64 : 2;
      GgufBuilder file = small_model();
      without(file, key).add_i32_array(key, {right, right});
      check_runs(file);
      without(file, key).add_i32_array(key, {right});
      check_refused(file, Code::kBadFile, key + " has 1 values for 2 layers");
      without(file, key).add_i32_array(key, {});
      check_refused(file, Code::kBadFile, key + " has 0 values for 2 layers");
      without(file, key).add_i32_array(key, std::vector<int32_t>(100000, right));
      check_refused(file, Code::kBadFile, key + " has 100000 values for 2 layers");
      without(file, key).add_i32_array(key, {right, right / 2});
      check_refused(file, Code::kUnsupported, key + " differs between layers");
      without(file, key).add_i32_array(key, {right, 0});
      check_refused(file, Code::kBadFile, key + " holds the value 0");
      without(file, key).add_u32_array(key, {UINT32_MAX, UINT32_MAX});
      check_refused(file, Code::kBadFile, key + " holds the value -1");
      without(file, key).add_i32_array(key, {INT32_MAX, INT32_MAX});
      check_refused(file, Code::kBadFile, key + " holds the value 2147483647");
      without(file, key).add_f32_array(key, {2, 2});
      check_refused(file, Code::kBadFile, "'" + key + "' has type array of f32");
      without(file, key).add_string_array(key, {"2", "2"});
      check_refused(file, Code::kBadFile, "'" + key + "' has type array of string");
    }
  }
}

TEST_SUITE("numbers of a language model") {
  TEST_CASE("the epsilon of norms") {
    const std::string key = "llama.attention.layer_norm_rms_epsilon";
    GgufBuilder file = small_model();
    without(file, key);
    check_refused(file, Code::kBadFile, "'" + key + "' is missing");
    for (const float value : {kNan, kInfinity, -kInfinity}) {
      set_float(file, key, value);
      check_refused(file, Code::kBadFile, "'" + key + "' is ");
    }
    set_float(file, key, -1e-5f);
    check_refused(file, Code::kBadFile, "attention.layer_norm_rms_epsilon is negative");
    set_count(file, key, 1);
    check_refused(file, Code::kBadFile, "'" + key + "' has type u32");
  }

  TEST_CASE("rotary positions") {
    const std::string dimensions = "llama.rope.dimension_count";
    for (const uint32_t count : {0u, 1u, 7u})
      check_count_refused(dimensions, count, Code::kBadFile,
                          "rope.dimension_count " + std::to_string(count) + " is not a positive even number");
    for (const uint32_t count : {10u, UINT32_MAX})
      check_count_refused(dimensions, count, Code::kBadFile, "'" + dimensions + "' is " + std::to_string(count));
    GgufBuilder file = small_model();
    for (const float value : {0.0f, -1.0f}) {
      set_float(file, "llama.rope.freq_base", value);
      check_refused(file, Code::kBadFile, "rope.freq_base must be positive");
    }
    for (const float value : {kNan, kInfinity}) {
      set_float(file, "llama.rope.freq_base", value);
      check_refused(file, Code::kBadFile, "'llama.rope.freq_base' is ");
    }
  }

  TEST_CASE("sections of positions") {
    const std::string key = "qwen3vl.rope.dimension_sections";
    const test::TemporaryModel good(TextRecipe{.architecture = "qwen3vl"}, 1);  // heads of 8 pairs
    GgufFile gguf;
    REQUIRE(gguf.open(good.path().c_str()).ok());
    GgufBuilder file(gguf);
    const auto refuse = [&](const std::vector<int32_t>& counts, Code code, const std::string& says) {
      without(file, key).add_i32_array(key, counts);
      check_refused(file, code, says);
    };
    refuse({}, Code::kBadFile, key + " has 0 values, not 3 to 4");
    refuse({6, 2}, Code::kBadFile, key + " has 2 values, not 3 to 4");
    refuse({4, 2, 2, 0, 0}, Code::kBadFile, key + " has 5 values, not 3 to 4");
    refuse({4, 2, 2, 1}, Code::kUnsupported, "rope.dimension_sections holds 1 for a fourth coordinate");
    for (const int32_t wrong : {-1, 9, INT32_MAX, INT32_MIN})
      refuse({4, 2, wrong}, Code::kBadFile, "rope.dimension_sections holds the value " + std::to_string(wrong));
    refuse({4, 2, 1}, Code::kBadFile, "rope.dimension_sections 4, 2, 1 do not add up to the 8 pairs");
    refuse({0, 4, 4}, Code::kUnsupported, "rope.dimension_sections 0, 4, 4 cannot be interleaved");
    refuse({3, 2, 3, 0}, Code::kUnsupported, "rope.dimension_sections 3, 2, 3 cannot be interleaved");
    without(file, key).add_u32(key, 8);
    check_refused(file, Code::kBadFile, "'" + key + "' has type u32");
    without(file, key);
    check_refused(file, Code::kBadFile, "key '" + key + "' is missing");
    for (const std::vector<int32_t>& counts : {std::vector<int32_t>{3, 3, 2}, {8, 0, 0}, {4, 2, 2, 0}}) {
      without(file, key).add_i32_array(key, counts);
      const TemporaryFile changed(file);
      Model model;
      CHECK_MESSAGE(model.open(changed.c_str(), nullptr).ok(), last_failure().sentence);
    }
    for (const uint32_t layers : {3u, UINT32_MAX}) {
      set_count(file, "qwen3vl.n_deepstack_layers", layers);
      check_refused(file, Code::kBadFile, "'qwen3vl.n_deepstack_layers' is " + std::to_string(layers));
    }
  }

  TEST_CASE("a tower without rows for the first layers, which the language model has") {
    const test::TemporaryModel good(TextRecipe{.architecture = "qwen3vl"}, 1);
    const test::TemporaryModel tower(test::VisionRecipe{}, 2);
    GgufFile gguf;
    REQUIRE(gguf.open(good.path().c_str()).ok());
    GgufBuilder file(gguf);
    set_count(file, "qwen3vl.n_deepstack_layers", 2);
    const TemporaryFile text(file);
    Model model;
    CHECK_MESSAGE(model.open(text.c_str(), nullptr).ok(), last_failure().sentence);
    check_failure(Model().open(text.c_str(), tower.path().c_str()), Code::kBadFile, tower.path(),
                  "0 layers have tensors 'v.deepstack.*', but the language model takes the rows of 2");
  }

  TEST_CASE("layers that predict further tokens") {
    GgufBuilder file = small_model();
    set_count(file, "llama.nextn_predict_layers", 0);
    check_runs(file);
    set_count(file, "llama.nextn_predict_layers", 1);
    check_refused(file, Code::kUnsupported, "llama.nextn_predict_layers is 1");
  }

  TEST_CASE("scaled positions") {
    GgufBuilder file = small_model();
    for (const std::string type : {"longrope", "LINEAR"}) {
      without(file, "llama.rope.scaling.type").add_string("llama.rope.scaling.type", type);
      check_refused(file, Code::kUnsupported, "rope.scaling.type '" + type + "' is not supported");
    }
    without(file, "llama.rope.scaling.type").add_string("llama.rope.scaling.type", "yarn");
    check_refused(file, Code::kBadFile, "'llama.rope.scaling.original_context_length' is missing");
    without(file, "llama.rope.scaling.type").add_u32("llama.rope.scaling.type", 1);
    check_refused(file, Code::kBadFile, "'llama.rope.scaling.type' has type u32");
    without(file, "llama.rope.scaling.type").add_string("llama.rope.scaling.type", "linear");
    for (const float value : {0.0f, -2.0f, 1e-45f}) {
      set_float(file, "llama.rope.scaling.factor", value);
      check_refused(file, Code::kBadFile, "rope.scaling.factor");
    }
    for (const float value : {kNan, kInfinity}) {
      set_float(file, "llama.rope.scaling.factor", value);
      check_refused(file, Code::kBadFile, "'llama.rope.scaling.factor' is ");
    }
    set_float(file, "llama.rope.scaling.factor", 2);
    check_runs(file);
  }
}

TEST_SUITE("tensors of a language model") {
  TEST_CASE("every tensor is needed") {
    for (const GgufBuilder::Tensor& tensor : small_model().tensors) {
      GgufBuilder file = small_model();
      file.remove_tensor(tensor.name);
      check_refused(file, Code::kBadFile, "tensor '" + tensor.name + "' is missing");
    }
    GgufBuilder file = small_model();
    file.tensors.clear();
    check_refused(file, Code::kBadFile, "tensor 'token_embd.weight' is missing");
  }

  TEST_CASE("every tensor must have its shape") {
    for (const GgufBuilder::Tensor& tensor : small_model().tensors) {
      GgufBuilder file = small_model();
      std::vector<uint64_t> ne = tensor.ne;
      ne[0] *= 2;
      set_tensor(file, tensor.name, ne);
      check_refused(file, Code::kBadFile, "tensor '" + tensor.name + "' has ");
      ne = tensor.ne;
      ne.push_back(2);
      set_tensor(file, tensor.name, ne);
      check_refused(file, Code::kBadFile, "tensor '" + tensor.name + "' has ");
    }
    GgufBuilder file = small_model();
    set_tensor(file, "token_embd.weight", {32, 1025});
    check_refused(file, Code::kBadFile,
                  "tokenizer.ggml.tokens has 1024 tokens, but tensor 'token_embd.weight' has 1025 rows");
    file = small_model();
    set_tensor(file, "token_embd.weight", {1, (1 << 22) + 1});
    check_refused(file, Code::kBadFile, "'token_embd.weight' has 4194305 rows");
  }

  TEST_CASE("tensors that need not be there must have their shape if they are") {
    GgufBuilder file = small_model();
    set_tensor(file, "output.weight", {32, 1023});
    check_refused(file, Code::kBadFile, "'output.weight' has shape [1023, 32], but the metadata asks for [1024, 32]");
    set_tensor(file, "output.weight", {32, 1024});
    check_runs(file);
    for (const uint64_t count : {1, 3, 5, 8}) {
      set_tensor(file, "rope_freqs.weight", {count});
      check_refused(file, Code::kBadFile,
                    "'rope_freqs.weight' has 1 x " + std::to_string(count) + " values, but 4 are needed");
    }
    set_tensor(file, "rope_freqs.weight", {4});
    check_runs(file);
    set_tensor(file, "blk.1.attn_q.bias", {31});
    check_refused(file, Code::kBadFile, "'blk.1.attn_q.bias' has 1 x 31 values, but 32 are needed");
    set_tensor(file, "blk.1.attn_q.bias", {32});
    check_runs(file);
  }

  TEST_CASE("norms and biases in half precision") {
    for (const std::string name : {"output_norm.weight", "blk.0.attn_norm.weight", "blk.1.ffn_norm.weight"}) {
      GgufBuilder file = small_model();
      file.remove_tensor(name);
      file.add_tensor(name, WeightFormat::kF16, {32});
      check_refused(file, Code::kUnsupported,
                    "tensor '" + name + "' is stored as F16, but norms and biases must be F32");
    }
    GgufBuilder file = small_model();
    file.add_tensor("blk.0.attn_k.bias", WeightFormat::kBF16, {16});
    check_refused(file, Code::kUnsupported, "tensor 'blk.0.attn_k.bias' is stored as BF16");
    file = small_model();
    file.add_tensor("rope_freqs.weight", WeightFormat::kF16, {4});
    check_refused(file, Code::kUnsupported, "tensor 'rope_freqs.weight' is stored as F16");
  }

  TEST_CASE("query, key and value in one matrix") {
    GgufBuilder file = small_model();
    for (const std::string layer : {"blk.0.", "blk.1."}) {
      for (const std::string part : {"attn_q", "attn_k", "attn_v"}) file.remove_tensor(layer + part + ".weight");
      set_tensor(file, layer + "attn_qkv.weight", {32, 64});
      set_tensor(file, layer + "attn_qkv.bias", {64});
    }
    check_runs(file);
    set_tensor(file, "blk.1.attn_qkv.bias", {32});
    check_refused(file, Code::kBadFile, "'blk.1.attn_qkv.bias' has 1 x 32 values, but 64 are needed");
    set_tensor(file, "blk.1.attn_qkv.weight", {32, 96});
    check_refused(file, Code::kBadFile,
                  "'blk.1.attn_qkv.weight' has shape [96, 32], but the metadata asks for [64, 32]");
  }

  TEST_CASE("tensors on the least boundary") {
    GgufBuilder text = small_model(), vision = small_projector();
    for (GgufBuilder* file : {&text, &vision}) {
      file->add_alignment(8);
      file->tensors.insert(file->tensors.begin(), GgufBuilder::Tensor());
      GgufBuilder::Tensor& first = file->tensors.front();  // moves all others to odd multiples of 8 bytes
      first.name = "first";
      first.ne = {1};
      first.data = test::Bytes(4);
    }
    check_runs(text, vision);
  }
}

}  // namespace ocellus
