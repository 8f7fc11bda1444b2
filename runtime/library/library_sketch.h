// Sketches of embeddings: 1024 bits of which as many differ as the angle between two embeddings is wide.
//
// Bit i is the side of a plane on which the embedding lies; the planes are rows of a Hadamard matrix after random
// changes of sign, so that no few elements decide about all bits.
#pragma once

#include <cstdint>
#include <span>

namespace ocellus {

inline constexpr int64_t kSketchBits = 1024;
inline constexpr int64_t kSketchWords = kSketchBits / 64;

void sketch_embedding(std::span<const float> embedding, uint64_t* out);

}  // namespace ocellus
