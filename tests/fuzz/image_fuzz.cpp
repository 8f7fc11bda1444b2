// JPEG and PNG from any bytes, in scratch of exactly the planned size. The build links it with replay.cpp, which only
// replays files. For a search, compile this file, the picture sources of mm/ and platform/status.cpp with
// clang++ -std=c++20 -O1 -g -I. -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
// (mm/stb_codecs.cpp with -fwrapv -fno-sanitize=shift besides) and start from tests/data/images.
#include <cstdlib>
#include <memory>

#include "mm/image_decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ocellus::ImageLimits limits;
  limits.max_pixels = 1 << 14;
  limits.max_side = 1024;
  static const int64_t scratch_bytes = ocellus::decode_scratch_bytes(limits);
  static const std::unique_ptr<std::byte[]> scratch(new std::byte[static_cast<size_t>(scratch_bytes)]);
  ocellus::RgbImage image;
  const auto bytes = static_cast<int64_t>(size);
  if (!ocellus::decode_image(data, bytes, limits, {scratch.get(), scratch_bytes}, &image).ok()) return 0;
  // A picture that decodes has the size its header says, at the front of the scratch.
  ocellus::ImageFacts facts;
  if (!ocellus::probe_image(data, bytes, limits, &facts).ok() || image.width != facts.width ||
      image.height != facts.height || reinterpret_cast<const std::byte*>(image.pixels) != scratch.get()) {
    std::abort();
  }
  return 0;
}
