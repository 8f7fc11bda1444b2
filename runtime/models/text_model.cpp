#include "runtime/models/text_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "kernels/base/kv_run.h"
#include "quant/gguf_names.h"
#include "runtime/models/text_keys.h"

namespace ocellus {
namespace {

Status read_architecture(const GgufFile& file, TextConfig* c) {
  std::string_view name;
  OCELLUS_TRY(file.require_string("general.architecture", &name));
  if (name == "clip")
    return OCELLUS_FAIL(Code::kBadFile, "general.architecture is 'clip': this is an mmproj file, not a language model");
  c->architecture = find_text_architecture(name);
  if (c->architecture != nullptr) return {};
  char names[256] = {};
  for (const TextArchitecture& architecture : kTextArchitectures) {
    const size_t used = std::strlen(names);
    std::snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", architecture.name);
  }
  return OCELLUS_FAIL(Code::kUnsupported, "general.architecture '%.*s' is not supported: this build runs %s",
                      shown_bytes(name), name.data(), names);
}

/// Reads a head's length from the keys of its keys and of its values.
Status read_head_length(TextKeys& keys, const char* key_length, const char* value_length, int32_t* out) {
  OCELLUS_TRY(keys.read(key_length, kMaxHeadDim, out));
  int32_t length = *out;
  OCELLUS_TRY(keys.read(value_length, kMaxHeadDim, &length));
  if (length != *out)
    return OCELLUS_FAIL(Code::kUnsupported, "%s %d and %s %d differ", key_length, *out, value_length, length);
  if (*out >= 8 && *out <= kMaxHeadDim && *out % 8 == 0) return {};
  return OCELLUS_FAIL(Code::kUnsupported,
                      "a head dimension of %d is not supported: it must be a multiple of 8 up to %d", *out,
                      kMaxHeadDim);
}

Status read_heads(TextKeys& keys, TextConfig* c) {
  const TextKeys::Layers all{0, c->layer_count, c->layer_count};
  OCELLUS_TRY(keys.read_count("attention.head_count", kMaxHeads, all, &c->query_heads));
  if (c->query_heads < 1) return OCELLUS_FAIL(Code::kBadFile, "%s is missing or 0", keys.key("attention.head_count"));
  c->kv_heads = c->query_heads;
  LayerSet* const none = c->architecture->has_convolutions ? &c->local.convolutions : nullptr;
  OCELLUS_TRY(keys.read_count("attention.head_count_kv", kMaxHeads, all, &c->kv_heads, none));
  if (c->kv_heads < 1 || c->query_heads % c->kv_heads != 0)
    return OCELLUS_FAIL(Code::kBadFile, "attention.head_count_kv %d does not divide attention.head_count %d",
                        c->kv_heads, c->query_heads);
  if (c->query_heads / c->kv_heads > 32)
    return OCELLUS_FAIL(Code::kUnsupported,
                        "attention.head_count %d over attention.head_count_kv %d is more than the 32 this build runs",
                        c->query_heads, c->kv_heads);
  c->head_dim = c->width / c->query_heads;
  return read_head_length(keys, "attention.key_length", "attention.value_length", &c->head_dim);
}

/// Rotated vectors that are longer by a magnitude are scores that are larger by its square.
Status read_yarn(TextKeys& keys, TextConfig* c) {
  YarnScaling& yarn = c->yarn;
  float magnitude = 1.0f, share = 0;
  OCELLUS_TRY(keys.require("rope.scaling.original_context_length", kMaxContext, &yarn.length));
  OCELLUS_TRY(keys.require("rope.scaling.factor", &yarn.factor));
  OCELLUS_TRY(keys.read("rope.scaling.yarn_beta_fast", &yarn.fast));
  OCELLUS_TRY(keys.read("rope.scaling.yarn_beta_slow", &yarn.slow));
  OCELLUS_TRY(keys.read("rope.scaling.yarn_log_multiplier", &share));
  OCELLUS_TRY(keys.read("rope.scaling.attn_factor", &magnitude));
  const float grown = 0.1f * std::log(yarn.factor);
  magnitude *= (1.0f + grown) / (1.0f + share * grown);
  c->temperature.scale = magnitude * magnitude;
  if (yarn.factor >= 1 && yarn.slow > 0 && yarn.fast >= yarn.slow && std::isfinite(yarn.factor * yarn.fast) &&
      c->rope.base > 1 && share >= 0 && magnitude > 0 && std::isfinite(c->temperature.scale))
    return {};
  return OCELLUS_FAIL(
      Code::kBadFile,
      "rope.scaling.factor %g, yarn_beta_fast %g, yarn_beta_slow %g and rope.freq_base %g are no scaling "
      "by YaRN",
      static_cast<double>(yarn.factor), static_cast<double>(yarn.fast), static_cast<double>(yarn.slow),
      static_cast<double>(c->rope.base));
}

Status read_rope(TextKeys& keys, TextConfig* c) {
  c->rope.pairing = c->architecture->pairing;
  c->rope.rotated = c->head_dim;
  OCELLUS_TRY(keys.read("rope.dimension_count", c->head_dim, &c->rope.rotated));
  if (c->rope.rotated < 2 || c->rope.rotated % 2 != 0)
    return OCELLUS_FAIL(Code::kBadFile, "rope.dimension_count %d is not a positive even number", c->rope.rotated);
  OCELLUS_TRY(keys.read("rope.freq_base", &c->rope.base));
  if (!(c->rope.base > 0)) return OCELLUS_FAIL(Code::kBadFile, "rope.freq_base must be positive");
  std::string_view scaling = "linear";  // a factor without a type is linear
  OCELLUS_TRY(keys.read("rope.scaling.type", &scaling));
  if (scaling == "none") return {};
  if (scaling == "yarn") return read_yarn(keys, c);
  if (scaling != "linear")
    return OCELLUS_FAIL(Code::kUnsupported,
                        "rope.scaling.type '%.*s' is not supported: this build runs none, linear and yarn",
                        shown_bytes(scaling), scaling.data());
  float factor = 1.0f;
  OCELLUS_TRY(keys.read("rope.scale_linear", &factor));  // the name in old files
  OCELLUS_TRY(keys.read("rope.scaling.factor", &factor));
  c->rope.position_scale = 1.0f / factor;
  if (!(factor > 0) || !std::isfinite(c->rope.position_scale))
    return OCELLUS_FAIL(Code::kBadFile, "rope.scaling.factor %g is not a positive number that can be divided by",
                        static_cast<double>(factor));
  return {};
}

/// Reads attention.sliding_window_pattern: one number, or for every layer whether it has a window.
Status read_window_period(const GgufFile& file, TextKeys& keys, const TextConfig& c, int32_t* period) {
  const GgufEntry* entry = file.find(keys.key("attention.sliding_window_pattern"));
  if (entry == nullptr || entry->type != GgufType::kArray) {
    OCELLUS_TRY(keys.read("attention.sliding_window_pattern", kMaxLayers, period));
    return *period > 0 ? Status() : OCELLUS_FAIL(Code::kBadFile, "attention.sliding_window_pattern is 0");
  }
  OCELLUS_TRY(file.read_array(keys.key("attention.sliding_window_pattern"), GgufType::kBool, &entry));
  if (entry->count != static_cast<uint64_t>(c.layer_count))
    return OCELLUS_FAIL(Code::kBadFile, "attention.sliding_window_pattern has %llu values for %d layers",
                        static_cast<unsigned long long>(entry->count), c.layer_count);
  const uint8_t* const first = entry->payload;
  *period = static_cast<int32_t>(std::find(first, first + c.layer_count, 0) - first) + 1;
  for (int32_t layer = 0; layer < c.layer_count; ++layer)
    if ((first[layer] != 0) != ((layer + 1) % *period != 0))
      return OCELLUS_FAIL(Code::kUnsupported,
                          "attention.sliding_window_pattern is not regular: this build runs models in which every n-th "
                          "layer sees all positions");
  return {};
}

Status read_windows(const GgufFile& file, TextKeys& keys, TextConfig* c) {
  int32_t window = 0;
  OCELLUS_TRY(keys.read("attention.sliding_window", kMaxContext, &window));
  if (window == 0 && c->architecture->window_period > 0 && file.find(keys.key("attention.sliding_window")) != nullptr)
    return OCELLUS_FAIL(Code::kBadFile, "attention.sliding_window is 0, but a layer sees at least its own position");
  if (window == 0) return {};
  // Inside one window a sliding-window model attends to everything, so staying inside it is exact.
  if (c->architecture->window_period == 0) {
    c->context_length = std::min(c->context_length, window);
    return {};
  }
  c->local.period = c->architecture->window_period;
  OCELLUS_TRY(read_window_period(file, keys, *c, &c->local.period));
  c->local.window = window;
  c->local.head_dim = c->head_dim;
  OCELLUS_TRY(read_head_length(keys, "attention.key_length_swa", "attention.value_length_swa", &c->local.head_dim));
  c->local.rope = {.pairing = c->rope.pairing,
                   .rotated = std::min(c->rope.rotated, c->local.head_dim),
                   .base = c->architecture->local_rope_base};
  OCELLUS_TRY(keys.read("rope.dimension_count_swa", c->local.head_dim, &c->local.rope.rotated));
  if (c->local.rope.rotated < 2 || c->local.rope.rotated % 2 != 0)
    return OCELLUS_FAIL(Code::kBadFile, "rope.dimension_count_swa %d is not a positive even number",
                        c->local.rope.rotated);
  OCELLUS_TRY(keys.read("rope.freq_base_swa", &c->local.rope.base));
  if (!(c->local.rope.base > 0)) return OCELLUS_FAIL(Code::kBadFile, "rope.freq_base_swa must be positive");
  return {};
}

/// Reads which layers share keys and values, and their width.
Status read_sharing(TextKeys& keys, TextConfig* c) {
  OCELLUS_TRY(keys.read("attention.shared_kv_layers", c->layer_count, &c->sharing.count));
  const int32_t own = c->own_layers();
  OCELLUS_TRY(
      keys.read_count("feed_forward_length", kMaxWidth * 8, {0, std::max(own, 1), c->layer_count}, &c->mlp_width));
  if (c->mlp_width < 1) return OCELLUS_FAIL(Code::kBadFile, "%s is missing or 0", keys.key("feed_forward_length"));
  c->sharing.mlp_width = c->mlp_width;
  return keys.read_count("feed_forward_length", kMaxWidth * 8, {own, c->layer_count, c->layer_count},
                         &c->sharing.mlp_width);
}

/// Fails unless there is a layer of either kind for those that share its keys and values.
Status check_sharing(const TextConfig& c) {
  for (int32_t layer = c.own_layers(); layer < c.layer_count; ++layer) {
    if (c.own_layers() > 0 && c.local.has(c.source_layer(layer)) == c.local.has(layer)) continue;
    return OCELLUS_FAIL(Code::kBadFile,
                        "attention.shared_kv_layers is %d of %d layers, so that none has keys and values for layer %d",
                        c.sharing.count, c.layer_count, layer);
  }
  return {};
}

/// Refuses arithmetic of some models of a known architecture that this build does not have.
Status check_variant(TextKeys& keys, TextConfig* c) {
  float cap = 0;
  OCELLUS_TRY(keys.read("attn_logit_softcapping", &cap));
  if (cap != 0)
    return OCELLUS_FAIL(Code::kUnsupported, "%s is not supported: this build caps no scores",
                        keys.key("attn_logit_softcapping"));
  OCELLUS_TRY(keys.read("final_logit_softcapping", &c->logit_cap));
  if (!(c->logit_cap >= 0) || !std::isfinite(c->logit_cap))
    return OCELLUS_FAIL(Code::kBadFile, "%s is not a positive number", keys.key("final_logit_softcapping"));
  int32_t predicting_layers = 0;
  OCELLUS_TRY(keys.read("nextn_predict_layers", kMaxLayers, &predicting_layers));
  if (predicting_layers != 0)
    return OCELLUS_FAIL(Code::kUnsupported, "%s is %d: layers that predict further tokens are not supported",
                        keys.key("nextn_predict_layers"), predicting_layers);
  if (c->architecture->unlike_scale_layers == c->layer_count)
    return OCELLUS_FAIL(Code::kUnsupported,
                        "%s with %d layers is not supported: it scales attention by another number than the square "
                        "root of its heads' length",
                        c->architecture->name, c->layer_count);
  return {};
}

/// Some converters store query, key and value as one matrix `name`, in this order.
Status bind_fused_qkv(const LayerBinder& layer, const TextConfig& c, int32_t index, const char* name, TextLayer* out) {
  const int64_t queries = c.query_width(index), keys = c.shares(index) ? 0 : c.kv_width(index);
  Linear all;
  OCELLUS_TRY(layer.linear(name, queries + 2 * keys, c.width, &all));
  if (all.weight.data == nullptr) return {};  // only checked, nothing is loaded
  const auto part = [&all](int64_t first, int64_t count) {
    return Linear{all.weight.slice_rows(first, count), all.bias == nullptr ? nullptr : all.bias + first};
  };
  out->query = part(0, queries);
  if (c.shares(index)) return {};
  out->key = part(queries, keys);
  out->value = part(queries + keys, keys);
  return {};
}

/// Files may hold keys and values of layers that share another's: these are not used.
Status bind_qkv(const LayerBinder& layer, const TextConfig& c, int32_t index, TextLayer* out) {
  const bool shares = c.shares(index);
  if (layer.find("attn_qkv") != nullptr) {
    OCELLUS_TRY(bind_fused_qkv(layer, c, index, "attn_qkv", out));
  } else {
    OCELLUS_TRY(layer.linear("attn_q", c.query_width(index), c.width, &out->query));
    if (!shares) OCELLUS_TRY(layer.linear("attn_k", c.kv_width(index), c.width, &out->key));
    if (!shares) OCELLUS_TRY(layer.linear("attn_v", c.kv_width(index), c.width, &out->value));
  }
  if (c.architecture->normalise_heads == nullptr) return {};
  OCELLUS_TRY(layer.norm("attn_q_norm", c.head_dim_of(index), &out->query_norm));
  return shares ? Status() : layer.norm("attn_k_norm", c.head_dim_of(index), &out->key_norm);
}

Status bind_attention(const LayerBinder& layer, const TextConfig& c, int32_t index, TextLayer* out) {
  OCELLUS_TRY(bind_qkv(layer, c, index, out));
  return layer.linear("attn_output", c.width, c.query_width(index), &out->attention_output);
}

Status bind_convolution(const LayerBinder& layer, const TextConfig& c, int32_t index, TextLayer* out) {
  if (layer.find("attn_q") != nullptr)
    return OCELLUS_FAIL(
        Code::kBadFile,
        "tensor 'blk.%d.attn_q.weight' is of a layer that attention.head_count_kv says to have no heads", index);
  OCELLUS_TRY(bind_fused_qkv(layer, c, index, "shortconv.in_proj", out));
  Linear taps;
  OCELLUS_TRY(layer.linear("shortconv.conv", c.width, c.local.window, &taps));
  const WeightFormat format = layer.find("shortconv.conv")->format;
  if (format != WeightFormat::kF32)
    return OCELLUS_FAIL(Code::kUnsupported, "tensor 'blk.%d.shortconv.conv.weight' is %s: this build runs F32", index,
                        format_info(format).name);
  out->convolution = reinterpret_cast<const float*>(taps.weight.data);
  return layer.linear("shortconv.out_proj", c.width, c.width, &out->attention_output);
}

Status bind_layer_input(const LayerBinder& layer, const TextConfig& c, LayerInput* out) {
  Linear gate, map;
  OCELLUS_TRY(layer.linear("inp_gate", c.layer_input_width, c.width, &gate));
  OCELLUS_TRY(layer.linear("proj", c.width, c.layer_input_width, &map));
  out->gate = gate.weight;
  out->map = map.weight;
  OCELLUS_TRY(layer.norm("post_norm", c.width, &out->norm));
  return layer.optional_scalar("layer_output_scale", "weight", &out->scale);
}

Status bind_layer(const LayerBinder& layer, const TextConfig& c, int32_t index, TextLayer* out) {
  OCELLUS_TRY(layer.norm("attn_norm", c.width, &out->attention_norm));
  OCELLUS_TRY((c.convolves(index) ? bind_convolution : bind_attention)(layer, c, index, out));
  OCELLUS_TRY(layer.norm("ffn_norm", c.width, &out->mlp_norm));
  if (c.architecture->has_branch_norms) {
    OCELLUS_TRY(layer.norm("post_attention_norm", c.width, &out->attention_output_norm));
    OCELLUS_TRY(layer.norm("post_ffw_norm", c.width, &out->mlp_output_norm));
  }
  const int64_t wide = c.mlp_width_of(index);
  if (c.architecture->has_gate) OCELLUS_TRY(layer.linear("ffn_gate", wide, c.width, &out->mlp_gate));
  OCELLUS_TRY(layer.linear("ffn_up", wide, c.width, &out->mlp_up));
  OCELLUS_TRY(layer.linear("ffn_down", c.width, wide, &out->mlp_down));
  return c.layer_input_width > 0 ? bind_layer_input(layer, c, &out->input) : Status();
}

Status bind_layer_inputs(const TensorBinder& binder, const TextConfig& c, LayerInputs* out) {
  const int64_t all = int64_t{c.layer_count} * c.layer_input_width;
  OCELLUS_TRY(binder.matrix(kLayerInputTable, c.vocabulary, all, &out->table));
  OCELLUS_TRY(binder.matrix("per_layer_model_proj.weight", all, c.width, &out->map));
  return binder.vector("per_layer_proj_norm.weight", c.layer_input_width, &out->norm);
}

/// Under the architecture's own name, or the usual one.
Status bind_final_norm(const TensorBinder& binder, const TextConfig& c, const float** out) {
  constexpr const char* kUsual = "output_norm.weight";
  char name[64];
  std::snprintf(name, sizeof name, "%s.weight", c.architecture->final_norm);
  return binder.vector(binder.has(kUsual) ? kUsual : name, c.width, out);
}

/// Fails if there are further layers than the file counts: the first ones alone would answer, but not as the model
/// does.
Status check_layer_count(const GgufFile& file, const TextConfig& c) {
  constexpr std::string_view kPrefix = "blk.";
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name.substr(0, kPrefix.size()) != kPrefix) continue;
    int64_t layer = 0;
    const char* const end = tensor.name.data() + tensor.name.size();
    if (std::from_chars(tensor.name.data() + kPrefix.size(), end, layer).ec != std::errc() || layer < c.layer_count)
      continue;
    return OCELLUS_FAIL(Code::kBadFile, "tensor '%.*s' is of a further layer than the %d of %s.block_count",
                        shown_bytes(tensor.name), tensor.name.data(), c.layer_count, c.architecture->name);
  }
  return {};
}

}  // namespace

