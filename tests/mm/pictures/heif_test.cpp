// HEIC and AVIF through libheif: sizes, colours near those that were encoded, alpha on white, one sentence else.
#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/support/decoded_file.h"
#include "tests/support/heif_files.h"
#include "tests/support/random.h"

using namespace ocellus;
using namespace ocellus::testing;

namespace {

Bytes smooth(int width, int height, bool has_alpha) {
  Bytes out;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      append(out, {static_cast<uint8_t>(x * 3), static_cast<uint8_t>(y * 4), static_cast<uint8_t>(200 - x)});
      if (has_alpha) out.push_back(x < width / 2 ? 255 : 0);
    }
  return out;
}

}  // namespace

TEST_CASE("HEIC and AVIF decode to the colours that they were made of") {
  int made = 0;
  for (const HeifCoding coding : {HeifCoding::kHevc, HeifCoding::kAv1}) {
    for (const bool has_alpha : {false, true}) {
      const int width = 80, height = 56;
      const Bytes pixels = smooth(width, height, has_alpha);
      const Bytes file = encode_heif(pixels, width, height, has_alpha, coding);
      if (file.empty()) continue;
      ++made;
      const DecodedFile decoded = decode_file(file);
      INFO(last_failure().sentence);
      REQUIRE(decoded.code == Code::kOk);
      CHECK(decoded.facts.format == ImageFormat::kHeif);
      CHECK(decoded.facts.width == width);
      CHECK(decoded.facts.height == height);
      CHECK(decoded.facts.whole_pixels >= 3 * width * height);  // the heap that it takes is planned for
      const int channels = has_alpha ? 4 : 3;
      int64_t difference = 0;
      for (int i = 0; i < width * height; ++i)
        for (int c = 0; c < 3; ++c) {
          const bool is_clear = has_alpha && i % width >= width / 2;
          const int expected = is_clear ? 255 : pixels[static_cast<size_t>(i * channels + c)];
          difference += std::abs(expected - int{decoded.pixels[static_cast<size_t>(3 * i + c)]});
        }
      CHECK(difference < 6 * 3 * width * height);
      ImageLimits limits;
      limits.max_pixels = width * height - 1;
      CHECK(decode_file(file, limits).code == Code::kBadImage);
      CHECK(failure_says("80 x 56"));
      Bytes cut(file.begin(), file.end() - static_cast<std::ptrdiff_t>(file.size() / 3));
      CHECK(decode_file(cut).code != Code::kOk);
      CHECK(failure_says(coding == HeifCoding::kAv1 ? "AVIF" : "HEI"));
    }
  }
  if (made == 0) MESSAGE("this libheif encodes nothing (its encoders may be packages of their own): nothing was tried");
}

TEST_CASE("damaged HEIC is a value") {
  const Bytes file = encode_heif(smooth(32, 32, false), 32, 32, false, HeifCoding::kHevc);
  test::Random random(4);
  for (int round = 0; round < 100 && !file.empty(); ++round) {
    Bytes changed = file;
    changed[static_cast<size_t>(random.integer(12, static_cast<int64_t>(file.size()) - 1))] =
        static_cast<uint8_t>(random.integer(0, 255));
    ImageLimits limits;
    limits.max_pixels = 1 << 14;
    const DecodedFile decoded = decode_file(changed, limits);
    CHECK((decoded.code == Code::kOk || decoded.code == Code::kBadImage || decoded.code == Code::kUnsupported));
  }
}
