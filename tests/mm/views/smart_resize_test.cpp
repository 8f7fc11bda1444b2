#include "mm/views/smart_resize.h"

#include <doctest/doctest.h>

#include "tests/support/random.h"

namespace ocellus {
namespace {

constexpr SmartResize kQwen2{28, 3136, 12845056}, kQwen2Rows{28, 3136, int64_t{1280} * 28 * 28},
    kQwen3{32, 65536, 16777216}, kQwen3Rows{32, 65536, int64_t{512} * 32 * 32}, kLfm2{32, 65536, 262144, true};

}  // namespace

TEST_CASE("pictures get the sizes that the published preprocessing gives them") {
  struct Case {
    Size picture, qwen2, qwen2_rows, qwen3, qwen3_rows;
  };
  const Case cases[] = {
      {{336, 336}, {336, 336}, {336, 336}, {320, 320}, {320, 320}},
      {{448, 448}, {448, 448}, {448, 448}, {448, 448}, {448, 448}},
      {{640, 480}, {644, 476}, {644, 476}, {640, 480}, {640, 480}},
      {{1280, 720}, {1288, 728}, {1288, 728}, {1280, 704}, {960, 512}},
      {{1920, 1080}, {1932, 1092}, {1316, 728}, {1920, 1088}, {960, 512}},
      {{300, 200}, {308, 196}, {308, 196}, {320, 224}, {320, 224}},
      {{100, 40}, {112, 28}, {112, 28}, {416, 192}, {416, 192}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.picture.width);
    CAPTURE(c.picture.height);
    CHECK(smart_size(kQwen2, c.picture) == c.qwen2);
    CHECK(smart_size(kQwen2Rows, c.picture) == c.qwen2_rows);
    CHECK(smart_size(kQwen3, c.picture) == c.qwen3);
    CHECK(smart_size(kQwen3Rows, c.picture) == c.qwen3_rows);
  }
  CHECK(smart_size(kQwen2, {280, 70}) == Size{280, 56});  // 2.5 is rounded to 2, 3.5 to 4
  CHECK(smart_size(kQwen2, {280, 98}) == Size{280, 112});
}

TEST_CASE("narrow pictures are a row wide before they are enlarged, where that is the rule") {
  const struct {
    Size picture, size;
  } cases[] = {{{336, 336}, {320, 320}}, {{640, 480}, {576, 416}},   {{300, 200}, {320, 224}}, {{100, 40}, {416, 192}},
               {{256, 384}, {256, 384}}, {{1000, 3000}, {288, 864}}, {{80, 80}, {256, 256}},   {{2100, 10}, {2112, 32}},
               {{10, 2100}, {32, 2112}}, {{600, 10}, {1984, 64}}};
  for (const auto& c : cases) {
    CAPTURE(c.picture.width);
    CAPTURE(c.picture.height);
    CHECK(smart_size(kLfm2, c.picture) == c.size);
  }
  SmartResize without = kLfm2;
  without.rounds_up = false;
  CHECK(smart_size(without, {2100, 10}) == Size{3712, 32});
}

TEST_CASE("no picture gets more rows than its bound, or no pixels") {
  test::Random random(3);
  for (int i = 0; i < 20000; ++i) {
    const SmartResize rules{32, 65536, int64_t{random.integer(1, 700)} * 1024};
    const Size picture{static_cast<int32_t>(random.integer(1, i % 2 == 0 ? 65535 : 900)),
                       static_cast<int32_t>(random.integer(1, i % 3 == 0 ? 65535 : 40))};
    CAPTURE(picture.width);
    CAPTURE(picture.height);
    const Size size = smart_size(rules, picture);
    REQUIRE(int64_t{size.width} * size.height <= rules.max_pixels);
    REQUIRE(size.width >= 32);
    REQUIRE(size.height >= 32);
    REQUIRE(size.width % 32 == 0);
    REQUIRE(size.height % 32 == 0);
  }
}

}  // namespace ocellus
