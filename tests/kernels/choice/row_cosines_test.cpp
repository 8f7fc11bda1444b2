#include "kernels/choice/row_cosines.h"

#include <doctest/doctest.h>

#include <array>

#include "tests/kernels/choice/choice_case.h"

namespace ocellus {
namespace {

/// The cosine of a listed row and the mean direction of the listed rows from `first` on.
double cosine_to_mean(const test::ListedRows& rows, int64_t row, int64_t first) {
  const int64_t count = std::ssize(rows.list), width = rows.width;
  std::vector<double> mean(static_cast<size_t>(width));
  for (int64_t t = first; t < count; ++t)
    for (int64_t i = 0; i < width; ++i)
      mean[static_cast<size_t>(i)] += rows.value(t, i) / std::sqrt(rows.product(t, t));
  double product = 0, square = 0;
  for (int64_t i = 0; i < width; ++i) {
    product += rows.value(row, i) * mean[static_cast<size_t>(i)];
    square += mean[static_cast<size_t>(i)] * mean[static_cast<size_t>(i)];
  }
  return product / std::sqrt(rows.product(row, row) * square);
}

}  // namespace

TEST_CASE("row_cosines compares rows in pairs, or with the mean direction of others, on every target and backend") {
  const auto check = [](Queue& queue) {
    test::Random random(3);
    for (const auto& [count, width] : {std::array<int64_t, 2>{2, 5}, {9, 64}, {40, 33}}) {
      test::ListedRows rows(count, width, random);
      const int64_t half = count / 2;
      test::Guarded<float> cosines(1, half), mean(1, width);
      RowCosinesArgs args{.rows = rows.values.view(), .list = rows.list.data(), .count = half};
      args.cosines = cosines.data();
      args.others = rows.list.data() + half;
      row_cosines(args, queue);
      REQUIRE(queue.finish().ok());
      for (int64_t i = 0; i < half; ++i)
        REQUIRE(static_cast<double>(cosines.at(0, i)) == doctest::Approx(rows.cosine(i, half + i)).epsilon(1e-5));
      args.others = nullptr;
      args.texts = rows.list.data() + half;
      args.text_count = count - half;
      args.mean = mean.data();
      row_cosines(args, queue);
      REQUIRE(queue.finish().ok());
      for (int64_t i = 0; i < half; ++i)
        REQUIRE(static_cast<double>(cosines.at(0, i)) == doctest::Approx(cosine_to_mean(rows, i, half)).epsilon(1e-4));
      for (int64_t i = 0; i < width; ++i) rows.values.at(rows.list[0], i) = 0;
      row_cosines(args, queue);
      REQUIRE(queue.finish().ok());
      CHECK(cosines.at(0, 0) == 0);
      CHECK(cosines.intact());
      CHECK(mean.intact());
    }
  };
  for (const int threads : {1, 3}) {
    test::TestQueue queue(threads);
    test::for_each_target([&] { check(*queue); });
  }
  test::for_each_backend(check);
}

}  // namespace ocellus
