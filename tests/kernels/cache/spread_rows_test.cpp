#include "kernels/cache/spread_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Random;

struct Rows {
  Rows(int64_t rows, int64_t width, int64_t text_every, Random& random)
      : values(rows, width, width + 3), ids(static_cast<size_t>(rows)), least(1, rows), mean(1, width) {
    for (int64_t t = 0; t < rows; ++t) {
      const bool is_text = text_every > 0 && t % text_every == 0;
      ids[static_cast<size_t>(t)] = is_text ? static_cast<int32_t>(t) : kSkippedRow;
      if (!is_text) candidates.push_back(t);
      for (int64_t i = 0; i < width; ++i) values.at(t, i) = is_text ? 1e6f : random.uniform(-1, 1);
    }
  }
  SpreadRowsArgs args(test::Guarded<int32_t>& picks, int64_t count) {
    return {.rows = values.view(),
            .ids = ids.data(),
            .least = least.data(),
            .mean = mean.data(),
            .picks = picks.data(),
            .count = static_cast<int32_t>(count)};
  }

  test::Guarded<float> values;
  test::Vector<int32_t> ids;
  test::Guarded<float> least, mean;
  std::vector<int64_t> candidates;
};

/// Of a row and another, or the mean.
double distance_of(const Rows& rows, int64_t row, const std::vector<double>& to) {
  double sum = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    const double apart = static_cast<double>(rows.values.at(row, static_cast<int64_t>(i))) - to[i];
    sum += apart * apart;
  }
  return sum;
}

std::vector<double> row_of(const Rows& rows, int64_t row, int64_t width) {
  std::vector<double> values;
  for (int64_t i = 0; i < width; ++i) values.push_back(static_cast<double>(rows.values.at(row, i)));
  return values;
}

/// The candidate nearest to the mean.
int32_t first_by_definition(const Rows& rows, int64_t width) {
  std::vector<double> mean(static_cast<size_t>(width));
  for (const int64_t row : rows.candidates)
    for (size_t i = 0; i < mean.size(); ++i)
      mean[i] += static_cast<double>(rows.values.at(row, static_cast<int64_t>(i))) /
                 static_cast<double>(rows.candidates.size());
  return static_cast<int32_t>(
      *std::min_element(rows.candidates.begin(), rows.candidates.end(),
                        [&](int64_t a, int64_t b) { return distance_of(rows, a, mean) < distance_of(rows, b, mean); }));
}

/// By the definition, each step from all picks so far.
std::vector<int32_t> spread_by_definition(const Rows& rows, int64_t width, int64_t count) {
  std::vector<int32_t> picks = {first_by_definition(rows, width)};
  while (std::ssize(picks) < count) {
    int64_t best = -1;
    double farthest = -1;
    for (const int64_t row : rows.candidates) {
      if (std::find(picks.begin(), picks.end(), row) != picks.end()) continue;
      double least = std::numeric_limits<double>::max();
      for (const int32_t pick : picks) least = std::min(least, distance_of(rows, row, row_of(rows, pick, width)));
      if (least <= farthest) continue;
      farthest = least;
      best = row;
    }
    picks.push_back(static_cast<int32_t>(best));
  }
  return picks;
}

TEST_CASE("spread_rows picks the middle row, then always the farthest, among rows of images only") {
  test::for_each_target([] {
    test::for_each_backend([](Queue& queue) {
      Random random(31);
      for (const auto& [rows, width, text_every, count] :
           {std::array<int64_t, 4>{1, 5, 0, 1}, {7, 16, 3, 4}, {64, 384, 0, 16}, {90, 33, 17, 84}, {130, 8, 64, 64}}) {
        CAPTURE(rows);
        Rows image(rows, width, text_every, random);
        test::Guarded<int32_t> picks(1, count);
        spread_rows(image.args(picks, count), queue);
        REQUIRE(queue.finish().ok());
        CHECK(std::vector<int32_t>(picks.data(), picks.data() + count) == spread_by_definition(image, width, count));
        CHECK(picks.intact());
        CHECK(image.least.intact());
        CHECK(image.mean.intact());
      }
    });
  });
}

TEST_CASE("spread_rows picks every row once where rows are equal or are no numbers") {
  test::for_each_backend([](Queue& queue) {
    Random random(5);
    for (const bool numbers : {true, false}) {
      Rows image(40, 8, 0, random);
      for (int64_t t = 0; t < 40; ++t)
        for (int64_t i = 0; i < 8; ++i)
          image.values.at(t, i) = numbers ? 1.0f : t % 3 == 0 ? std::numeric_limits<float>::quiet_NaN() : 2.0f;
      test::Guarded<int32_t> picks(1, 40);
      spread_rows(image.args(picks, 40), queue);
      REQUIRE(queue.finish().ok());
      CHECK(picks.at(0, 0) == 0);
      CHECK(std::set<int32_t>(picks.data(), picks.data() + 40).size() == 40);
    }
  });
}

}  // namespace
}  // namespace ocellus
