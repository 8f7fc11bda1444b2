#include "kernels/cache/sum_scores.h"

#include <doctest/doctest.h>

#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

TEST_CASE("sum_scores adds up the rows of all heads, and nothing behind them") {
  test::for_each_backend([](Queue& queue) {
    Random random(62);
    for (const int64_t rows : {1, 31, 1024, 3001}) {
      for (const int64_t heads : {1, 5}) {
        Guarded<float> scores(heads, rows + 4, rows + 7), total(1, 1);
        double wanted = 0;
        for (int64_t g = 0; g < heads; ++g)
          for (int64_t row = 0; row < rows + 4; ++row) {
            scores.at(g, row) = random.uniform(-1, 2);
            if (row < rows) wanted += static_cast<double>(scores.at(g, row));
          }
        sum_scores({.scores = scores.view(), .row_count = rows, .total = total.data()}, queue);
        REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
        CHECK((scores.intact() && total.intact()));
        CHECK(static_cast<double>(total.at(0, 0)) == doctest::Approx(wanted).epsilon(1e-6));
      }
    }
  });
}

}  // namespace
}  // namespace ocellus
