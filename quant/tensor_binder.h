// TensorBinder: turns tensor names of a GGUF file into checked views. Without a base address only the checks run, so a
// model file is validated before any weight is loaded.
#pragma once

#include <string_view>

#include "platform/status.h"
#include "quant/gguf.h"
#include "quant/loaded_section.h"
#include "quant/weight_format.h"

namespace ocellus {

/// A linear map with an optional bias: y = W x + b.
struct Linear {
  WeightView weight;
  const float* bias = nullptr;
};

class TensorBinder {
 public:
  /// Only checks if the section is not loaded.
  TensorBinder(const GgufFile& file, const LoadedSection<const uint8_t>& section) : file_(file), section_(section) {}

  /// Returns nullptr if absent.
  const GgufTensor* find(std::string_view name) const { return file_.find_tensor(name); }
  bool has(std::string_view name) const { return find(name) != nullptr; }

  /// Binds a matrix [rows, cols] in any weight format; kBadFile if it is missing or has another shape.
  Status matrix(const char* name, int64_t rows, int64_t cols, WeightView* out) const;
  /// Binds a vector of f32; kUnsupported in another format.
  Status vector(const char* name, int64_t count, const float** out) const;
  /// Like vector(); *out stays null if the tensor is absent.
  Status optional_vector(const char* name, int64_t count, const float** out) const;
  /// Reads the only value of an F32 tensor; *out stays if the tensor is absent, or has no data. kBadFile for a value
  /// that is no number.
  Status optional_scalar(const char* name, float* out) const;

 private:
  Status require(const char* name, const GgufTensor** out) const;
  const uint8_t* address(const GgufTensor& tensor) const { return section_.at(tensor.offset); }

  const GgufFile& file_;
  LoadedSection<const uint8_t> section_;
};

/// Tensors of one of a model's equal layers, named "{prefix}.{layer}.{part}.weight" and ".bias", as in
/// "blk.3.attn_q.weight". Errors as TensorBinder, with the whole name.
class LayerBinder {
 public:
  /// `prefix` must outlive the binder (a string literal).
  LayerBinder(const TensorBinder& tensors, const char* prefix, int layer)
      : tensors_(tensors), prefix_(prefix), layer_(layer) {}

  /// Returns the weight tensor of a part; nullptr if absent.
  const GgufTensor* find(const char* part) const;
  /// Binds a weight [rows, cols] and its optional bias [rows].
  Status linear(const char* part, int64_t rows, int64_t cols, Linear* out) const;
  /// Binds the weight [width] of a norm and, unless `bias` is null, its bias [width].
  Status norm(const char* part, int64_t width, const float** weight, const float** bias = nullptr) const;
  /// Reads the only value of tensor "{prefix}.{layer}.{part}.{suffix}": see TensorBinder.
  Status optional_scalar(const char* part, const char* suffix, float* out) const;

 private:
  const TensorBinder& tensors_;
  const char* prefix_;
  int layer_;
};

}  // namespace ocellus
