// Small pictures to start from: the files of tests/data/images, which are 45 x 37, and some made byte by byte.
#pragma once

#include "tests/fuzz/fuzz_target.h"

namespace ocellus::fuzz {

std::vector<Bytes> make_png_seeds();
std::vector<Bytes> make_jpeg_seeds();

/// Decodes a picture of any kind in scratch of exactly the planned size, and holds what comes out against the header.
/// Whether it decodes.
bool decode_picture(const uint8_t* data, size_t size);

}  // namespace ocellus::fuzz
