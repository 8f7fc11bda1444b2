#include "runtime/engine/load_weights.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "quant/weight_format.h"
#include "runtime/models/random_weights.h"

namespace ocellus {
namespace {

using Bytes = std::unique_ptr<std::byte[]>;

Status allocate(int64_t bytes, Bytes* out) {
  out->reset(new (std::nothrow) std::byte[static_cast<size_t>(bytes)]);
  return *out != nullptr ? Status() : OCELLUS_FAIL(Code::kIo, "the system has no memory for loading weights");
}

/// Reads a stretch piece by piece to the device.
Status upload_stretch(const GgufFile& file, const SectionStretch& stretch, std::byte* to, Queue& queue) {
  constexpr int64_t kPieceBytes = int64_t{8} << 20;
  Bytes piece;
  OCELLUS_TRY(allocate(std::min(kPieceBytes, stretch.bytes()), &piece));
  for (int64_t done = 0; done < stretch.bytes();) {
    const int64_t count = std::min(kPieceBytes, stretch.bytes() - done);
    OCELLUS_TRY(file.read_data(stretch.begin + done, piece.get(), count));
    queue.copy(to + done, piece.get(), count);
    OCELLUS_TRY(queue.finish());
    done += count;
  }
  return {};
}

}  // namespace

Status load_tensors(const GgufFile& file, const LoadedSection<std::byte>& out, bool host_writes, Queue& queue) {
  if (!file.has_data()) return fill_random_weights(file, kRandomWeightsSeed, out, queue);
  if (host_writes) return file.read_data(0, out.data, file.data_bytes());
  const SectionStretch& apart = out.stretch;
  OCELLUS_TRY(upload_stretch(file, {0, apart.begin}, out.data, queue));
  if (apart.bytes() > 0) OCELLUS_TRY(file.read_data(apart.begin, out.apart, apart.bytes()));
  return upload_stretch(file, {apart.end, file.data_bytes()}, out.data + apart.begin, queue);
}

Status turn_matrix(const GgufFile& file, const char* name, DeviceView<std::byte> loaded, Queue& queue) {
  const GgufTensor* tensor = file.find_tensor(name);
  if (tensor == nullptr) return OCELLUS_FAIL(Code::kBadFile, "tensor '%s' is missing", name);
  const int64_t rows = tensor->rows(), cols = tensor->cols(), each = row_bytes(tensor->format, 1);
  if (!file.has_data()) return {};
  Bytes from, to;
  OCELLUS_TRY(allocate(rows * cols * each, &from));
  OCELLUS_TRY(allocate(rows * cols * each, &to));
  OCELLUS_TRY(file.read_data(static_cast<int64_t>(tensor->offset), from.get(), rows * cols * each));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < cols; ++col)
      std::memcpy(to.get() + (col * rows + row) * each, from.get() + (row * cols + col) * each,
                  static_cast<size_t>(each));
  queue.copy(loaded.data + tensor->offset, to.get(), rows * cols * each);
  return queue.finish();
}

}  // namespace ocellus
