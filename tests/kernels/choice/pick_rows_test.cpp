#include "kernels/choice/pick_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "tests/kernels/choice/choice_case.h"

namespace ocellus {
namespace {

using test::ListedRows;
using test::Random;

/// A choice and what it is made from.
struct Choice {
  Choice(PickBy rule, int64_t size, int64_t width, int64_t picked, Random& random)
      : by(rule),
        count(picked),
        rows(size, width, random),
        products(size, size, size + 1),
        scratch(1, pick_rows_scratch(rule, size, picked)),
        picks(1, picked),
        stands_for(1, picked),
        relevance(static_cast<size_t>(size)),
        places(static_cast<size_t>(size)) {
    for (float& r : relevance) r = random.uniform(0.1f, 1);
    for (ViewPlace& place : places)
      place = {random.uniform(0, 1), random.uniform(0, 1), static_cast<int32_t>(random.integer(0, 1))};
  }
  void fill_products() {
    for (int64_t i = 0; i < std::ssize(relevance); ++i)
      for (int64_t j = 0; j < std::ssize(relevance); ++j) products.at(i, j) = static_cast<float>(rows.product(i, j));
  }
  std::vector<int32_t> pick(Queue& queue) {
    pick_rows({.products = products.view(),
               .by = by,
               .relevance = relevance.data(),
               .places = places.data(),
               .place_weight = 0.7f,
               .scratch = scratch.data(),
               .picks = picks.data(),
               .stands_for = stands_for.data(),
               .count = count},
              queue);
    REQUIRE(queue.finish().ok());
    CHECK(products.intact());
    CHECK(scratch.intact());
    CHECK(picks.intact());
    CHECK(stands_for.intact());
    return {picks.data(), picks.data() + count};
  }

  PickBy by;
  int64_t count;
  ListedRows rows;
  test::Guarded<float> products, scratch;
  test::Guarded<int32_t> picks, stands_for;
  test::Vector<float> relevance;
  test::Vector<ViewPlace> places;
};

using Matrix = std::vector<std::vector<double>>;
Matrix matrix_of(int64_t rows, const std::function<double(int64_t, int64_t)>& entry) {
  Matrix matrix(static_cast<size_t>(rows), std::vector<double>(static_cast<size_t>(rows)));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < rows; ++j) matrix[static_cast<size_t>(i)][static_cast<size_t>(j)] = entry(i, j);
  return matrix;
}

/// By elimination.
double determinant(Matrix m) {
  double result = 1;
  for (size_t i = 0; i < m.size(); ++i) {
    result *= m[i][i];
    for (size_t j = i + 1; j < m.size(); ++j)
      for (size_t k = m.size(); k-- > i;) m[j][k] -= m[j][i] / m[i][i] * m[i][k];
  }
  return result;
}

/// Each pick is worth as much as any row that was left: worth(picks before, row). Equal rows may tie.
void check_picks(int64_t rows, const std::vector<int32_t>& picks,
                 const std::function<double(const std::vector<int32_t>&, int64_t)>& worth) {
  std::vector<int32_t> before;
  for (const int32_t pick : picks) {
    double most = -std::numeric_limits<double>::infinity();
    for (int64_t row = 0; row < rows; ++row)
      if (std::find(before.begin(), before.end(), row) == before.end()) most = std::max(most, worth(before, row));
    const double here = worth(before, pick);
    CHECK(std::find(before.begin(), before.end(), pick) == before.end());
    CHECK(here >= most - 1e-5 * std::abs(most) - 1e-12);
    before.push_back(pick);
  }
}

Matrix costs_of(const Choice& c) {
  const int64_t rows = std::ssize(c.relevance);
  const auto square = [&](int64_t i, int64_t j) {
    return c.rows.product(i, i) + c.rows.product(j, j) - 2 * c.rows.product(i, j);
  };
  double mean = 0;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < rows; ++j) mean += square(i, j) / static_cast<double>(rows * rows);
  return matrix_of(rows, [&](int64_t i, int64_t j) {
    const auto apart = static_cast<double>(
        picking::place_distance(c.places[static_cast<size_t>(i)], c.places[static_cast<size_t>(j)]));
    return (mean > 0 ? square(i, j) / mean : 0) + static_cast<double>(0.7f) * apart;
  });
}

