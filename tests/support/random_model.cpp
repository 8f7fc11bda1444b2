#include "tests/support/random_model.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/models/text_architecture.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/random.h"
#include "tests/support/weights.h"

namespace ocellus::test {
namespace {

/// The minimum per unit of scale that puts the mean of random codes near zero.
float centring_minimum(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_1: return -7.5f;
    case WeightFormat::kQ5_1: return -15.5f;
    case WeightFormat::kQ4_K: return 7.5f;
    case WeightFormat::kQ5_K: return 15.5f;
    case WeightFormat::kQ2_K: return 1.5f;
    default: return 0;
  }
}

void scale_block(WeightFormat format, float scale, uint8_t* block) {
  write_scales(format, scale, scale * centring_minimum(format), block);
}

/// Standard deviation of random codes at scale 1.
double code_deviation(WeightFormat format, Random& random) {
  const WeightFormatInfo& info = format_info(format);
  double sum = 0;
  constexpr int kBlocks = 64;
  std::vector<float> values(static_cast<size_t>(info.block_elements));
  for (int i = 0; i < kBlocks; ++i) {
    std::vector<uint8_t> block = random.bytes(info.block_bytes);
    scale_block(format, 1.0f, block.data());
    decode_row(format, block.data(), info.block_elements, values.data());
    for (const float value : values) sum += double{value} * value;
  }
  return std::sqrt(sum / (kBlocks * info.block_elements));
}

Bytes random_matrix(WeightFormat format, int64_t rows, int64_t cols, double deviation, Random& random) {
  const WeightFormatInfo& info = format_info(format);
  Bytes bytes = random.bytes(rows * row_bytes(format, cols));
  const double unit = info.block_elements > 1 ? deviation / code_deviation(format, random) : 0;
  for (uint8_t* block = bytes.data(); block != bytes.data() + bytes.size(); block += info.block_bytes) {
    const float value = random.normal(static_cast<float>(deviation));
    switch (format) {
      case WeightFormat::kF32: std::memcpy(block, &value, 4); break;
      case WeightFormat::kF16: write_half(block, value); break;
      case WeightFormat::kBF16: std::memcpy(block, reinterpret_cast<const uint8_t*>(&value) + 2, 2); break;
      default: scale_block(format, static_cast<float>(unit) * random.uniform(0.6f, 1.4f), block);
    }
  }
  return bytes;
}

/// Adds tensors of random weights to a file.
class Drawer {
 public:
  Drawer(GgufBuilder& file, uint64_t seed) : file_(file), random_(seed) {}

  /// Rows that turn inputs of size 1 into outputs of size `gain`.
  void matrix(const std::string& name, WeightFormat format, int64_t rows, int64_t cols, double gain = 1.0) {
    const auto ne = [](int64_t value) { return static_cast<uint64_t>(value); };
    const double deviation = gain / std::sqrt(static_cast<double>(cols));
    file_.add_tensor(name, format, {ne(cols), ne(rows)}, random_matrix(format, rows, cols, deviation, random_));
  }
  void convolution(const std::string& name, WeightFormat format, int patch, int rows) {
    const int64_t cols = int64_t{3} * patch * patch;
    const auto side = static_cast<uint64_t>(patch);
    file_.add_tensor(name, format, {side, side, 3, static_cast<uint64_t>(rows)},
                     random_matrix(format, rows, cols, 2.0 / std::sqrt(static_cast<double>(cols)), random_));
  }
  void vector(const std::string& name, const std::vector<float>& values) {
    file_.add_tensor(name, {values.size()}, values);
  }
  void norm(const std::string& name, int64_t width) { vector(name, random_.uniforms(width, 0.5f, 1.5f)); }
  void bias(const std::string& name, int64_t width) { vector(name, random_.normals(width, 0.4f)); }
  Random& random() { return random_; }

 private:
  GgufBuilder& file_;
  Random random_;
};

void append_code_point(std::string& text, int code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else {
    text += static_cast<char>(0xC0 | code >> 6);
    text += static_cast<char>(0x80 | (code & 0x3F));
  }
}

/// The spellings GPT-2 gave to bytes: printable Latin-1 as it is, the others from U+0100 on.
std::vector<std::string> byte_spellings() {
  std::vector<std::string> spellings(256);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool shown = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    append_code_point(spellings[static_cast<size_t>(byte)], shown ? byte : next++);
  }
  return spellings;
}

