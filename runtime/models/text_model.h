// TextModel: facts and weights of the language half of a file pair.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <span>

#include "kernels/rows/rope.h"
#include "kernels/rows/temper_queries.h"
#include "platform/buffer.h"
#include "platform/status.h"
#include "quant/gguf.h"
#include "quant/tensor_binder.h"
#include "runtime/models/text_architecture.h"
#include "runtime/models/yarn.h"

namespace ocellus {

/// Some of a model's layers.
class LayerSet {
 public:
  static constexpr int32_t kMostLayers = 512;

  constexpr LayerSet() = default;
  /// All layers but these.
  static constexpr LayerSet all_but(std::span<const int32_t> others) {
    LayerSet set;
    set.words_.fill(~uint64_t{0});
    for (const int32_t layer : others) set.words_[static_cast<size_t>(layer / 64)] &= ~(uint64_t{1} << layer % 64);
    return set;
  }
  void add(int32_t layer) { words_[static_cast<size_t>(layer / 64)] |= uint64_t{1} << layer % 64; }
  bool has(int32_t layer) const { return (words_[static_cast<size_t>(layer / 64)] >> layer % 64 & 1) != 0; }
  /// Number of them before a layer.
  int32_t before(int32_t layer) const {
    int32_t count = 0;
    for (int32_t word = 0; word < layer / 64; ++word) count += std::popcount(words_[static_cast<size_t>(word)]);
    const uint64_t last = layer % 64 > 0 ? words_[static_cast<size_t>(layer / 64)] << (64 - layer % 64) : 0;
    return count + std::popcount(last);
  }

 private:
  std::array<uint64_t, kMostLayers / 64> words_ = {};
};

/// Layers in which a row sees only the newest positions: with heads and a rotation of their own, or by a convolution of
/// `window` taps in place of attention (see ShortConv).
struct LocalLayers {
  int32_t window = 0;    // positions that a row sees, its own among them; 0: there are no such layers
  int32_t period = 0;    // layers period - 1, 2 period - 1, ... see all positions; 0: those of no `convolutions`
  int32_t head_dim = 0;  // E of these layers
  RopeParams rope = {};
  LayerSet convolutions = {};

  bool convolve() const { return window > 0 && period == 0; }
  bool has(int32_t layer) const {
    if (window == 0) return false;
    return convolve() ? convolutions.has(layer) : (layer + 1) % period != 0;
  }
  /// Number of them before a layer.
  int32_t before(int32_t layer) const {
    if (window == 0) return 0;
    return convolve() ? convolutions.before(layer) : layer - layer / period;
  }
};

/// The last layers have no keys and values: they read those of the last layer of their kind that has.
struct SharingLayers {
  int32_t count = 0;
  int32_t mlp_width = 0;  // F of these layers
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
  RopeParams rope;               // `factors` is set when the weights are bound, those of YaRN when they are loaded
  YarnScaling yarn = {};
  QueryTemperature temperature = {};
  LocalLayers local = {};
  SharingLayers sharing = {};
  int32_t layer_input_width = 0;  // values that each layer adds to a row by its token; 0: none (see LayerInputs)
  float logit_cap = 0;            // logits become cap * tanh(logit / cap); 0: they stay

