// Damage inside a JPEG that decoders do not tell of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ocellus::app {

// Reads the Huffman codes of a sequential JPEG without making pixels of them, and says in one sentence what does not
// fit: a code that no table has, a block of more than 64 coefficients, data that end before the picture or go on behind
// it. Empty if all fits, and for what it cannot read so (progressive JPEGs, other files). JPEG has no checksum: damage
// that leaves a sound file is not found.
std::string find_jpeg_damage(const std::vector<uint8_t>& bytes);

}  // namespace ocellus::app