double least_cost(const Matrix& costs, const std::vector<int32_t>& picks, size_t row, double most) {
  for (const int32_t pick : picks) most = std::min(most, costs[row][static_cast<size_t>(pick)]);
  return most;
}

void check_by_definition(const Choice& c, const std::vector<int32_t>& picked) {
  const int64_t rows = std::ssize(c.relevance);
  if (c.by == PickBy::kAngle)
    return check_picks(rows, picked, [&](const std::vector<int32_t>& picks, int64_t row) {
      double least = 3;
      for (int64_t other = 0; other < rows; ++other)
        if (picks.empty() ? other != row : std::find(picks.begin(), picks.end(), other) != picks.end())
          least = std::min(least, 1 - c.rows.cosine(row, other));
      return least;
    });
  if (c.by == PickBy::kDeterminant)
    return check_picks(rows, picked, [&](std::vector<int32_t> picks, int64_t row) {
      picks.push_back(static_cast<int32_t>(row));
      return determinant(matrix_of(std::ssize(picks), [&](int64_t i, int64_t j) {
        const auto a = static_cast<size_t>(picks[static_cast<size_t>(i)]),
                   b = static_cast<size_t>(picks[static_cast<size_t>(j)]);
        return static_cast<double>(c.relevance[a]) * static_cast<double>(c.relevance[b]) *
               c.rows.cosine(static_cast<int64_t>(a), static_cast<int64_t>(b));
      }));
    });
  const Matrix costs = costs_of(c);
  return check_picks(rows, picked, [&](std::vector<int32_t> picks, int64_t row) {
    picks.push_back(static_cast<int32_t>(row));
    double sum = 0;
    for (size_t t = 0; t < costs.size(); ++t) sum -= least_cost(costs, picks, t, 1e9);
    return sum;
  });
}

void check_counts(const Choice& c, const std::vector<int32_t>& picks) {
  const Matrix costs = costs_of(c);
  std::vector<int32_t> counts(picks.size());
  for (size_t t = 0; t < costs.size(); ++t) {
    size_t nearest = 0;
    for (size_t k = 0; k < picks.size(); ++k)
      if (costs[t][static_cast<size_t>(picks[k])] < costs[t][static_cast<size_t>(picks[nearest])]) nearest = k;
    ++counts[nearest];
  }
  CHECK(std::vector<int32_t>(c.stands_for.data(), c.stands_for.data() + c.count) == counts);
}

constexpr PickBy kRules[] = {PickBy::kAngle, PickBy::kDeterminant, PickBy::kCover};

}  // namespace

TEST_CASE("pick_rows chooses by its definition") {
  const auto check = [](Queue& queue) {
    Random random(8);
    for (const auto& [rows, width, count] :
         {std::array<int64_t, 3>{1, 4, 1}, {2, 4, 2}, {9, 12, 5}, {40, 33, 10}, {70, 24, 17}})
      for (const PickBy by : kRules) {
        CAPTURE(rows);
        CAPTURE(static_cast<int>(by));
        Choice choice(by, rows, width, count, random);
        choice.fill_products();
        const std::vector<int32_t> picks = choice.pick(queue);
        check_by_definition(choice, picks);
        if (by == PickBy::kCover) check_counts(choice, picks);
      }
  };
  for (const int threads : {1, 3}) {
    test::TestQueue queue(threads);
    check(*queue);
  }
  test::for_each_backend(check);
}

TEST_CASE("pick_rows chooses every row once where rows are equal, zeros, no numbers or span too little") {
  test::for_each_backend([](Queue& queue) {
    Random random(4);
    for (const float value : {1.0f, 0.0f, std::numeric_limits<float>::quiet_NaN()})
      for (const PickBy by : kRules) {
        CAPTURE(value);
        Choice choice(by, 30, 3, 30, random);
        choice.fill_products();
        for (int64_t i = 0; i < 30; ++i)
          for (int64_t j = 0; j < 30; ++j)
            if (i % 3 == 0 || j % 3 == 0 || value == 1) choice.products.at(i, j) = value;
        const std::vector<int32_t> picks = choice.pick(queue);
        CHECK(std::set<int32_t>(picks.begin(), picks.end()).size() == 30);
        if (by == PickBy::kCover)
          CHECK(std::all_of(choice.stands_for.data(), choice.stands_for.data() + 30, [](int32_t n) { return n == 1; }));
      }
  });
}

}  // namespace ocellus
