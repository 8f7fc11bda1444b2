#include "runtime/models/random_weights.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "kernels/linear/fill_weights.h"
#include "platform/buffer.h"
#include "platform/round_up.h"
#include "platform/threads.h"
#include "quant/name_table.h"

namespace ocellus {
namespace {

constexpr float kBiasDeviation = 0.02f;
constexpr int64_t kPieceBytes = int64_t{4} << 20;

/// True if outputs of this matrix are added to the residual stream.
bool writes_residual(std::string_view name) {
  return name.ends_with("attn_output.weight") || name.ends_with("attn_out.weight") ||
         name.ends_with("ffn_down.weight") || name.ends_with("shortconv.out_proj.weight");
}

int64_t count_layers(const GgufFile& file) {
  return std::count_if(file.tensors().begin(), file.tensors().end(),
                       [](const GgufTensor& tensor) { return tensor.name.ends_with("ffn_down.weight"); });
}

/// Random values of every tensor of a file.
class RandomWeights {
 public:
  RandomWeights(const GgufFile& file, uint64_t seed)
      : seed_(seed - kRandomWeightsSeed),
        residual_share_(1.0f / std::sqrt(2.0f * static_cast<float>(std::max<int64_t>(count_layers(file), 1)))) {}

  /// Arguments without the destination.
  FillWeightsArgs args(const GgufTensor& tensor) const {
    FillWeightsArgs args = {.format = tensor.format,
                            .rows = tensor.rows(),
                            .cols = tensor.cols(),
                            .seed = hash_name(tensor.name) ^ seed_ * kSeedFactor};
    if (tensor.dimension_count == 1) {
      const bool is_bias = tensor.name.ends_with(".bias");
      args.mean = is_bias ? 0.0f : 1.0f;
      args.deviation = is_bias ? kBiasDeviation : 0.0f;
      return args;
    }
    // A convolution sums over all dimensions but the last.
    const int64_t inputs = tensor.dimension_count == 4 ? tensor.ne[0] * tensor.ne[1] * tensor.ne[2] : tensor.cols();
    args.deviation = 1.0f / std::sqrt(static_cast<float>(inputs));
    if (writes_residual(tensor.name)) args.deviation *= residual_share_;
    return args;
  }

 private:
  static constexpr uint64_t kSeedFactor = 0xD1342543DE82EF95ull;  // odd: different seeds stay different

  uint64_t seed_;  // 0: weights depend on names only
  float residual_share_;
};

/// Writes a tensor through `piece`, a few rows at a time.
Status write_tensor(const FillWeightsArgs& whole, Buffer<uint8_t>* piece, Queue& queue, ByteSink& sink) {
  const int64_t row = row_bytes(whole.format, whole.cols);
  const int64_t most_rows = std::max<int64_t>(kPieceBytes / row, 8) / 8 * 8;
  for (int64_t done = 0; done < whole.rows; done += most_rows) {
    FillWeightsArgs args = whole;
    args.rows = std::min(most_rows, whole.rows - done);
    args.seed = seed_at_row(whole, done);
    OCELLUS_TRY(piece->resize(std::max(piece->size(), args.rows * row)));
    args.data = piece->data();
    fill_weights(args, queue);
    OCELLUS_TRY(queue.finish());
    OCELLUS_TRY(sink.take(args.data, args.rows * row));
  }
  return {};
}

}  // namespace

Status fill_random_weights(const GgufFile& file, uint64_t seed, const LoadedSection<std::byte>& section, Queue& queue,
                           LoadProgress& progress) {
  const RandomWeights weights(file, seed);
  int64_t done = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    FillWeightsArgs args = weights.args(tensor);
    args.data = reinterpret_cast<uint8_t*>(section.at(tensor.offset));
    fill_weights(args, queue);
    OCELLUS_TRY(queue.finish());
    const int64_t end = static_cast<int64_t>(tensor.offset) + tensor.bytes;
    OCELLUS_TRY(progress.add(end - done));
    done = end;
  }
  return {};
}

Status write_random_file(const GgufFile& file, uint64_t seed, ByteSink& sink) {
  ThreadPool pool;
  OCELLUS_TRY(pool.start(1));
  Queue queue(pool);
  OCELLUS_TRY(sink.take(file.header(), file.data_offset()));
  const RandomWeights weights(file, seed);
  Buffer<uint8_t> piece;
  for (const GgufTensor& tensor : file.tensors()) {
    OCELLUS_TRY(write_tensor(weights.args(tensor), &piece, queue, sink));
    constexpr uint8_t kPadding[kDefaultGgufAlignment] = {};
    OCELLUS_TRY(sink.take(kPadding, round_up(tensor.bytes, kDefaultGgufAlignment) - tensor.bytes));
  }
  return {};
}

}  // namespace ocellus