Status read_text_config(const GgufFile& file, TextConfig* out) {
  TextConfig c;
  OCELLUS_TRY(read_architecture(file, &c));
  TextKeys keys(file, c.architecture->name);
  OCELLUS_TRY(keys.require("block_count", kMaxLayers, &c.layer_count));
  OCELLUS_TRY(keys.require("embedding_length", kMaxWidth, &c.width));
  OCELLUS_TRY(keys.require("context_length", kMaxContext, &c.context_length));
  OCELLUS_TRY(read_sharing(keys, &c));
  OCELLUS_TRY(read_heads(keys, &c));
  OCELLUS_TRY(keys.require("attention.layer_norm_rms_epsilon", &c.epsilon));
  if (!(c.epsilon >= 0)) return OCELLUS_FAIL(Code::kBadFile, "attention.layer_norm_rms_epsilon is negative");
  OCELLUS_TRY(read_rope(keys, &c));
  OCELLUS_TRY(keys.read("n_deepstack_layers", c.layer_count, &c.deepstack_layers));
  OCELLUS_TRY(read_windows(file, keys, &c));
  OCELLUS_TRY(check_sharing(c));
  if (c.architecture->read != nullptr) OCELLUS_TRY(c.architecture->read(keys, &c));
  OCELLUS_TRY(check_variant(keys, &c));
  const GgufTensor* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) return OCELLUS_FAIL(Code::kBadFile, "tensor 'token_embd.weight' is missing");
  if (embedding->rows() < 1 || embedding->rows() > kMaxVocabulary)
    return OCELLUS_FAIL(Code::kBadFile, "tensor 'token_embd.weight' has %lld rows",
                        static_cast<long long>(embedding->rows()));
  c.vocabulary = static_cast<int32_t>(embedding->rows());
  *out = c;
  return {};
}

