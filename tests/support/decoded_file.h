// A picture file decoded in scratch of exactly the announced size.
#pragma once

#include <doctest/doctest.h>

#include "tests/support/crafted_pictures.h"
#include "tests/support/failure.h"
#include "tests/support/pictures.h"
#include "tests/support/whole_pictures.h"

namespace ocellus::testing {

struct DecodedFile {
  Code code = Code::kOk;
  ImageFacts facts;
  Bytes pixels;
};

inline DecodedFile decode_file(const Bytes& file, const ImageLimits& limits = {}) {
  DecodedFile out;
  test::clear_failure();
  const auto size = static_cast<int64_t>(file.size());
  out.code = probe_image(file.data(), size, limits, &out.facts).code();
  if (out.code != Code::kOk) return out;
  GuardedScratch scratch(out.facts.scratch_bytes);
  RgbImage image;
  out.code = decode_image(file.data(), size, limits, scratch.extent(), &image).code();
  REQUIRE(scratch.intact());
  if (out.code != Code::kOk) return out;
  REQUIRE(image.width == out.facts.width);
  REQUIRE(image.height == out.facts.height);
  out.pixels.assign(image.pixels, image.pixels + image.stride_bytes * image.height);
  return out;
}

/// Whether the newest failure's sentence has these words.
inline bool failure_says(const char* words) {
  return std::string(last_failure().sentence).find(words) != std::string::npos;
}

}  // namespace ocellus::testing
