// Random weights for a model without files (model_shapes.h), in memory or as the bytes of a file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/queue.h"
#include "platform/status.h"
#include "quant/gguf.h"
#include "quant/loaded_section.h"
#include "runtime/models/load_progress.h"

namespace ocellus {

/// Seed of an engine's random weights.
inline constexpr uint64_t kRandomWeightsSeed = 1;

/// Fills the tensor section of `file`, in memory that the device writes to, aligned to 32, and waits for it. The same
/// seed gives the same weights on every device. Norms are 1, biases small; a matrix over K inputs gets the deviation 1
/// / sqrt(K), and the two that write into the residual stream less, so that activations stay of size 1 through all
/// layers. kCancelled: see LoadProgress.
Status fill_random_weights(const GgufFile& file, uint64_t seed, const LoadedSection<std::byte>& section, Queue& queue,
                           LoadProgress& progress);

/// Receives the bytes of a file, in order.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status take(const void* bytes, int64_t count) = 0;
};

/// Writes to `sink` the whole file whose header is `file`, with the tensors of fill_random_weights(). A few megabytes
/// at a time; the first failure of the sink ends it.
Status write_random_file(const GgufFile& file, uint64_t seed, ByteSink& sink);

}  // namespace ocellus