  /// Values of a row before the first layer: those that join it after the first layers follow the row itself.
  int64_t input_width() const { return int64_t{width} * (1 + deepstack_layers); }
  /// The layer has a convolution: its query, key and value are the gate, the output's gate and what they are of.
  bool convolves(int32_t layer) const { return local.convolve() && local.has(layer); }
  /// Some layers attend to a window.
  bool has_windows() const { return local.window > 0 && !local.convolve(); }
  int32_t head_dim_of(int32_t layer) const { return local.has(layer) ? local.head_dim : head_dim; }
  int32_t longest_head() const { return local.window > 0 && local.head_dim > head_dim ? local.head_dim : head_dim; }
  int64_t query_width(int32_t layer) const {
    return convolves(layer) ? width : int64_t{query_heads} * head_dim_of(layer);
  }
  int64_t kv_width(int32_t layer) const { return convolves(layer) ? width : int64_t{kv_heads} * head_dim_of(layer); }
  int32_t mlp_width_of(int32_t layer) const { return shares(layer) ? sharing.mlp_width : mlp_width; }
  int32_t widest_mlp() const { return sharing.mlp_width > mlp_width ? sharing.mlp_width : mlp_width; }
  /// True if the layer has no keys and values of its own.
  bool shares(int32_t layer) const { return layer >= own_layers(); }
  int32_t own_layers() const { return layer_count - sharing.count; }
  /// The layer whose keys and values a layer reads.
  int32_t source_layer(int32_t layer) const { return shares(layer) ? last_own_layer(local.has(layer)) : layer; }
  /// True if later layers may share the layer's keys and values.
  bool is_shared(int32_t layer) const { return sharing.count > 0 && layer == last_own_layer(local.has(layer)); }
  int32_t last_own_layer(bool is_local) const {
    int32_t layer = own_layers() - 1;
    while (layer > 0 && local.has(layer) != is_local) --layer;
    return layer;
  }
  /// Number of layers that see all positions and have keys and values: those of pages and blocks of the cache.
  int32_t global_layers() const { return own_layers() - local_layers(); }
  int32_t local_layers() const { return local.before(own_layers()); }
  /// Index of the layer's keys and values in the cache of its kind.
  int32_t cache_layer(int32_t layer) const {
    const int32_t source = source_layer(layer);
    return local.has(source) ? local.before(source) : source - local.before(source);
  }
  const RopeParams& rope_of(int32_t layer) const { return local.has(layer) ? local.rope : rope; }
  float embedding_scale() const { return architecture->scales_embedding ? std::sqrt(static_cast<float>(width)) : 1.0f; }
};

/// Reads and checks the metadata. kBadFile or kUnsupported names the key and lists what is supported.
Status read_text_config(const GgufFile& file, TextConfig* out);

/// The part that a layer adds to its rows by their tokens (per-layer embeddings of Gemma 3n and 4): gate(W_g h) *
/// inputs, mapped to the rows' width and normalised. Then the rows are multiplied by a number.
struct LayerInput {
  WeightView gate;              // [P, D]
  WeightView map;               // [D, P]
  const float* norm = nullptr;  // [D]
  float scale = 1.0f;
};

/// The table of LayerInputs in a file.
inline constexpr const char* kLayerInputTable = "per_layer_token_embd.weight";

/// The inputs of all layers: (norm(W x) + sqrt(P) table[token]) / sqrt(2), x the embedded row.
struct LayerInputs {
  WeightView table;             // [V, layers * P]
  WeightView map;               // [layers * P, D]
  const float* norm = nullptr;  // [P]
};

/// One pre-norm transformer block.
struct TextLayer {
  const float* attention_norm = nullptr;
  Linear query, key, value, attention_output;    // neither key nor value if the layer shares another's
  const float* attention_output_norm = nullptr;  // [D]; both branch norms or neither
  const float* mlp_output_norm = nullptr;        // [D]
  const float* query_norm = nullptr;             // [E]; both norms or neither
  const float* key_norm = nullptr;               // [E]
  const float* convolution = nullptr;            // [D, taps] in place of attention
  const float* mlp_norm = nullptr;
  Linear mlp_gate, mlp_up, mlp_down;  // the gate only if the model's MLPs have one
  LayerInput input;                   // if the model has such
};

struct TextModel {
  TextConfig config;
  WeightView embedding;  // [V, D]
  LayerInputs inputs;
  Buffer<TextLayer> layers;
  const float* final_norm = nullptr;
  WeightView unembedding;  // [V, D]; the embedding itself if tied
};

/// The stretch of a file's tensor section that may lie in memory of the host where a GPU has its own: the table of
/// which a token reads one row. Empty if there is none.
SectionStretch host_stretch(const GgufFile& file);

/// Checks every tensor against the config; with a loaded section also sets the views.
Status bind_text_model(const GgufFile& file, const TextConfig& config, const LoadedSection<const uint8_t>& section,
                       TextModel* out);

}  // namespace ocellus
