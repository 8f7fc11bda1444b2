// HEIC and AVIF files, by libheif's encoders.
#pragma once

#include "tests/support/crafted_pictures.h"

namespace ocellus::testing {

enum class HeifCoding { kHevc, kAv1 };

/// RGB8, or RGBA8 with alpha; empty if this libheif has no such encoder. Tests that call it link
/// tests/support/heif_files.cpp.
Bytes encode_heif(const Bytes& pixels, int width, int height, bool has_alpha, HeifCoding coding);

}  // namespace ocellus::testing
