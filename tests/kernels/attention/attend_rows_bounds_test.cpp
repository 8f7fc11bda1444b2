#include <doctest/doctest.h>

#include <vector>

#include "kernels/attention/attend_rows.h"
#include "tests/kernels/attention/attend_rows_case.h"

namespace ocellus {
namespace {

using test::Activations;
using Shape = test::RowsShape;
using Case = test::RowsCase;
using test::Listed;
using test::same_bits;

/// Short and long chunks, heads of every padded size, with and without a past, in one piece and split.
std::vector<Shape> listed_shapes() {
  std::vector<Shape> shapes;
  const auto add = [&](Shape shape, int64_t check_every) {
    shape.check_every = check_every;
    for (const Listed listed :
         {Listed::kWindow, Listed::kPictures, Listed::kBlocks, Listed::kEarlier, Listed::kAnything}) {
      shape.listed = listed;
      shapes.push_back(shape);
    }
  };
  add({1, 1, 1, 8, true, {}}, 1);
  add({3, 8, 2, 64, true, {{5, 9}, {0, 3}}, 17, 4}, 1);
  for (const int32_t dim : {32, 64, 72, 96, 128, 136, 512}) add({70, 4, 2, dim, true, {{37, 40}, {21, 30}}, 19, 33}, 3);
  add({205, 3, 3, 64, true, {}, 100, 7}, 5);
  add({40, 2, 2, 72, true, {}, 700, 20}, 1);
  add({500, 2, 1, 40, true, {{100, 100}}}, 11);
  add({330, 16, 16, 80, true, {}, 0, 70}, 61);
  return shapes;
}

TEST_CASE("rows see no more and no less than their listed bounds, with the same bits on any number of threads" *
          doctest::test_suite("long")) {
  test::TestQueue one(1), two(2), three(3);
  uint64_t seed = 1000;
  for (const Shape& shape : listed_shapes()) {
    OCELLUS_CAPTURE_SHAPE(shape);
    if (test::skip(++seed, 3)) continue;
    Case instance(shape, seed, *one);
    test::for_each_target([&] {
      const Activations out = instance.attend(*one);
      instance.check_numbers(out);
      CHECK(same_bits(out, instance.attend(*two), shape));
      CHECK(same_bits(out, instance.attend(*three), shape));
    });
  }
}

TEST_CASE("rows see no more and no less than their listed bounds on every backend") {
  test::for_each_backend([&](Queue& queue) {
    uint64_t seed = 2000;
    for (const Shape& shape : listed_shapes()) {
      OCELLUS_CAPTURE_SHAPE(shape);
      if (test::skip(++seed, 4)) continue;
      Case instance(shape, seed, queue);
      const Activations out = instance.attend(queue);
      instance.check_numbers(out);
      CHECK(same_bits(out, instance.attend(queue), shape));
      if (!queue.on_cuda()) continue;
      const test::Lean lean(queue);
      instance.check_numbers(instance.attend(queue));
    }
  });
}

TEST_CASE("listed bounds that say what causal or all rows see give the same bits on the CPU") {
  test::TestQueue queue(2);
  for (const bool causal : {true, false}) {
    const Shape shape{150, 4, 2, 64, causal, {{90, 100}}, 60, 11};
    Case instance(shape, 5, *queue);
    const Activations out = instance.attend(*queue);
    instance.list_bounds();
    CHECK(same_bits(out, instance.attend(*queue), shape));
  }
}

}  // namespace
}  // namespace ocellus
