#include "kernels/cache/refine_scores.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/random.h"
#include "tests/support/small_run.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

struct Shape {
  int64_t rows;
  int32_t heads, dim;
};

/// Lengths of all value rows, head by head.
std::vector<double> value_lengths(const RefineScoresArgs& args) {
  std::vector<double> lengths;
  for (int64_t g = 0; g < args.scores.rows; ++g)
    for (int64_t row = 0; row < args.row_count; ++row) {
      double squares = 0;
      for (int32_t e = 0; e < args.rows.head_dim; ++e) {
        const double value = half_to_float(args.rows.values[args.rows.at(row, g) + e]);
        squares += value * value;
      }
      lengths.push_back(std::sqrt(squares));
    }
  return lengths;
}

/// The header's formula in double precision.
double expected(const RefineScoresArgs& args, const Guarded<float>& scores, const std::vector<double>& lengths,
                int64_t head, int64_t row) {
  if (row < args.first_rows) return std::numeric_limits<double>::infinity();
  double sum = 0, own = 0;
  for (int64_t g = 0; g < args.scores.rows; ++g) {
    double score = args.clear ? 0.0 : static_cast<double>(scores.at(g, row));
    if (args.random) score = static_cast<double>(random_score(args.seed, g, row));
    if (args.by_readers)
      score /= args.readers == nullptr ? static_cast<double>(args.row_count - row) : std::max(args.readers[row], 1);
    if (args.by_values) score *= lengths[static_cast<size_t>(g * args.row_count + row)];
    if (args.text_first != nullptr && args.text_first[row] == 0) score += static_cast<double>(args.row_count);
    sum += score;
    if (g == head) own = score;
  }
  return args.mean ? sum / static_cast<double>(args.scores.rows) : own;
}

void check_shape(const Shape& shape, RefineScoresArgs args, bool some_read, bool ranks_text, Queue& queue) {
  Random random(static_cast<uint64_t>(shape.rows + shape.dim));
  const int64_t capacity = shape.rows + 3;
  test::Vector<Half> values(static_cast<size_t>(shape.heads * capacity * shape.dim));
  for (Half& value : values) value = float_to_half(random.normal());
  Guarded<float> scores(shape.heads, shape.rows, shape.rows + 5), given(shape.heads, shape.rows, shape.rows + 5);
  for (int64_t g = 0; g < shape.heads; ++g)
    for (int64_t row = 0; row < shape.rows; ++row)
      scores.at(g, row) = given.at(g, row) = row == 2 && g == 0 ? NAN : random.uniform(0, 1);
  args.scores = scores.view();
  args.rows = KvLayerRows::head_major(nullptr, values.data(), shape.heads, shape.dim, capacity);
  args.row_count = shape.rows;
  test::Vector<uint8_t> is_visual(static_cast<size_t>(shape.rows));
  for (uint8_t& visual : is_visual) visual = random.integer(0, 1) == 0 ? 1 : 0;
  if (ranks_text) args.text_first = is_visual.data();
  test::Vector<int32_t> readers(static_cast<size_t>(shape.rows) + 1);
  for (int64_t row = shape.rows; row-- > 0;)
    readers[static_cast<size_t>(row)] =
        readers[static_cast<size_t>(row) + 1] + static_cast<int32_t>(random.integer(0, 1));
  if (some_read) args.readers = readers.data();
  refine_scores(args, queue);
  REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
  CHECK(scores.intact());
  const std::vector<double> lengths = value_lengths(args);
  for (int64_t g = 0; g < shape.heads; ++g) {
    for (int64_t row = 0; row < shape.rows; ++row) {
      const double wanted = expected(args, given, lengths, g, row), got = static_cast<double>(scores.at(g, row));
      CAPTURE(row);
      if (std::isnan(wanted))
        REQUIRE(std::isnan(got));
      else if (std::isinf(wanted))
        REQUIRE(got == wanted);
      else
        REQUIRE(got == doctest::Approx(wanted).epsilon(1e-5));
    }
  }
}

TEST_CASE("refine_scores clears, weighs, averages and protects as a rule asks, in any combination") {
  test::for_each_backend([](Queue& queue) {
    for (const Shape& shape :
         {Shape{1, 1, 8}, Shape{37, 3, 64}, Shape{129, 2, 72}, Shape{600, 4, 128}, Shape{9, 33, 256}})
      for (int which = 0; which < 128; ++which) {
        if (test::skip(static_cast<uint64_t>(which), 7)) continue;
        check_shape(shape,
                    {.clear = (which & 1) != 0,
                     .random = (which & 32) != 0,
                     .by_readers = (which & 64) != 0,
                     .by_values = (which & 2) != 0,
                     .mean = (which & 4) != 0,
                     .first_rows = (which & 8) != 0 ? 4 : 0,
                     .seed = 7},
                    which % 3 == 0, (which & 16) != 0, queue);
      }
  });
}

TEST_CASE("random scores are spread over [0, 1), and differ by seed, head and row") {
  std::vector<int> counts(10);
  for (int64_t head = 0; head < 4; ++head)
    for (int64_t row = 0; row < 1000; ++row) ++counts.at(static_cast<size_t>(random_score(3, head, row) * 10));
  for (const int count : counts) {
    CHECK(count > 330);  // of 400; the deviation is 19
    CHECK(count < 470);
  }
  CHECK(random_score(3, 0, 1) != random_score(3, 1, 0));
  CHECK(random_score(3, 0, 1) != random_score(4, 0, 1));
}

}  // namespace
}  // namespace ocellus
