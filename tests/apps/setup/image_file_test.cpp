// Picture files: read once, and kept unless they are many.
#include "apps/setup/image_file.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "apps/camera/picture_encode.h"

namespace ocellus::app {
namespace {

namespace fs = std::filesystem;

TEST_CASE("a picture's file is read once, of many large ones each time that it is needed") {
  const std::string path =
      (fs::temp_directory_path() / ("ocellus_image_" + std::to_string(getpid()) + ".png")).string();
  const std::vector<uint8_t> pixels(3 * 64 * 48, 90);
  std::vector<uint8_t> bytes;
  REQUIRE(encode_png(pixels.data(), 64, 48, &bytes));
  bytes.resize(size_t{20} << 20);  // what follows the picture is not looked at
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  const std::vector<ImageFile> images = probe_images({path, path});
  CHECK(read_image(images[1])->bytes == bytes);
  fs::remove(path);
  CHECK(read_image(images[0])->bytes == bytes);
  CHECK(read_image(images[0])->width == 64);
  CHECK_THROWS_AS(read_image(images[1]), Failure);
}

}  // namespace
}  // namespace ocellus::app
