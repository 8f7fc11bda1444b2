#include "kernels/cache/favour_rows.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

TEST_CASE("favour_rows raises the listed rows that have a reason, and no other") {
  test::for_each_backend([](Queue& queue) {
    Random random(61);
    for (const int64_t rows : {1, 50, 600}) {
      constexpr int64_t kHeads = 2;
      Guarded<float> scores(kHeads, rows, rows + 3), reasons(kHeads, rows, rows + 1);
      Guarded<int32_t> listed(kHeads, rows), counts(1, kHeads);
      std::vector<float> before;
      std::vector<bool> is_listed(static_cast<size_t>(kHeads * rows));
      for (int64_t g = 0; g < kHeads; ++g) {
        counts.at(0, g) = 0;
        for (int64_t row = 0; row < rows; ++row) {
          before.push_back(scores.at(g, row) = random.uniform(0, 1));
          reasons.at(g, row) = row % 7 == 0   ? 0.0f
                               : row % 7 == 1 ? std::numeric_limits<float>::quiet_NaN()
                                              : random.uniform(0.1f, 1);
          if (random.integer(0, 1) == 0) continue;
          listed.at(g, counts.at(0, g)++) = static_cast<int32_t>(row);
          is_listed[static_cast<size_t>(g * rows + row)] = true;
        }
      }
      favour_rows({.scores = scores.view(),
                   .reasons = reasons.view(),
                   .rows = listed.view(),
                   .counts = counts.data(),
                   .most_listed = rows,
                   .amount = 100},
                  queue);
      REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
      CHECK(scores.intact());
      for (int64_t g = 0; g < kHeads; ++g)
        for (int64_t row = 0; row < rows; ++row) {
          const auto i = static_cast<size_t>(g * rows + row);
          const bool raised = is_listed[i] && row % 7 > 1;
          REQUIRE(scores.at(g, row) == before[i] + (raised ? 100.0f : 0.0f));
        }
    }
  });
}

}  // namespace
}  // namespace ocellus
