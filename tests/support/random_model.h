// Small random models as GGUF files. A recipe names every choice of a file that changes the arithmetic; the weights
// are drawn so that every part matters: attention is neither flat nor a single slot, no layer drowns another.
#pragma once

#include <cstdint>

#include "quant/weight_format.h"
#include "runtime/models/text_architecture.h"
#include "tests/support/temporary_file.h"

namespace ocellus::test {

/// True for architectures whose positions have three coordinates.
inline bool has_sections(const char* architecture) {
  const auto read = find_text_architecture(architecture)->read;
  return read == read_sections || read == read_interleaved_sections;
}

/// A language model with a byte-level vocabulary: 256 bytes, "\n\n", and the tokens that stand around pictures.
struct TextRecipe {
  const char* architecture = "llama";  // a row of runtime/models/text_architecture.h
  int layers = 2;
  int width = 64;
  int mlp_width = 96;
  int query_heads = 4;
  int kv_heads = 4;
  int head_dim = 16;  // attention.key_length is written if it is not width / query_heads
  WeightFormat format = WeightFormat::kF32;
  WeightFormat second_format = WeightFormat::kF32;  // format of values, the second MLP matrix and the output, if
                                                    // `mixed`
  bool mixed = false;
  bool tied = false;          // no output matrix
  bool biases = false;        // biases of query, key and value
  bool more_biases = false;   // biases of every other linear map of a layer
  bool fused_qkv = false;     // one matrix for query, key and value
  int rotated = 0;            // rope.dimension_count; 0: not written
  float rope_base = 0;        // rope.freq_base; 0: not written
  float linear_factor = 0;    // rope.scaling.factor; 0: not written
  bool names_scaling = true;  // with rope.scaling.type beside the factor
  bool rope_factors = false;  // rope_freqs.weight
  int context_length = 4096;
  // gemma3
  int window = 0;             // attention.sliding_window; 0: not written
  int window_period = 0;      // attention.sliding_window_pattern; 0: not written
  float local_rope_base = 0;  // rope.freq_base_swa; 0: not written
};

/// An Idefics3 mmproj file.
struct VisionRecipe {
  int image_size = 32;
  int patch_size = 8;
  int scale_factor = 2;
  int longest_edge = 0;  // clip.vision.preproc_image_size; 0: no tiles
  int layers = 2;
  int width = 64;
  int heads = 4;
  int mlp_width = 96;
  int output_width = 64;  // width of the language model
  WeightFormat format = WeightFormat::kF32;
  const char* activation = "gelu";  // "silu" or "quick_gelu"
  bool swapped_mlp = false;         // the matrices of the MLP under each other's names, as old files have them
};

/// An mmproj file of LLaVA-1.5's kind: a CLIP tower and the mlp projector. 4 x 4 patches and the class row make 17
/// rows.
struct ClipRecipe {
  int image_size = 30;  // two pixels of each side belong to no patch
  int patch_size = 7;
  int layers = 2;
  int width = 48;  // two heads of 24
  int heads = 2;
  int mlp_width = 104;
  int projector_width = 80;
  int output_width = 64;  // width of the language model
  WeightFormat format = WeightFormat::kF32;
  WeightFormat position_format = WeightFormat::kF32;
  const char* activation = "quick_gelu";  // or "gelu"
  int feature_layer = 0;                  // clip.vision.feature_layer; 0: not written
  bool patch_bias = false;
  bool is_old =
      false;  // as the first files of LLaVA-1.5: clip.has_llava_projector, swapped MLP, another projection_dim
};

/// Tokens of every random vocabulary.
inline constexpr int kRandomVocabulary = 300;

class TemporaryModel : public TemporaryFile {
 public:
  TemporaryModel(const TextRecipe& recipe, uint64_t seed);
  TemporaryModel(const VisionRecipe& recipe, uint64_t seed);
  TemporaryModel(const ClipRecipe& recipe, uint64_t seed);
};

}  // namespace ocellus::test
