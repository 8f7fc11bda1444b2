#include "quant/tensor_binder.h"

#include <cinttypes>
#include <cmath>
#include <cstdio>

namespace ocellus {
namespace {

struct LayerTensorName {
  LayerTensorName(const char* prefix, int layer, const char* part, const char* suffix) {
    std::snprintf(text, sizeof text, "%s.%d.%s.%s", prefix, layer, part, suffix);
  }
  char text[64];
};

}  // namespace

Status TensorBinder::require(const char* name, const GgufTensor** out) const {
  *out = find(name);
  if (*out == nullptr) return OCELLUS_FAIL(Code::kBadFile, "tensor '%s' is missing", name);
  return {};
}

Status TensorBinder::matrix(const char* name, int64_t rows, int64_t cols, WeightView* out) const {
  const GgufTensor* tensor = nullptr;
  OCELLUS_TRY(require(name, &tensor));
  // A convolution kernel [p, p, channels, width] is bound as a matrix of `width` rows.
  const bool convolution = tensor->ne[3] > 1;
  const int64_t found_rows = convolution ? tensor->ne[3] : tensor->rows();
  const int64_t found_cols = convolution ? tensor->ne[0] * tensor->ne[1] * tensor->ne[2] : tensor->cols();
  if (found_rows != rows || found_cols != cols)
    return OCELLUS_FAIL(Code::kBadFile,
                        "tensor '%s' has shape [%" PRId64 ", %" PRId64 "], but the metadata asks for [%" PRId64
                        ", %" PRId64 "]",
                        name, found_rows, found_cols, rows, cols);
  const WeightFormatInfo& format = format_info(tensor->format);
  if (convolution && format.block_elements > 1)
    return OCELLUS_FAIL(Code::kUnsupported, "tensor '%s' is a convolution in block format %s", name, format.name);
  *out = WeightView{address(*tensor), tensor->format, rows, cols};
  return {};
}

Status TensorBinder::vector(const char* name, int64_t count, const float** out) const {
  const GgufTensor* tensor = nullptr;
  OCELLUS_TRY(require(name, &tensor));
  if (tensor->cols() != count || tensor->rows() != 1)
    return OCELLUS_FAIL(Code::kBadFile, "tensor '%s' has %" PRId64 " x %" PRId64 " values, but %" PRId64 " are needed",
                        name, tensor->rows(), tensor->cols(), count);
  if (tensor->format != WeightFormat::kF32)
    return OCELLUS_FAIL(Code::kUnsupported, "tensor '%s' is stored as %s, but norms and biases must be F32", name,
                        format_info(tensor->format).name);
  *out = reinterpret_cast<const float*>(address(*tensor));
  return {};
}

Status TensorBinder::optional_vector(const char* name, int64_t count, const float** out) const {
  return has(name) ? vector(name, count, out) : Status();
}

Status TensorBinder::optional_scalar(const char* name, float* out) const {
  const float* address = nullptr;
  if (!has(name)) return {};
  OCELLUS_TRY(vector(name, 1, &address));
  if (!file_.has_data()) return {};
  float value = 0;
  OCELLUS_TRY(file_.read_data(static_cast<int64_t>(find(name)->offset), &value, sizeof value));
  if (std::isnan(value)) return OCELLUS_FAIL(Code::kBadFile, "the value of tensor '%s' is no number", name);
  *out = value;
  return {};
}

const GgufTensor* LayerBinder::find(const char* part) const {
  return tensors_.find(LayerTensorName(prefix_, layer_, part, "weight").text);
}

Status LayerBinder::linear(const char* part, int64_t rows, int64_t cols, Linear* out) const {
  OCELLUS_TRY(tensors_.matrix(LayerTensorName(prefix_, layer_, part, "weight").text, rows, cols, &out->weight));
  return tensors_.optional_vector(LayerTensorName(prefix_, layer_, part, "bias").text, rows, &out->bias);
}

Status LayerBinder::norm(const char* part, int64_t width, const float** weight, const float** bias) const {
  OCELLUS_TRY(tensors_.vector(LayerTensorName(prefix_, layer_, part, "weight").text, width, weight));
  if (bias == nullptr) return {};
  return tensors_.vector(LayerTensorName(prefix_, layer_, part, "bias").text, width, bias);
}

Status LayerBinder::optional_scalar(const char* part, const char* suffix, float* out) const {
  return tensors_.optional_scalar(LayerTensorName(prefix_, layer_, part, suffix).text, out);
}

}  // namespace ocellus
