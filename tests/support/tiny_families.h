// The tiny random pairs of all families, and a conversation about two pictures that a family cuts as it cuts any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/memory_plan.h"
#include "tests/support/family_goldens.h"
#include "tests/support/tiled_pictures.h"

namespace ocellus::test {

inline constexpr const char* kTinyFamilies[] = {
    "smolvlm",    "llava-1.5",  "llava-1.6-mistral", "internvl3",    "internvl3.5", "internvl-6b",
    "qwen2-vl",   "qwen2.5-vl", "qwen3-vl",          "cosmos3-edge", "gemma3",      "gemma4",
    "ministral3", "lfm2-vl",    "lightonocr",        "paddleocr"};

std::unique_ptr<Model> open_tiny_family(const std::string& name);

/// Calls check(model) for every family, in which a failure names it.
template <class Check>
void for_each_tiny_family(Check check) {
  for (const std::string name : kTinyFamilies) {
    CAPTURE(name);
    check(*open_tiny_family(name));
  }
}

/// Packed caches on a GPU need heads of 32 values by 32.
bool can_pack(const Model& model);

/// Any rows of a linked picture can be computed in place, not only the first.
inline bool can_spread(const Model& model) { return !model.text().local.convolve(); }

/// LLaVA-1.6 leaves padding out of these, and all but LLaVA-1.5 make tiles.
const TestPicture& wide_picture();
const TestPicture& tall_picture();

ocellus_limits family_limits(int32_t images = 2, int32_t text_tokens = 160);
ocellus_limits linking_limits(ocellus_reuse reuse, int32_t rows);

void add_picture(Session& session, const TestPicture& picture);
void add_words(Session& session, const char* words);
void add_two_pictures(Session& session);

double error_of(const std::vector<float>& got, const std::vector<float>& expected);

}  // namespace ocellus::test
