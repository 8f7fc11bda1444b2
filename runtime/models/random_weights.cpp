#include "runtime/models/random_weights.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "kernels/linear/fill_weights.h"
#include "quant/name_table.h"

namespace ocellus {
namespace {

constexpr float kBiasDeviation = 0.02f;

/// Whether outputs of this matrix are added to the residual stream.
bool writes_residual(std::string_view name) {
  return name.ends_with("attn_output.weight") || name.ends_with("attn_out.weight") || name.ends_with("ffn_down.weight");
}

int64_t count_layers(const GgufFile& file) {
  return std::count_if(file.tensors().begin(), file.tensors().end(),
                       [](const GgufTensor& tensor) { return tensor.name.ends_with("ffn_down.weight"); });
}

}  // namespace

Status fill_random_weights(const GgufFile& file, std::byte* base, Queue& queue) {
  const float residual_share = 1.0f / std::sqrt(2.0f * static_cast<float>(std::max<int64_t>(count_layers(file), 1)));
  for (const GgufTensor& tensor : file.tensors()) {
    FillWeightsArgs args = {.data = reinterpret_cast<uint8_t*>(base) + tensor.offset,
                            .format = tensor.format,
                            .rows = tensor.rows(),
                            .cols = tensor.cols(),
                            .seed = hash_name(tensor.name)};
    if (tensor.dimension_count == 1) {
      const bool is_bias = tensor.name.ends_with(".bias");
      args.mean = is_bias ? 0.0f : 1.0f;
      args.deviation = is_bias ? kBiasDeviation : 0.0f;
    } else {
      // A convolution sums over all dimensions but the last.
      const int64_t inputs = tensor.dimension_count == 4 ? tensor.ne[0] * tensor.ne[1] * tensor.ne[2] : tensor.cols();
      args.deviation = 1.0f / std::sqrt(static_cast<float>(inputs));
      if (writes_residual(tensor.name)) args.deviation *= residual_share;
    }
    fill_weights(args, queue);
  }
  return queue.finish();
}

}  // namespace ocellus
