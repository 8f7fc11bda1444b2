#include "kernels/choice/row_products.h"

#include <doctest/doctest.h>

#include <array>

#include "tests/kernels/choice/choice_case.h"

namespace ocellus {

TEST_CASE("row_products multiplies every listed row with every other one, on every target and backend") {
  const auto check = [](Queue& queue) {
    test::Random random(12);
    for (const auto& [count, width] : {std::array<int64_t, 2>{1, 3}, {5, 40}, {33, 17}, {70, 129}}) {
      test::ListedRows rows(count, width, random);
      test::Guarded<float> products(count, count, count + 2);
      row_products({.rows = rows.values.view(), .list = rows.list.data(), .products = products.view()}, queue);
      REQUIRE(queue.finish().ok());
      CHECK(products.intact());
      for (int64_t i = 0; i < count; ++i)
        for (int64_t j = 0; j < count; ++j) {
          REQUIRE(static_cast<double>(products.at(i, j)) ==
                  doctest::Approx(rows.product(i, j)).epsilon(1e-5).scale(static_cast<double>(width)));
          REQUIRE(products.at(i, j) == products.at(j, i));
        }
    }
  };
  for (const int threads : {1, 3}) {
    test::TestQueue queue(threads);
    test::for_each_target([&] { check(*queue); });
  }
  test::for_each_backend(check);
}

}  // namespace ocellus
