// Weights for a model that has none (model_shapes.h).
#pragma once

#include <cstddef>

#include "platform/queue.h"
#include "platform/status.h"
#include "quant/gguf.h"

namespace ocellus {

/// Changes with the weights that are made up.
inline constexpr int kRandomWeightsSeed = 1;

/// Fills the tensor section of `file` at `base` (device memory, aligned to 32) with random weights and waits until that
/// is done. Always the same ones. Norms are 1, biases small; a matrix over K inputs gets the deviation 1 / sqrt(K),
/// and the two that write into the residual stream less, so that activations stay of size 1 through all layers.
Status fill_random_weights(const GgufFile& file, std::byte* base, Queue& queue);

}  // namespace ocellus
