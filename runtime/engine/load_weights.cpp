#include "runtime/engine/load_weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "platform/buffer.h"
#include "platform/round_up.h"
#include "quant/weight_format.h"
#include "runtime/models/random_weights.h"

namespace ocellus {
namespace {

constexpr int64_t kPieceBytes = int64_t{8} << 20;

/// Reads a piece by all threads. Where one fails, all is read again on this thread, which then has the sentence.
Status read_piece(const GgufFile& file, int64_t begin, std::byte* to, int64_t bytes, Queue& queue) {
  std::atomic<bool> failed{false};
  queue.parallel(bytes, divide_up(bytes, queue.thread_count()), [&](int64_t first, int64_t end, int) {
    if (!file.read_data(begin + first, to + first, end - first).ok()) failed = true;
  });
  return failed ? file.read_data(begin, to, bytes) : Status();
}

/// Reads a stretch piece by piece into memory of the host.
Status read_stretch(const GgufFile& file, const SectionStretch& stretch, std::byte* to, Queue& queue,
                    LoadProgress& progress) {
  for (int64_t done = 0; done < stretch.bytes();) {
    const int64_t count = std::min(kPieceBytes, stretch.bytes() - done);
    OCELLUS_TRY(read_piece(file, stretch.begin + done, to + done, count, queue));
    done += count;
    OCELLUS_TRY(progress.add(count));
  }
  return {};
}

/// Reads a stretch piece by piece to the device.
Status upload_stretch(const GgufFile& file, const SectionStretch& stretch, std::byte* to, Queue& queue,
                      LoadProgress& progress) {
  Buffer<std::byte> piece;
  OCELLUS_TRY(piece.resize(std::min(kPieceBytes, stretch.bytes())));
  for (int64_t done = 0; done < stretch.bytes();) {
    const int64_t count = std::min(kPieceBytes, stretch.bytes() - done);
    OCELLUS_TRY(file.read_data(stretch.begin + done, piece.data(), count));
    queue.copy(to + done, piece.data(), count);
    OCELLUS_TRY(queue.finish());
    done += count;
    OCELLUS_TRY(progress.add(count));
  }
  return {};
}

}  // namespace

Status load_tensors(const GgufFile& file, const LoadedSection<std::byte>& out, bool host_writes, Queue& queue,
                    LoadProgress& progress) {
  if (!file.has_data()) return fill_random_weights(file, kRandomWeightsSeed, out, queue, progress);
  if (host_writes) return read_stretch(file, {0, file.data_bytes()}, out.data, queue, progress);
  const SectionStretch& apart = out.stretch;
  OCELLUS_TRY(upload_stretch(file, {0, apart.begin}, out.data, queue, progress));
  OCELLUS_TRY(read_stretch(file, apart, out.apart, queue, progress));
  return upload_stretch(file, {apart.end, file.data_bytes()}, out.data + apart.begin, queue, progress);
}

Status turn_matrix(const GgufFile& file, const char* name, DeviceView<std::byte> loaded, Queue& queue) {
  const GgufTensor* tensor = file.find_tensor(name);
  if (tensor == nullptr) return OCELLUS_FAIL(Code::kBadFile, "tensor '%s' is missing", name);
  const int64_t rows = tensor->rows(), cols = tensor->cols(), each = row_bytes(tensor->format, 1);
  if (!file.has_data()) return {};
  Buffer<std::byte> from, to;
  OCELLUS_TRY(from.resize(rows * cols * each));
  OCELLUS_TRY(to.resize(rows * cols * each));
  OCELLUS_TRY(file.read_data(static_cast<int64_t>(tensor->offset), from.data(), rows * cols * each));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < cols; ++col)
      std::memcpy(to.data() + (col * rows + row) * each, from.data() + (row * cols + col) * each,
                  static_cast<size_t>(each));
  queue.copy(loaded.data + tensor->offset, to.data(), rows * cols * each);
  return queue.finish();
}

Status load_rope_factors(DeviceView<float> out, TextConfig* config, Queue& queue) {
  Buffer<float> factors;
  OCELLUS_TRY(factors.resize(out.cols));
  for (int32_t pair = 0; pair < out.cols; ++pair) factors[pair] = config->yarn.factor_of(config->rope, pair);
  queue.copy(out.data, factors.data(), out.cols * static_cast<int64_t>(sizeof(float)));
  config->rope.factors = out.data;
  return queue.finish();
}

}  // namespace ocellus
