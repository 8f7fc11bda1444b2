#include "kernels/cache/split_modalities.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

TEST_CASE("split_modalities gives every row what its own modality and the other attend, and the sum") {
  test::for_each_backend([](Queue& queue) {
    Random random(60);
    for (const int64_t rows : {1, 37, 256, 700}) {
      constexpr int64_t kHeads = 3;
      Guarded<float> text(kHeads, rows, rows + 2), visual(kHeads, rows, rows + 5), sums(kHeads, rows);
      test::Vector<uint8_t> is_visual(static_cast<size_t>(rows));
      for (uint8_t& flag : is_visual) flag = random.integer(0, 2) == 0 ? 0 : 1;
      std::vector<float> of_text, of_visual;
      for (int64_t g = 0; g < kHeads; ++g)
        for (int64_t row = 0; row < rows; ++row) {
          of_text.push_back(text.at(g, row) = random.uniform(0, 1));
          of_visual.push_back(visual.at(g, row) = random.uniform(0, 1));
        }
      split_modalities({.of_text = text.view(),
                        .of_visual = visual.view(),
                        .is_visual = is_visual.data(),
                        .row_count = rows,
                        .sums = sums.view()},
                       queue);
      REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
      CHECK((text.intact() && visual.intact() && sums.intact()));
      for (int64_t g = 0; g < kHeads; ++g)
        for (int64_t row = 0; row < rows; ++row) {
          const auto i = static_cast<size_t>(g * rows + row);
          const bool of_image = is_visual[static_cast<size_t>(row)] != 0;
          REQUIRE(text.at(g, row) == (of_image ? of_visual[i] : of_text[i]));
          REQUIRE(visual.at(g, row) == (of_image ? of_text[i] : of_visual[i]));
          REQUIRE(sums.at(g, row) == of_text[i] + of_visual[i]);
        }
    }
  });
}

}  // namespace
}  // namespace ocellus
