// A small pair that can be changed: the facts and the vocabulary of the bundled pair over a few small F32 tensors of
// random weights. Everything works, nothing takes time.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include "tests/support/gguf_builder.h"
#include "tests/support/goldens.h"
#include "tests/support/random.h"
#include "tests/support/temporary_file.h"

namespace ocellus::test {

bool has_entry(const GgufBuilder& file, std::string_view key);

/// The builder without the key, so that it can be added with another value.
GgufBuilder& without(GgufBuilder& file, std::string_view key);
void set_count(GgufBuilder& file, std::string_view key, uint32_t value);
void set_float(GgufBuilder& file, std::string_view key, float value);

/// A tensor of random values under a name that may be taken: the older one goes.
void set_tensor(GgufBuilder& file, const std::string& name, const std::vector<uint64_t>& ne, float size = 0.2f);

GgufBuilder facts_of(const std::string& path);

/// Two layers of width 32: four query heads and two key/value heads of 8, MLP of 64. No output matrix.
GgufBuilder small_model();

/// Views of 32 x 32 pixels in 4 x 4 patches, two layers of width 16 with two heads, four tokens a view.
GgufBuilder small_projector();

/// The same tower as CLIP's and a projector as LLaVA-1.5's: 16 tokens a view, 24 values between the projector's maps.
GgufBuilder small_llava_projector();

}  // namespace ocellus::test
