// The headers of a pair that has a given shape: what a converter would write, up to where the tensor data begins.
#include <cstdio>
#include <string_view>

#include "quant/gguf_header.h"
#include "runtime/models/model_shapes.h"

namespace ocellus {
namespace {

// Tokens, in the order of their ids: one per byte, a double line break, the special ones, then made-up words.
constexpr int32_t kByteTokens = 256;
constexpr std::string_view kChatTokens[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
constexpr std::string_view kLlavaTokens[] = {"<unk>", "<s>", "</s>"};
constexpr std::string_view kPictureTokens[] = {"<end_of_utterance>", "<fake_token_around_image>", "<image>",
                                               "<global-img>"};
constexpr int32_t kFirstSpecial = kByteTokens + 1;
constexpr int32_t kLlavaStart = kFirstSpecial + 1;  // <s>
constexpr int32_t kChatEnd = kFirstSpecial + 2;     // <|im_end|>, </s>
constexpr int32_t kPictureEnd = kFirstSpecial + 3;  // <end_of_utterance>
constexpr int32_t kTilesPerSide = 6;                // as the vocabulary of SmolVLM has them
constexpr char kSpelledLineBreak[] = "\xC4\x8A";    // U+010A, see spell_byte()
constexpr int32_t kNormal = 1, kControl = 3;        // tokenizer.ggml.token_type

/// Formatted text of at most 95 bytes.
class Text {
 public:
  template <class... Values>
  explicit Text(const char* format, Values... values) {
    std::snprintf(text_, sizeof text_, format, values...);
  }
  operator std::string_view() const { return text_; }

 private:
  char text_[96];
};

/// The spelling GPT-2 gave to a byte: printable Latin-1 as it is, the others from U+0100 on in their order.
Text spell_byte(int32_t byte) {
  const auto is_printable = [](int32_t b) { return (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD); };
  int32_t code_point = byte;
  if (!is_printable(byte)) {
    code_point = 0x100;
    for (int32_t before = 0; before < byte; ++before) code_point += is_printable(before) ? 0 : 1;
  }
  if (code_point < 0x80) return Text("%c", code_point);
  return Text("%c%c", 0xC0 | code_point >> 6, 0x80 | (code_point & 0x3F));
}

/// Calls visit(text, kind) for every token.
template <class Visit>
void for_each_token(const ModelShape& shape, Visit visit) {
  int32_t count = 0;
  const auto emit = [&](std::string_view text, int32_t kind) {
    if (count++ < shape.text.vocabulary) visit(text, kind);
  };
  for (int32_t byte = 0; byte < kByteTokens; ++byte) emit(spell_byte(byte), kNormal);
  emit(Text("%s%s", kSpelledLineBreak, kSpelledLineBreak), kNormal);
  for (const std::string_view token : shape.is_llava() ? kLlavaTokens : kChatTokens) emit(token, kControl);
  if (shape.has_vision() && !shape.is_llava()) {
    for (const std::string_view token : kPictureTokens) emit(token, kControl);
    for (int32_t row = 1; row <= kTilesPerSide; ++row)
      for (int32_t col = 1; col <= kTilesPerSide; ++col) emit(Text("<row_%d_col_%d>", row, col), kControl);
  }
  while (count < shape.text.vocabulary) emit(Text("\xC4\xA0w%d", count), kNormal);  // U+0120 spells a space
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
  file->append_string(Text("%s %s", kSpelledLineBreak, kSpelledLineBreak));
  const bool is_llava = shape.is_llava();
  file->add_u32("tokenizer.ggml.bos_token_id", is_llava ? kLlavaStart : kFirstSpecial);
  file->add_u32("tokenizer.ggml.eos_token_id", shape.has_vision() && !is_llava ? kPictureEnd : kChatEnd);
  file->add_bool("tokenizer.ggml.add_bos_token", is_llava);
  if (is_llava) file->add_string("tokenizer.chat_template", "USER: {{ question }}\nASSISTANT:");
}

/// Adds tensors under "{prefix}{part}.weight" and ".bias".
class Tensors {
 public:
  Tensors(GgufHeaderWriter* file, WeightFormat format) : file_(file), format_(format) {}

  void matrix(std::string_view prefix, const char* part, int64_t rows, int64_t cols, bool biased = false) {
    file_->add_tensor(name(prefix, part, "weight"), format_that_fits(format_, cols), {cols, rows});
    if (biased) file_->add_tensor(name(prefix, part, "bias"), WeightFormat::kF32, {rows});
  }
  void norm(std::string_view prefix, const char* part, int64_t width, bool biased = false) {
    file_->add_tensor(name(prefix, part, "weight"), WeightFormat::kF32, {width});
    if (biased) file_->add_tensor(name(prefix, part, "bias"), WeightFormat::kF32, {width});
  }

 private:
  static Text name(std::string_view prefix, const char* part, const char* suffix) {
    return Text("%.*s%s.%s", static_cast<int>(prefix.size()), prefix.data(), part, suffix);
  }

  GgufHeaderWriter* file_;
  WeightFormat format_;
};

void add_text_layer(const TextConfig& c, int32_t layer, Tensors* tensors) {
  const Text at("blk.%d.", layer);
  const bool biased = c.architecture->has_qkv_biases;
  tensors->norm(at, "attn_norm", c.width);
  tensors->matrix(at, "attn_q", c.query_width(), c.width, biased);
  tensors->matrix(at, "attn_k", c.kv_width(), c.width, biased);
  tensors->matrix(at, "attn_v", c.kv_width(), c.width, biased);
  if (c.architecture->has_head_norms)
    for (const char* part : {"attn_q_norm", "attn_k_norm"}) tensors->norm(at, part, c.head_dim);
  tensors->matrix(at, "attn_output", c.width, c.query_width());
  tensors->norm(at, "ffn_norm", c.width);
  tensors->matrix(at, "ffn_gate", c.mlp_width, c.width);
  tensors->matrix(at, "ffn_up", c.mlp_width, c.width);
  tensors->matrix(at, "ffn_down", c.width, c.mlp_width);
}

void add_vision_layer(const VisionConfig& c, int32_t layer, Tensors* tensors) {
  const Text at("v.blk.%d.", layer);
  tensors->norm(at, "ln1", c.width, true);
  for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_out"}) tensors->matrix(at, part, c.width, c.width, true);
  tensors->norm(at, "ln2", c.width, true);
  tensors->matrix(at, "ffn_up", c.mlp_width, c.width, true);
  tensors->matrix(at, "ffn_down", c.width, c.mlp_width, true);
}

}  // namespace

Status describe_text_model(const ModelShape& shape, WeightFormat format, Buffer<uint8_t>* out) {
  const TextConfig& c = shape.text;
  GgufHeaderWriter file;
  const auto count = [&](const char* key, int64_t value) {
    file.add_u32(Text("%s.%s", c.architecture->name, key), value);
  };
  const auto number = [&](const char* key, float value) {
    file.add_f32(Text("%s.%s", c.architecture->name, key), value);
  };
  file.add_string("general.architecture", c.architecture->name);
  file.add_string("general.name", Text("%s, random weights", shape.name));
  count("block_count", c.layer_count);
  count("context_length", c.context_length);
  count("embedding_length", c.width);
  count("feed_forward_length", c.mlp_width);
  count("attention.head_count", c.query_heads);
  count("attention.head_count_kv", c.kv_heads);
  count("attention.key_length", c.head_dim);
  count("attention.value_length", c.head_dim);
  number("attention.layer_norm_rms_epsilon", c.epsilon);
  count("rope.dimension_count", c.head_dim);
  number("rope.freq_base", c.rope.base);
  count("vocab_size", c.vocabulary);
  add_vocabulary(shape, &file);
  Tensors tensors(&file, format);
  tensors.matrix("", "token_embd", c.vocabulary, c.width);
  for (int32_t layer = 0; layer < c.layer_count; ++layer) add_text_layer(c, layer, &tensors);
  tensors.norm("", "output_norm", c.width);
  if (!shape.tied) tensors.matrix("", "output", c.vocabulary, c.width);
  return file.finish(out);
}

namespace {

void add_siglip_parts(const VisionConfig& c, GgufHeaderWriter* file, Tensors* tensors) {
  file->add_tensor("v.patch_embd.bias", WeightFormat::kF32, {c.width});
  tensors->norm("", "v.post_ln", c.width, true);
}

void add_clip_parts(const VisionConfig& c, GgufHeaderWriter* file, Tensors* tensors) {
  file->add_tensor("v.class_embd", WeightFormat::kF32, {c.width});
  tensors->norm("", "v.pre_ln", c.width, true);
}

void add_idefics3_projector(const VisionConfig& c, GgufHeaderWriter* file, Tensors* tensors) {
  file->add_u32("clip.vision.projector.scale_factor", c.scale_factor);
  file->add_u32("clip.vision.preproc_image_size", c.longest_edge);
  tensors->matrix("", "mm.model.fc", c.output_width, c.joined_width());
}

void add_mlp_projector(const VisionConfig& c, Tensors* tensors) {
  tensors->matrix("", "mm.0", c.projector_width, c.width, true);
  tensors->matrix("", "mm.2", c.output_width, c.projector_width, true);
}

}  // namespace

Status describe_vision_model(const ModelShape& shape, WeightFormat format, Buffer<uint8_t>* out) {
  const VisionConfig& c = shape.vision;
  GgufHeaderWriter file;
  const auto count = [&](const char* key, int64_t value) { file.add_u32(Text("clip.vision.%s", key), value); };
  file.add_string("general.architecture", "clip");
  file.add_string("general.name", Text("%s, random weights", shape.name));
  file.add_bool("clip.has_vision_encoder", true);
  file.add_string("clip.projector_type", projector_name(c.projector));
  file.add_bool("clip.use_gelu", c.activation == Activation::kGeluTanh);
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
  // A convolution's rows are a patch wide, too short for blocks.
  const WeightFormat patch_format = format_info(format).block_elements == 1 ? format : WeightFormat::kF16;
  file.add_tensor("v.patch_embd.weight", patch_format, {c.patch_size, c.patch_size, 3, c.width});
  file.add_tensor("v.position_embd.weight", WeightFormat::kF32, {c.width, c.rows_per_view()});
  Tensors tensors(&file, format);
  switch (c.tower) {
    case TowerKind::kSiglip: add_siglip_parts(c, &file, &tensors); break;
    case TowerKind::kClip: add_clip_parts(c, &file, &tensors); break;
  }
  for (int32_t layer = 0; layer < c.layer_count; ++layer) add_vision_layer(c, layer, &tensors);
  switch (c.projector) {
    case ProjectorKind::kIdefics3: add_idefics3_projector(c, &file, &tensors); break;
    case ProjectorKind::kMlp: add_mlp_projector(c, &tensors); break;
  }
  return file.finish(out);
}

}  // namespace ocellus
