// Finds damage in a JPEG that decoders do not report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ocellus::app {

// Reads the Huffman codes of a sequential JPEG without decoding pixels, and returns one sentence on the first fault: a
// code that no table has, a block of more than 64 coefficients, data that end before the picture or continue after it.
// Empty if there is none, and for files that it does not support (progressive JPEGs, other formats). JPEG has no
// checksum: damage that leaves a valid file is not found.
std::string find_jpeg_damage(const std::vector<uint8_t>& bytes);

// True if a sequential JPEG has all data of its picture, and nothing is damaged; its end marker may be missing.
bool has_whole_picture(const std::vector<uint8_t>& bytes);

}  // namespace ocellus::app
