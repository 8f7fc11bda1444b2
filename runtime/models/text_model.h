// TextModel: facts and weights of the language half of a file pair.
#pragma once

#include <cmath>

#include "kernels/rows/rope.h"
#include "platform/buffer.h"
#include "platform/status.h"
#include "quant/gguf.h"
#include "quant/tensor_binder.h"
#include "runtime/models/text_architecture.h"

namespace ocellus {

/// Layers in which a row sees only the newest positions, with a rotation of their own.
struct LocalLayers {
  int32_t window = 0;  // positions that a row sees, its own among them; 0: there are no such layers
  int32_t period = 0;  // layers period - 1, 2 period - 1, ... see all positions
  RopeParams rope = {};

  bool has(int32_t layer) const { return window > 0 && (layer + 1) % period != 0; }
  /// Number of them before a layer.
  int32_t before(int32_t layer) const { return window > 0 ? layer - layer / period : 0; }
};

struct TextConfig {
  const TextArchitecture* architecture = &kTextArchitectures[0];
  int32_t layer_count = 0;
  int32_t width = 0;           // D
  int32_t query_heads = 0;     // H
  int32_t kv_heads = 0;        // G
  int32_t head_dim = 0;        // E
  int32_t mlp_width = 0;       // F
  int32_t vocabulary = 0;      // V
  int32_t context_length = 0;  // maximum number of positions
  float epsilon = 1e-5f;
  int32_t deepstack_layers = 0;  // first layers after which rows of a picture get more of its tower (DeepStack)
  RopeParams rope;               // `factors` is set when the weights are bound
  LocalLayers local = {};

  /// Values of a row before the first layer: those that join it after the first layers follow the row itself.
  int64_t input_width() const { return int64_t{width} * (1 + deepstack_layers); }
  int64_t query_width() const { return int64_t{query_heads} * head_dim; }
  int64_t kv_width() const { return int64_t{kv_heads} * head_dim; }
  /// Number of layers that see all positions: those of pages and blocks of the cache.
  int32_t global_layers() const { return layer_count - local.before(layer_count); }
  /// Index of a layer in the cache of its kind.
  int32_t cache_layer(int32_t layer) const {
    return local.has(layer) ? local.before(layer) : layer - local.before(layer);
  }
  const RopeParams& rope_of(int32_t layer) const { return local.has(layer) ? local.rope : rope; }
  float embedding_scale() const { return architecture->scales_embedding ? std::sqrt(static_cast<float>(width)) : 1.0f; }
};

/// Reads and checks the metadata. kBadFile or kUnsupported names the key and lists what is supported.
Status read_text_config(const GgufFile& file, TextConfig* out);

/// One pre-norm transformer block.
struct TextLayer {
  const float* attention_norm = nullptr;
  Linear query, key, value, attention_output;
  const float* attention_output_norm = nullptr;  // [D]; both branch norms or neither
  const float* mlp_output_norm = nullptr;        // [D]
  const float* query_norm = nullptr;             // [E]; both norms or neither
  const float* key_norm = nullptr;               // [E]
  const float* mlp_norm = nullptr;
  Linear mlp_gate, mlp_up, mlp_down;
};

struct TextModel {
  TextConfig config;
  WeightView embedding;  // [V, D]
  Buffer<TextLayer> layers;
  const float* final_norm = nullptr;
  WeightView unembedding;  // [V, D]; the embedding itself if tied
};

/// Checks every tensor against the config; with `base` (the loaded tensor section) also sets the views.
Status bind_text_model(const GgufFile& file, const TextConfig& config, const uint8_t* base, TextModel* out);

}  // namespace ocellus