void add_vocabulary(GgufBuilder& file) {
  std::vector<std::string> tokens = byte_spellings();
  const std::string line_break = tokens['\n'];
  tokens.push_back(line_break + line_break);
  std::vector<int32_t> kinds(tokens.size(), 1);
  const auto add_special = [&](const std::string& text) {
    tokens.push_back(text);
    kinds.push_back(3);
  };
  for (const char* text : {"<|im_start|>", "<end_of_utterance>", "<fake_token_around_image>", "<global-img>"})
    add_special(text);
  for (char row = '1'; row <= '4'; ++row)
    for (char col = '1'; col <= '4'; ++col) add_special(std::string("<row_") + row + "_col_" + col + ">");
  while (tokens.size() < kRandomVocabulary) {
    tokens.push_back("[PAD" + std::to_string(tokens.size()) + "]");
    kinds.push_back(5);
  }
  file.add_string("tokenizer.ggml.model", "gpt2");
  file.add_string("tokenizer.ggml.pre", "smollm");
  file.add_string_array("tokenizer.ggml.tokens", tokens);
  file.add_i32_array("tokenizer.ggml.token_type", kinds);
  file.add_string_array("tokenizer.ggml.merges", {line_break + " " + line_break});
  file.add_u32("tokenizer.ggml.bos_token_id", 257);
  file.add_u32("tokenizer.ggml.eos_token_id", 258);
  file.add_bool("tokenizer.ggml.add_bos_token", false);
}

void add_text_facts(GgufBuilder& file, const TextRecipe& r) {
  const auto key = [&](const char* name) { return std::string(r.architecture) + "." + name; };
  const auto count = [&](const char* name, int value) { file.add_u32(key(name), static_cast<uint32_t>(value)); };
  file.add_string("general.architecture", r.architecture);
  count("block_count", r.layers);
  count("embedding_length", r.width);
  count("context_length", r.context_length);
  count("feed_forward_length", r.mlp_width);
  count("attention.head_count", r.query_heads);
  if (r.kv_heads != r.query_heads) count("attention.head_count_kv", r.kv_heads);
  if (r.head_dim * r.query_heads != r.width) {
    count("attention.key_length", r.head_dim);
    count("attention.value_length", r.head_dim);
  }
  file.add_f32(key("attention.layer_norm_rms_epsilon"), 1e-5f);
  if (r.window > 0) count("attention.sliding_window", r.window);
  if (r.window_period > 0) count("attention.sliding_window_pattern", r.window_period);
  if (r.local_rope_base > 0) file.add_f32(key("rope.freq_base_swa"), r.local_rope_base);
  if (r.rotated > 0) count("rope.dimension_count", r.rotated);
  if (r.rope_base > 0) file.add_f32(key("rope.freq_base"), r.rope_base);
  if (has_sections(r.architecture)) {
    // As Qwen3-VL's 24, 20, 20 of 64 pairs, so in smaller heads: the last pairs belong to time.
    const int pairs = (r.rotated > 0 ? r.rotated : r.head_dim) / 2, third = (pairs - 1) / 3;
    file.add_i32_array(key("rope.dimension_sections"), {pairs - 2 * third, third, third, 0});
  }
  if (r.linear_factor > 0) file.add_f32(key("rope.scaling.factor"), r.linear_factor);
  if (r.linear_factor > 0 && r.names_scaling) file.add_string(key("rope.scaling.type"), "linear");
}

