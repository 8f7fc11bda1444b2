// Changes to GGUF files that keep most of the container sound, so that what is wrong is met deep inside.
#pragma once

#include "tests/fuzz/fuzz_target.h"

namespace ocellus::fuzz {

/// Changes a key, a value, a type, a count, a tensor's description or its data; lengths, offsets and padding around it
/// are worked out anew, unless one of them is what is changed. Of a damaged file what can be read is kept.
void change_gguf(Bytes& input, Random& random);

/// The small random models of tests/support, as files.
std::vector<Bytes> make_text_models();
std::vector<Bytes> make_projectors();

}  // namespace ocellus::fuzz
