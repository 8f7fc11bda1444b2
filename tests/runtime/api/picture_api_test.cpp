// Picture files and frames at the C API, without an engine.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "mm/pictures/image_decode.h"
#include "runtime/ocellus.h"
#include "tests/support/failure.h"
#include "tests/support/goldens.h"
#include "tests/support/whole_pictures.h"

namespace ocellus {

using test::last_error_says;

TEST_CASE("depth is shown by a frame's range, by the limits', and by who decodes it") {
  const std::vector<uint8_t> file =
      test::read_bytes(std::string(OCELLUS_SOURCE_DIR) + "/tests/data/images/gray_16_depth.png");
  const auto bytes = static_cast<int64_t>(file.size());
  ocellus_image_facts facts;
  REQUIRE(ocellus_image_probe(file.data(), bytes, &facts) == OCELLUS_OK);
  CHECK(facts.is_gray16 == 1);
  std::vector<uint8_t> memory(static_cast<size_t>(facts.decode_bytes));
  REQUIRE(ocellus_image_decode_depth(file.data(), bytes, 300, 5000, memory.data(), facts.decode_bytes) == OCELLUS_OK);
  const uint16_t depths[] = {0, 300, 1475, 2650, 5000, 5001, 65535};
  ocellus_frame frame = {};
  frame.format = OCELLUS_GRAY16;
  frame.width = 7;
  frame.height = 1;
  frame.plane[0] = reinterpret_cast<const uint8_t*>(depths);
  frame.stride_bytes[0] = sizeof depths;
  frame.depth_near = 300;
  frame.depth_far = 5000;
  uint8_t rgb[21];
  REQUIRE(ocellus_frame_convert(&frame, rgb, sizeof rgb) == OCELLUS_OK);
  CHECK(std::equal(rgb, rgb + sizeof rgb, memory.begin()));
  CHECK(int{rgb[6]} == 191);
  CHECK(ocellus_frame_convert(&frame, rgb, 20) == OCELLUS_FULL);
  ocellus_frame thin = frame;  // a shape that no plan allows
  thin.format = OCELLUS_GRAY8;
  thin.width = 1;
  thin.stride_bytes[0] = 1;
  std::vector<uint8_t> line(4000, 7), wide(12000);
  thin.plane[0] = line.data();
  thin.height = 4000;
  CHECK(ocellus_frame_convert(&thin, wide.data(), 12000) == OCELLUS_OK);
  CHECK(wide == std::vector<uint8_t>(12000, 7));
  CHECK(ocellus_frame_convert(nullptr, rgb, 20) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_frame_convert(&frame, nullptr, 21) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_image_decode_depth(file.data(), bytes, 5, 5, memory.data(), facts.decode_bytes) ==
        OCELLUS_BAD_ARGUMENT);
  CHECK(last_error_says(OCELLUS_BAD_ARGUMENT, "0 <= near < far <= 65535"));
}

TEST_CASE("a picture's file is decoded in memory of exactly the announced size to what the library itself sees") {
  const std::string folder = std::string(OCELLUS_SOURCE_DIR) + "/tests/data/images/";
  for (const char* name : {"baseline_420.jpg", "progressive_422.jpg", "palette_alpha.png", "rgba_16_interlaced.png"}) {
    CAPTURE(name);
    const std::vector<uint8_t> file = test::read_bytes(folder + name);
    const auto bytes = static_cast<int64_t>(file.size());
    ocellus_image_facts facts;
    REQUIRE(ocellus_image_probe(file.data(), bytes, &facts) == OCELLUS_OK);
    CHECK(facts.decode_bytes >= int64_t{3} * facts.width * facts.height);
    const auto size = static_cast<size_t>(facts.decode_bytes);
    std::vector<uint8_t> memory(size + 16, 0xA5), reference(size);
    REQUIRE(ocellus_image_decode(file.data(), bytes, memory.data(), facts.decode_bytes) == OCELLUS_OK);
    CHECK(std::all_of(memory.end() - 16, memory.end(), [](uint8_t byte) { return byte == 0xA5; }));
    RgbImage image;
    const Extent scratch{reinterpret_cast<std::byte*>(reference.data()), facts.decode_bytes};
    ImageDecoder decoder;
    REQUIRE(decoder.open().ok());
    REQUIRE(decoder.decode(file.data(), bytes, {}, scratch, &image).ok());
    CHECK(image.width == facts.width);
    CHECK(image.height == facts.height);
    CHECK(std::memcmp(memory.data(), image.pixels, static_cast<size_t>(3) * facts.width * facts.height) == 0);
    CHECK(ocellus_image_decode(file.data(), bytes, memory.data(), facts.decode_bytes - 1) == OCELLUS_FULL);
    CHECK(ocellus_image_decode(file.data(), bytes, memory.data() + 1, facts.decode_bytes) == OCELLUS_BAD_ARGUMENT);
    CHECK(ocellus_image_decode(file.data(), bytes / 2, memory.data(), facts.decode_bytes) == OCELLUS_BAD_IMAGE);
  }
}

}  // namespace ocellus
