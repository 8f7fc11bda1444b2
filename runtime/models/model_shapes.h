// Shapes of public models without their weights: the numbers of a model card, turned into the headers of the GGUF pair
// that the model would be. Plans, binding and prompts then work as with files; the engine makes the weights up
// (random_weights.h). For questions about memory and speed, which do not depend on what the weights say.
#pragma once

#include <cstdint>

#include "platform/buffer.h"
#include "platform/status.h"
#include "runtime/models/family.h"

namespace ocellus {

/// All shapes known by name.
int32_t model_shape_count();
const ModelShape& model_shape(int32_t index);

/// By name, in any case of letters; kBadArgument lists the names.
Status find_model_shape(const char* name, const ModelShape** out);
/// The shape with `layers` layers in its language model and at most as many in its vision part; 0: all. kBadArgument
/// for more than there are.
Status with_layers(const ModelShape& shape, int32_t layers, ModelShape* out);
/// By name, as "Q4_K", in any case of letters; kBadArgument lists the names.
Status find_shape_format(const char* name, WeightFormat* out);

/// Headers of the model file and of the mmproj file. Matrices have `format` as far as it fits; norms, biases and
/// positions are F32; the patch embedding of a block format is F16. The vocabulary has 256 byte tokens, the special
/// tokens of the prompt template, and made-up words up to the model's size: any text can be tokenised, any id printed.
Status describe_text_model(const ModelShape& shape, WeightFormat format, Buffer<uint8_t>* out);
Status describe_vision_model(const ModelShape& shape, WeightFormat format, Buffer<uint8_t>* out);

}  // namespace ocellus
