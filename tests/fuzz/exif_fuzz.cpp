// EXIF by itself, in a PNG and in a JPEG: it turns a picture or does nothing, and all three agree.
#include <cstring>

#include "mm/pictures/image_decode.h"
#include "mm/pictures/orientation.h"
#include "tests/fuzz/byte_changes.h"
#include "tests/support/exif.h"

namespace ocellus::fuzz {
namespace {

constexpr int kWidth = 5, kHeight = 3;
constexpr size_t kMaxTiffBytes = 60000;  // a JPEG's segment has 65,533
constexpr size_t kFieldBytes = 12;

std::vector<Bytes> make_seeds() {
  std::vector<Bytes> seeds;
  for (int orientation = 1; orientation <= 8; ++orientation) {
    seeds.push_back(testing::exif(orientation, orientation % 2 == 0));
  }
  return seeds;
}

// Numbers of two or four bytes in the file's own order, where a directory has them.
void change_exif(Bytes& input, Random& random) {
  if (input.size() < 10 || once_in(8, random)) return change_bytes(input, random);
  const bool is_little = input[0] == 'I';
  const auto write = [&](size_t at, uint64_t value, size_t count) {
    for (size_t i = 0; i < count && at + i < input.size(); ++i)
      input[at + i] = static_cast<uint8_t>(value >> (8 * (is_little ? i : count - 1 - i)));
  };
  const size_t field = 10 + kFieldBytes * pick_index((input.size() - 10) / kFieldBytes + 1, random);
  switch (random.integer(0, 8)) {
    case 0: write(4, odd_number(random), 4); break;  // offset of the directory
    case 1: write(8, odd_number(random), 2); break;  // number of its fields
    case 2: write(field, once_in(2, random) ? 0x0112 : odd_number(random), 2); break;
    case 3: write(field + 2, static_cast<uint64_t>(random.integer(0, 13)), 2); break;
    case 4: write(field + 4, odd_number(random), 4); break;
    case 5: write(field + 8, static_cast<uint64_t>(random.integer(0, 9)), 2); break;
    case 6: input[0] = input[1] = once_in(2, random) ? 'I' : 'M'; break;
    case 7: {
      const Bytes field_copy = random.bytes(kFieldBytes);
      input.insert(input.begin() + static_cast<std::ptrdiff_t>(std::min(field, input.size())), field_copy.begin(),
                   field_copy.end());
      break;
    }
    default: input.resize(pick_index(input.size(), random) + 1);
  }
}

bool is_turned(const Bytes& picture) {
  ImageFacts facts;
  require(probe_image(picture.data(), static_cast<int64_t>(picture.size()), ImageLimits(), &facts).ok(),
          "a picture is sound whatever its EXIF");
  require(facts.width * facts.height == kWidth * kHeight, "turning keeps the pixels");
  return facts.width == kHeight;
}

bool run(const uint8_t* data, size_t size) {
  static const testing::Bytes pixels(size_t{3} * kWidth * kHeight, 100);
  static const testing::Bytes jpeg = testing::make_jpeg({.width = kWidth, .height = kHeight});
  const Orientation orientation = read_exif_orientation(data, static_cast<int64_t>(size));
  constexpr char kBefore[] = "Exif\0";  // and the zero at its end: a JPEG's segment has that before the TIFF data
  const bool has_before = size >= sizeof kBefore && std::memcmp(data, kBefore, sizeof kBefore) == 0;
  if (size > kMaxTiffBytes || has_before) return !orientation.is_upright();
  const Bytes tiff(data, data + size);
  require(is_turned(testing::with_exif(jpeg, tiff)) == orientation.transposed, "a JPEG is turned as its EXIF says");
  if (size > 0) {
    require(is_turned(testing::rgb_png(pixels, kWidth, kHeight, tiff)) == orientation.transposed,
            "a PNG is turned as its EXIF says");
  }
  return !orientation.is_upright();
}

const Registration kRegistered(
    {.name = "exif", .make_seeds = make_seeds, .mutate = change_exif, .run = run, .most_heap_bytes = int64_t{4} << 20});

}  // namespace
}  // namespace ocellus::fuzz