SectionStretch host_stretch(const GgufFile& file) {
  const GgufTensor* const table = file.find_tensor(kLayerInputTable);
  if (table == nullptr) return {};
  SectionStretch stretch{table->offset, file.data_bytes()};
  for (const GgufTensor& tensor : file.tensors())
    if (tensor.offset > table->offset) stretch.end = std::min(stretch.end, tensor.offset);
  return stretch;
}

Status bind_text_model(const GgufFile& file, const TextConfig& config, const LoadedSection<const uint8_t>& section,
                       TextModel* out) {
  const TensorBinder binder(file, section);
  out->config = config;
  OCELLUS_TRY(binder.matrix("token_embd.weight", config.vocabulary, config.width, &out->embedding));
  OCELLUS_TRY(check_layer_count(file, config));
  OCELLUS_TRY(out->layers.resize(config.layer_count));
  for (int i = 0; i < config.layer_count; ++i) OCELLUS_TRY(bind_layer({binder, "blk", i}, config, i, &out->layers[i]));
  if (config.layer_input_width > 0) OCELLUS_TRY(bind_layer_inputs(binder, config, &out->inputs));
  OCELLUS_TRY(bind_final_norm(binder, config, &out->final_norm));
  out->unembedding = out->embedding;
  if (binder.has("output.weight") || config.architecture->has_own_output)
    OCELLUS_TRY(binder.matrix("output.weight", config.vocabulary, config.width, &out->unembedding));
  if (config.yarn.used() && binder.has("rope_freqs.weight"))
    return OCELLUS_FAIL(Code::kUnsupported, "tensor 'rope_freqs.weight' beside the keys of YaRN is not supported");
  return binder.optional_vector("rope_freqs.weight", config.rope.rotated / 2, &out->config.rope.factors);
}

}  // namespace ocellus
