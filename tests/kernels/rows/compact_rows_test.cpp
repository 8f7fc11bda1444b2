#include "kernels/rows/compact_rows.h"

#include <doctest/doctest.h>

#include <array>

#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

TEST_CASE("compact_rows moves the rows that are kept to the front and writes nothing else") {
  test::for_each_backend([](Queue& queue) {
    test::Random random(11);
    for (const auto& [rows, width, gap, keep_percent] : {std::array<int64_t, 4>{1, 1, 0, 100},
                                                         {40, 200, 3, 50},
                                                         {97, 130, 0, 10},
                                                         {64, 33, 1, 100},
                                                         {300, 5, 2, 90}}) {
      CAPTURE(rows);
      CAPTURE(width);
      test::Guarded<float> values(rows, width, width + gap);
      test::Vector<int32_t> kept;
      for (int64_t t = 0; t < rows; ++t) {
        for (int64_t i = 0; i < width; ++i) values.at(t, i) = static_cast<float>(1000 * t + i);
        if (random.integer(1, 100) <= keep_percent) kept.push_back(static_cast<int32_t>(t));
      }
      const auto count = static_cast<int64_t>(kept.size());
      compact_rows({.rows = values.view(), .kept = kept.data(), .count = count}, queue);
      REQUIRE(queue.finish().ok());
      CHECK(values.intact());
      for (int64_t t = 0; t < rows; ++t) {
        const int64_t from = t < count ? kept[static_cast<size_t>(t)] : t;
        for (int64_t i = 0; i < width; ++i) REQUIRE(values.at(t, i) == static_cast<float>(1000 * from + i));
      }
    }
  });
}

}  // namespace
}  // namespace ocellus
