// Headers of a pair with a given shape: as a converter would write them, without tensor data.
#include <string_view>

#include "quant/gguf_header.h"
#include "runtime/models/model_shapes.h"

namespace ocellus {
namespace {

// Tokens in the order of their ids: one per byte, a double line break, the special ones, then generated words.
constexpr int32_t kByteTokens = 256;
constexpr std::string_view kChatTokens[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
constexpr std::string_view kVicunaTokens[] = {"<unk>", "<s>", "</s>"};
constexpr int32_t kFirstSpecial = kByteTokens + 1;
constexpr int32_t kVicunaStart = kFirstSpecial + 1;  // <s>
constexpr char kSpelledLineBreak[] = "\xC4\x8A";     // U+010A, see spell_byte()
constexpr int32_t kNormal = 1, kControl = 3;         // tokenizer.ggml.token_type

/// GPT-2's spelling of a byte: printable Latin-1 as itself, the others from U+0100 on in order.
ShapeText spell_byte(int32_t byte) {
  const auto is_printable = [](int32_t b) { return (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD); };
  int32_t code_point = byte;
  if (!is_printable(byte)) {
    code_point = 0x100;
    for (int32_t before = 0; before < byte; ++before) code_point += is_printable(before) ? 0 : 1;
  }
  if (code_point < 0x80) return ShapeText("%c", code_point);
  return ShapeText("%c%c", 0xC0 | code_point >> 6, 0x80 | (code_point & 0x3F));
}

bool speaks_vicuna(const ModelShape& shape) {
  const Family* family = family_of(shape.vision);
  return family != nullptr && family->speaks_vicuna;
}

/// Calls visit(text, kind) for every token.
template <class Visit>
void for_each_token(const ModelShape& shape, Visit visit) {
  const Family* family = family_of(shape.vision);
  int32_t count = 0;
  const auto emit = [&](std::string_view text, int32_t kind) {
    if (count++ < shape.text.vocabulary) visit(text, kind);
  };
  for (int32_t byte = 0; byte < kByteTokens; ++byte) emit(spell_byte(byte), kNormal);
  emit(ShapeText("%s%s", kSpelledLineBreak, kSpelledLineBreak), kNormal);
  for (const std::string_view token : speaks_vicuna(shape) ? kVicunaTokens : kChatTokens) emit(token, kControl);
  if (family != nullptr) {
    for (const std::string_view token : family->picture_tokens) emit(token, kControl);
    for (int32_t row = 1; row <= family->named_tiles; ++row)
      for (int32_t col = 1; col <= family->named_tiles; ++col) emit(ShapeText(family->tile_token, row, col), kControl);
  }
  while (count < shape.text.vocabulary) emit(ShapeText("\xC4\xA0w%d", count), kNormal);  // U+0120 spells a space
}

/// Returns the id of the token that ends answers.
int32_t end_token(const ModelShape& shape) {
  const Family* family = family_of(shape.vision);
  const std::string_view wanted = family != nullptr ? family->end_token : Family().end_token;
  int32_t id = 0, found = 0;
  for_each_token(shape, [&](std::string_view text, int32_t) {
    if (text == wanted) found = id;
    ++id;
  });
  return found;
}

void add_vocabulary(const ModelShape& shape, GgufHeaderWriter* file) {
  const int32_t count = shape.text.vocabulary;
  file->add_string("tokenizer.ggml.model", "gpt2");
  file->add_string("tokenizer.ggml.pre", shape.text.architecture->pre_tokenizer);
  file->begin_array("tokenizer.ggml.tokens", GgufType::kString, count);
  for_each_token(shape, [file](std::string_view text, int32_t) { file->append_string(text); });
  file->begin_array("tokenizer.ggml.token_type", GgufType::kI32, count);
  for_each_token(shape, [file](std::string_view, int32_t kind) { file->append_i32(kind); });
  file->begin_array("tokenizer.ggml.merges", GgufType::kString, 1);
  file->append_string(ShapeText("%s %s", kSpelledLineBreak, kSpelledLineBreak));
  const bool vicuna = speaks_vicuna(shape);
  file->add_u32("tokenizer.ggml.bos_token_id", vicuna ? kVicunaStart : kFirstSpecial);
  file->add_u32("tokenizer.ggml.eos_token_id", end_token(shape));
  file->add_bool("tokenizer.ggml.add_bos_token", vicuna);
  if (vicuna) file->add_string("tokenizer.chat_template", "USER: {{ question }}\nASSISTANT:");
}

void add_attention(const TextConfig& c, int32_t layer, std::string_view at, ShapeTensors* tensors) {
  const bool biased = c.architecture->has_qkv_biases;
  tensors->matrix(at, "attn_q", c.query_width(layer), c.width, biased);
  if (!c.shares(layer))
    for (const char* part : {"attn_k", "attn_v"}) tensors->matrix(at, part, c.kv_width(layer), c.width, biased);
  const bool has_head_norms = c.architecture->normalise_heads != nullptr;
  if (has_head_norms) tensors->norm(at, "attn_q_norm", c.head_dim_of(layer));
  if (has_head_norms && !c.shares(layer)) tensors->norm(at, "attn_k_norm", c.head_dim_of(layer));
  tensors->matrix(at, "attn_output", c.width, c.query_width(layer));
}

void add_convolution(const TextConfig& c, std::string_view at, GgufHeaderWriter* file, ShapeTensors* tensors) {
  tensors->matrix(at, "shortconv.in_proj", int64_t{3} * c.width, c.width);
  file->add_tensor(ShapeText("%.*sshortconv.conv.weight", static_cast<int>(at.size()), at.data()), WeightFormat::kF32,
                   {c.local.window, c.width});
  tensors->matrix(at, "shortconv.out_proj", c.width, c.width);
}

void add_text_layer(const TextConfig& c, int32_t layer, GgufHeaderWriter* file, ShapeTensors* tensors) {
  const ShapeText at("blk.%d.", layer);
  tensors->norm(at, "attn_norm", c.width);
  c.convolves(layer) ? add_convolution(c, at, file, tensors) : add_attention(c, layer, at, tensors);
  tensors->norm(at, "ffn_norm", c.width);
  if (c.architecture->has_branch_norms)
    for (const char* part : {"post_attention_norm", "post_ffw_norm"}) tensors->norm(at, part, c.width);
  if (c.architecture->has_gate) tensors->matrix(at, "ffn_gate", c.mlp_width_of(layer), c.width);
  tensors->matrix(at, "ffn_up", c.mlp_width_of(layer), c.width);
  tensors->matrix(at, "ffn_down", c.width, c.mlp_width_of(layer));
  if (c.layer_input_width == 0) return;
  tensors->matrix(at, "inp_gate", c.layer_input_width, c.width);
  tensors->matrix(at, "proj", c.width, c.layer_input_width);
  tensors->norm(at, "post_norm", c.width);
  tensors->norm(at, "layer_output_scale", 1);
}

/// Keys of models whose layers have inputs and heads of their own.
void add_gemma4_keys(const TextConfig& c, GgufHeaderWriter* file) {
  const auto key = [&](const char* name) { return ShapeText("%s.%s", c.architecture->name, name); };
  file->begin_array(key("attention.sliding_window_pattern"), GgufType::kBool, c.layer_count);
  for (int32_t layer = 0; layer < c.layer_count; ++layer) file->append_bool(c.local.has(layer));
  file->add_u32(key("attention.key_length_swa"), c.local.head_dim);
  file->add_u32(key("attention.value_length_swa"), c.local.head_dim);
  file->add_u32(key("rope.dimension_count_swa"), c.local.head_dim);
  file->add_f32(key("rope.freq_base_swa"), c.architecture->local_rope_base);
  file->add_u32(key("embedding_length_per_layer_input"), c.layer_input_width);
  file->add_f32(key("final_logit_softcapping"), c.logit_cap);
}

/// One number, or one by layer: none in those with a convolution.
void add_kv_heads(const TextConfig& c, GgufHeaderWriter* file) {
  const ShapeText key("%s.attention.head_count_kv", c.architecture->name);
  if (!c.local.convolve()) return file->add_u32(key, c.kv_heads);
  file->begin_array(key, GgufType::kI32, c.layer_count);
  for (int32_t layer = 0; layer < c.layer_count; ++layer) file->append_i32(c.convolves(layer) ? 0 : c.kv_heads);
  file->add_u32(ShapeText("%s.shortconv.l_cache", c.architecture->name), c.local.window);
}

void add_rope_keys(const TextConfig& c, GgufHeaderWriter* file) {
  const auto key = [&](const char* name) { return ShapeText("%s.%s", c.architecture->name, name); };
  file->add_f32(key("rope.freq_base"), c.rope.base);
  if (c.rope.position_scale != 1) {
    file->add_string(key("rope.scaling.type"), "linear");
    file->add_f32(key("rope.scaling.factor"), 1 / c.rope.position_scale);
  }
  if (c.yarn.used()) {
    file->add_string(key("rope.scaling.type"), "yarn");
    file->add_f32(key("rope.scaling.factor"), c.yarn.factor);
    file->add_u32(key("rope.scaling.original_context_length"), c.yarn.length);
    file->add_f32(key("rope.scaling.yarn_beta_fast"), c.yarn.fast);
    file->add_f32(key("rope.scaling.yarn_beta_slow"), c.yarn.slow);
    file->add_f32(key("rope.scaling.yarn_log_multiplier"), 1);
  }
  if (c.temperature.beta > 0) file->add_f32(key("attention.temperature_scale"), c.temperature.beta);
  if (!c.rope.sections.used()) return;
  file->begin_array(key("rope.dimension_sections"), GgufType::kI32, 4);
  for (const int32_t pairs : c.rope.sections.counts) file->append_i32(pairs);
  file->append_i32(0);
}

/// "SmolVLM-256M, random weights", or with the layers in between where some are left out.
ShapeText title_of(const ModelShape& shape) {
  const int32_t layers = shape.text.layer_count;
  for (int32_t i = 0; i < model_shape_count(); ++i)
    if (model_shape(i).name == shape.name && model_shape(i).text.layer_count != layers)
      return ShapeText("%s, %d layer%s, random weights", shape.name, layers, layers == 1 ? "" : "s");
  return ShapeText("%s, random weights", shape.name);
}

}  // namespace

Status describe_text_model(const ModelShape& shape, FileType type, Buffer<uint8_t>* out) {
  const TextConfig& c = shape.text;
  GgufHeaderWriter file;
  const auto count = [&](const char* key, int64_t value) {
    file.add_u32(ShapeText("%s.%s", c.architecture->name, key), value);
  };
  const auto number = [&](const char* key, float value) {
    file.add_f32(ShapeText("%s.%s", c.architecture->name, key), value);
  };
  file.add_string("general.architecture", c.architecture->name);
  file.add_string("general.name", title_of(shape));
  count("block_count", c.layer_count);
  count("context_length", c.context_length);
  count("embedding_length", c.width);
  if (c.sharing.count > 0) {
    file.begin_array(ShapeText("%s.feed_forward_length", c.architecture->name), GgufType::kI32, c.layer_count);
    for (int32_t layer = 0; layer < c.layer_count; ++layer) file.append_i32(c.mlp_width_of(layer));
    count("attention.shared_kv_layers", c.sharing.count);
  } else {
    count("feed_forward_length", c.mlp_width);
  }
  count("attention.head_count", c.query_heads);
  add_kv_heads(c, &file);
  count("attention.key_length", c.head_dim);
  count("attention.value_length", c.head_dim);
  if (c.has_windows()) count("attention.sliding_window", c.local.window);
  if (c.layer_input_width > 0) add_gemma4_keys(c, &file);
  number("attention.layer_norm_rms_epsilon", c.epsilon);
  count("rope.dimension_count", c.head_dim);
  add_rope_keys(c, &file);
  if (c.deepstack_layers > 0) count("n_deepstack_layers", c.deepstack_layers);
  count("vocab_size", c.vocabulary);
  add_vocabulary(shape, &file);
  ShapeTensors tensors(&file, {type,
                               {.layers = c.layer_count,
                                .value_layers = c.local.convolve() ? c.global_layers() : c.own_layers(),
                                .group = c.query_heads / c.kv_heads,
                                .tied = shape.tied}});
  tensors.matrix("", "token_embd", c.vocabulary, c.width);
  if (c.layer_input_width > 0) {
    const int64_t all = int64_t{c.layer_count} * c.layer_input_width;
    tensors.matrix("", "per_layer_token_embd", c.vocabulary, all);
    tensors.matrix("", "per_layer_model_proj", all, c.width);
    tensors.norm("", "per_layer_proj_norm", c.layer_input_width);
    tensors.norm("", "rope_freqs", c.head_dim / 2);
  }
  for (int32_t layer = 0; layer < c.layer_count; ++layer) add_text_layer(c, layer, &file, &tensors);
  tensors.norm("", c.architecture->final_norm, c.width);
  if (!shape.tied) tensors.matrix("", "output", c.vocabulary, c.width);
  return file.finish(out);
}

Status describe_vision_model(const ModelShape& shape, FileType type, Buffer<uint8_t>* out) {
  const VisionConfig& c = shape.vision;
  GgufHeaderWriter file;
  const auto count = [&](const char* key, int64_t value) { file.add_u32(ShapeText("clip.vision.%s", key), value); };
  file.add_string("general.architecture", "clip");
  file.add_string("general.name", title_of(shape));
  file.add_bool("clip.has_vision_encoder", true);
  file.add_string("clip.projector_type", c.family->projector);
  file.add_bool("clip.use_silu", c.activation == Activation::kSilu);
  file.add_bool("clip.use_gelu", c.activation == Activation::kGeluTanh || c.activation == Activation::kGeluErf);
  count("image_size", c.image_size);
  count("patch_size", c.patch_size);
  count("embedding_length", c.width);
  count("feed_forward_length", c.mlp_width);
  count("block_count", c.layer_count);
  count("projection_dim", c.output_width);
  count("attention.head_count", c.heads);
  file.add_f32("clip.vision.attention.layer_norm_epsilon", c.epsilon);
  file.add_floats("clip.vision.image_mean", c.image_mean, 3);
  file.add_floats("clip.vision.image_std", c.image_std, 3);
  const WeightFormat format = type.mixture == Mixture::kPure ? type.main : WeightFormat::kQ8_0;
  const WeightFormat patch_format = format == WeightFormat::kF16 ? format : WeightFormat::kF32;
  const auto add_patches = [&](const char* name) {
    file.add_tensor(name, patch_format, {c.patch_size, c.patch_size, 3, c.width});
  };
  add_patches("v.patch_embd.weight");
  if (c.frame_kernels > 1) add_patches("v.patch_embd.weight.1");
  const int64_t positions = c.position_rows();
  if (c.axis_positions > 0)
    file.add_tensor("v.position_embd.weight", WeightFormat::kF32, {c.width, c.axis_positions, 2});
  else if (positions > 0)
    file.add_tensor("v.position_embd.weight", WeightFormat::kF32, {c.width, positions});
  ShapeTensors tensors(&file, {format, {}});
  if (c.class_rows > 0) file.add_tensor("v.class_embd", WeightFormat::kF32, {c.width});
  const Family& family = *family_of(c);
  for (int32_t layer = 0; layer < c.layer_count; ++layer)
    family.describe_layer(c, ShapeText("v.blk.%d.", layer), &tensors);
  family.describe(c, &file, &tensors);
  return file.finish(out);
}

}  // namespace ocellus
