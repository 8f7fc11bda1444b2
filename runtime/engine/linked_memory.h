// Rows for linked pictures: see ReuseShape. They live as long as the engine.
#pragma once

#include "platform/arena.h"
#include "runtime/engine/engine_shape.h"
#include "runtime/engine/shared_images.h"

namespace ocellus {

struct LinkedMemory {
  PromptChunk chunk;    // a picture that is read alone, in the memory of the engine's chunk
  ActivationView rows;  // [images * rows, input_width] embeddings of rows that are read in place
  SharedImageMemory shared_memory;
  SharedImages shared;  // no row
};

}  // namespace ocellus
