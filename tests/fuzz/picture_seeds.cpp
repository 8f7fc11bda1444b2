#include "tests/fuzz/picture_seeds.h"

#include <memory>
#include <string>

#include "mm/pictures/image_decode.h"
#include "tests/support/crafted_pictures.h"
#include "tests/support/failure.h"
#include "tests/support/whole_pictures.h"

namespace ocellus::fuzz {
namespace {

std::vector<Bytes> read_pictures(const std::vector<std::string>& names) {
  std::vector<Bytes> pictures;
  for (const std::string& name : names) pictures.push_back(read_source_file(("tests/data/images/" + name).c_str()));
  return pictures;
}

ImageLimits small_limits() {
  ImageLimits limits;
  limits.max_pixels = 1 << 12;
  limits.max_side = 512;
  return limits;
}

}  // namespace

std::vector<Bytes> make_png_seeds() {
  std::vector<Bytes> seeds =
      read_pictures({"rgb.png", "rgba.png", "palette.png", "palette_alpha.png", "gray_1.png", "gray_2.png",
                     "gray_alpha.png", "rgb_key.png", "rgb_16.png", "rgb_interlaced.png", "rgba_16_interlaced.png"});
  for (const int color : {0, 2, 4, 6}) {
    const size_t samples = color == 2 ? 3 : color == 4 ? 2 : color == 6 ? 4 : 1;
    const testing::Bytes rows(size_t{16} * (16 * samples + 1), 1);
    seeds.push_back(
        testing::make_png({testing::png_header(16, 16, 8, color), testing::png_chunk("IDAT", testing::store_zlib(rows)),
                           testing::png_chunk("IEND", {})}));
  }
  return seeds;
}

std::vector<Bytes> make_jpeg_seeds() {
  std::vector<Bytes> seeds = read_pictures({"baseline_420.jpg", "baseline_444.jpg", "cmyk.jpg", "ycck.jpg", "gray.jpg",
                                            "progressive_422.jpg", "progressive_444.jpg", "restart.jpg"});
  testing::JpegRecipe flat;
  seeds.push_back(testing::make_jpeg(flat));
  flat.sampling = {0x22, 0x11, 0x11};
  flat.width = 33;
  seeds.push_back(testing::make_jpeg(flat));
  flat.frame_marker = 0xC2;
  flat.sampling = {0x21, 0x12, 0x11};
  seeds.push_back(testing::make_jpeg(flat));
  return seeds;
}

bool decode_picture(const uint8_t* data, size_t size) {
  static const ImageLimits limits = small_limits();
  static const int64_t scratch_bytes = decode_scratch_bytes(limits);
  static const std::unique_ptr<std::byte[]> scratch(new std::byte[static_cast<size_t>(scratch_bytes)]);
  test::clear_failure();
  RgbImage image;
  const auto bytes = static_cast<int64_t>(size);
  if (!testing::decode_image(data, bytes, limits, {scratch.get(), scratch_bytes}, &image).ok()) {
    require(last_failure().sentence[0] != '\0', "a picture is refused with a sentence");
    return false;
  }
  ImageFacts facts;
  require(probe_image(data, bytes, limits, &facts).ok(), "what decodes has a sound header");
  require(image.width == facts.width && image.height == facts.height, "a picture has the size that its header says");
  require(reinterpret_cast<const std::byte*>(image.pixels) == scratch.get(), "a picture lies in front of the scratch");
  require(int64_t{image.width} * image.height <= limits.max_pixels, "a picture is within the limits");
  return true;
}

}  // namespace ocellus::fuzz