void add_text_layer(Drawer& draw, const TextRecipe& r, int layer) {
  const std::string at = "blk." + std::to_string(layer) + ".";
  const WeightFormat second = r.mixed ? r.second_format : r.format;
  const int query_width = r.query_heads * r.head_dim;
  const int kv_width = r.kv_heads * r.head_dim;
  const auto linear = [&](const char* part, WeightFormat format, int rows, int cols, bool biased, double gain) {
    draw.matrix(at + part + ".weight", format, rows, cols, gain);
    if (biased) draw.bias(at + part + ".bias", rows);
  };
  draw.norm(at + "attn_norm.weight", r.width);
  if (r.fused_qkv) {
    linear("attn_qkv", r.format, query_width + 2 * kv_width, r.width, r.biases, 1.4);
  } else {
    linear("attn_q", r.format, query_width, r.width, r.biases, 1.4);
    linear("attn_k", r.format, kv_width, r.width, r.biases, 1.4);
    linear("attn_v", second, kv_width, r.width, r.biases, 1.4);
  }
  if (find_text_architecture(r.architecture)->normalise_heads != nullptr)
    for (const char* part : {"attn_q_norm.weight", "attn_k_norm.weight"}) draw.norm(at + part, r.head_dim);
  linear("attn_output", r.format, r.width, query_width, r.more_biases, 1.2);
  draw.norm(at + "ffn_norm.weight", r.width);
  if (find_text_architecture(r.architecture)->has_branch_norms)
    for (const char* part : {"post_attention_norm.weight", "post_ffw_norm.weight"}) draw.norm(at + part, r.width);
  if (find_text_architecture(r.architecture)->has_gate)
    linear("ffn_gate", r.format, r.mlp_width, r.width, r.more_biases, 1.5);
  linear("ffn_up", r.format, r.mlp_width, r.width, r.more_biases, 1.5);
  linear("ffn_down", second, r.width, r.mlp_width, r.more_biases, 1.0);
}

GgufBuilder build_text(const TextRecipe& r, uint64_t seed) {
  GgufBuilder file;
  Drawer draw(file, seed);
  add_text_facts(file, r);
  add_vocabulary(file);
  const bool scaled = find_text_architecture(r.architecture)->scales_embedding;
  const double embedding_gain = scaled ? 1.0 : std::sqrt(static_cast<double>(r.width));
  draw.matrix("token_embd.weight", r.format, kRandomVocabulary, r.width, embedding_gain);
  for (int layer = 0; layer < r.layers; ++layer) add_text_layer(draw, r, layer);
  draw.norm("output_norm.weight", r.width);
  if (!r.tied) draw.matrix("output.weight", r.mixed ? r.second_format : r.format, kRandomVocabulary, r.width);
  const int rotated = r.rotated > 0 ? r.rotated : r.head_dim;
  if (r.rope_factors) draw.vector("rope_freqs.weight", draw.random().uniforms(rotated / 2, 1.0f, 8.0f));
  return file;
}

/// Keys of towers of every kind.
template <class Recipe>
void add_tower_facts(GgufBuilder& file, const Recipe& r, float epsilon, int projection_dim) {
  const auto count = [&](const char* name, int value) {
    file.add_u32(std::string("clip.vision.") + name, static_cast<uint32_t>(value));
  };
  file.add_string("general.architecture", "clip");
  file.add_bool("clip.has_vision_encoder", true);
  if (r.activation == std::string("gelu")) file.add_bool("clip.use_gelu", true);
  if (r.activation == std::string("silu")) file.add_bool("clip.use_silu", true);
  count("image_size", r.image_size);
  count("patch_size", r.patch_size);
  count("embedding_length", r.width);
  count("feed_forward_length", r.mlp_width);
  count("block_count", r.layers);
  count("projection_dim", projection_dim);
  count("attention.head_count", r.heads);
  file.add_f32("clip.vision.attention.layer_norm_epsilon", epsilon);
  file.add_f32_array("clip.vision.image_mean", {0.5f, 0.4f, 0.45f});
  file.add_f32_array("clip.vision.image_std", {0.5f, 0.25f, 0.3f});
}

