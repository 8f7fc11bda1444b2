// Writes zlib streams with blocks of every kind, so that a decoder's inflating is reached through a valid container.
#pragma once

#include "tests/fuzz/fuzz_target.h"

namespace ocellus::fuzz {

/// A sound stream that holds the data: stored blocks, fixed codes and codes of its own, as chance has it.
Bytes write_zlib(const Bytes& data, Random& random);

}  // namespace ocellus::fuzz
