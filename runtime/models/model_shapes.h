// Shapes of public models without their weights: the numbers of a model card, turned into the headers of a GGUF pair.
// Plans, binding and prompts then work as with files; the engine uses random weights (random_weights.h). For questions
// about memory and speed, which do not depend on the weights' values.
#pragma once

#include <cstdint>

#include "platform/buffer.h"
#include "platform/status.h"
#include "runtime/models/family.h"

namespace ocellus {

/// Number of known shapes.
int32_t model_shape_count();
const ModelShape& model_shape(int32_t index);

/// Finds a shape by name, ignoring case; kBadArgument names those that begin most alike.
Status find_model_shape(const char* name, const ModelShape** out);
/// Returns the shape with `layers` layers in its language model and at most as many in its vision part; 0: all.
/// kBadArgument if there are fewer.
Status with_layers(const ModelShape& shape, int32_t layers, ModelShape* out);

/// Headers of the model file and of the mmproj file. Norms, biases and positions are F32, and so is the patch
/// embedding, unless all is F16. Beside a mixture the mmproj file is Q8_0, as published ones are. The vocabulary has
/// 256 byte tokens, the special tokens of the prompt template, and generated words up to the model's size: any text can
/// be tokenised, any id printed.
Status describe_text_model(const ModelShape& shape, FileType type, Buffer<uint8_t>* out);
Status describe_vision_model(const ModelShape& shape, FileType type, Buffer<uint8_t>* out);

}  // namespace ocellus