template <class Recipe>
void add_vision_layer(Drawer& draw, const Recipe& r, int layer, bool swapped_mlp) {
  const std::string at = "v.blk." + std::to_string(layer) + ".";
  const auto linear = [&](const char* part, int rows, int cols, double gain) {
    draw.matrix(at + part + ".weight", r.format, rows, cols, gain);
    draw.bias(at + part + ".bias", rows);
  };
  draw.norm(at + "ln1.weight", r.width);
  draw.bias(at + "ln1.bias", r.width);
  for (const char* part : {"attn_q", "attn_k", "attn_v"}) linear(part, r.width, r.width, 1.3);
  linear("attn_out", r.width, r.width, 1.2);
  draw.norm(at + "ln2.weight", r.width);
  draw.bias(at + "ln2.bias", r.width);
  linear(swapped_mlp ? "ffn_down" : "ffn_up", r.mlp_width, r.width, 1.5);
  linear(swapped_mlp ? "ffn_up" : "ffn_down", r.width, r.mlp_width, 1.0);
}

/// A convolution has rows too short for blocks; files keep it in half precision.
WeightFormat convolution_format(WeightFormat format) {
  return format_info(format).block_elements == 1 ? format : WeightFormat::kF16;
}

GgufBuilder build_vision(const VisionRecipe& r, uint64_t seed) {
  GgufBuilder file;
  Drawer draw(file, seed);
  add_tower_facts(file, r, 1e-6f, r.output_width);
  file.add_string("clip.projector_type", "idefics3");
  file.add_u32("clip.vision.projector.scale_factor", static_cast<uint32_t>(r.scale_factor));
  file.add_u32("clip.vision.preproc_image_size", static_cast<uint32_t>(r.longest_edge));
  const int grid = r.image_size / r.patch_size;
  draw.convolution("v.patch_embd.weight", convolution_format(r.format), r.patch_size, r.width);
  draw.bias("v.patch_embd.bias", r.width);
  draw.matrix("v.position_embd.weight", WeightFormat::kF32, grid * grid, r.width, 0.6 * std::sqrt(double{1} * r.width));
  for (int layer = 0; layer < r.layers; ++layer) add_vision_layer(draw, r, layer, r.swapped_mlp);
  draw.norm("v.post_ln.weight", r.width);
  draw.bias("v.post_ln.bias", r.width);
  draw.matrix("mm.model.fc.weight", r.format, r.output_width, r.width * r.scale_factor * r.scale_factor);
  return file;
}

GgufBuilder build_clip(const ClipRecipe& r, uint64_t seed) {
  GgufBuilder file;
  Drawer draw(file, seed);
  add_tower_facts(file, r, 1e-5f, r.is_old ? 768 : r.output_width);
  if (r.is_old) {
    file.add_bool("clip.has_text_encoder", false);
    file.add_bool("clip.has_llava_projector", true);
  } else {
    file.add_string("clip.projector_type", "mlp");
  }
  if (r.feature_layer > 0) file.add_u32_array("clip.vision.feature_layer", {static_cast<uint32_t>(r.feature_layer)});
  const int grid = r.image_size / r.patch_size;
  const double lively = std::sqrt(static_cast<double>(r.width));
  draw.vector("v.class_embd", draw.random().normals(r.width, 1.0f));
  draw.convolution("v.patch_embd.weight", convolution_format(r.format), r.patch_size, r.width);
  if (r.patch_bias) draw.bias("v.patch_embd.bias", r.width);
  draw.matrix("v.position_embd.weight", r.position_format, grid * grid + 1, r.width, 0.6 * lively);
  draw.norm("v.pre_ln.weight", r.width);
  draw.bias("v.pre_ln.bias", r.width);
  for (int layer = 0; layer < r.layers; ++layer) add_vision_layer(draw, r, layer, r.is_old);
  draw.matrix("mm.0.weight", r.format, r.projector_width, r.width, 1.5);
  draw.bias("mm.0.bias", r.projector_width);
  draw.matrix("mm.2.weight", r.format, r.output_width, r.projector_width, 1.0);
  draw.bias("mm.2.bias", r.output_width);
  return file;
}

}  // namespace

TemporaryModel::TemporaryModel(const TextRecipe& recipe, uint64_t seed) : TemporaryFile(build_text(recipe, seed)) {}

TemporaryModel::TemporaryModel(const VisionRecipe& recipe, uint64_t seed) : TemporaryFile(build_vision(recipe, seed)) {}

TemporaryModel::TemporaryModel(const ClipRecipe& recipe, uint64_t seed) : TemporaryFile(build_clip(recipe, seed)) {}

}  // namespace ocellus::test
