#include "kernels/cache/value_change.h"

#include <doctest/doctest.h>

#include <tuple>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/kv_cache.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Random;
using test::TestRun;

/// Row t has something stored at slot t of a run, but every `absent`-th has not.
void check_value_change(int64_t count, int32_t heads, int32_t dim, int64_t absent, Queue& queue) {
  const int64_t capacity = count + 3;
  Random random(static_cast<uint64_t>(dim + count));
  test::Vector<Half> keys(static_cast<size_t>(heads * capacity * dim)), values(keys.size());
  for (Half& half : keys) half = test::kHalfNan;  // not read
  for (Half& half : values) half = float_to_half(random.normal());
  const KvLayerRows rows = KvLayerRows::head_major(keys.data(), values.data(), heads, dim, capacity);
  const TestRun run(random, heads, dim, static_cast<int32_t>(count), static_cast<int32_t>(count) + 2);
  test::Vector<KvSlot> slots(static_cast<size_t>(count));
  const auto is_absent = [&](int64_t t) { return absent > 0 && t % absent == 0; };
  for (int64_t t = 0; t < count; ++t)
    if (!is_absent(t)) slots[static_cast<size_t>(t)] = run_slot(run.run(), t, dim);
  test::Guarded<float> changes(1, count);
  value_change(
      {.rows = rows, .count = count, .slots = slots.data(), .layer = TestRun::kLayer, .changes = changes.data()},
      queue);
  REQUIRE(queue.finish().ok());
  CHECK(changes.intact());
  for (int64_t t = 0; t < count; ++t) {
    double expected = 0;
    for (int32_t head = 0; head < heads && !is_absent(t); ++head)
      for (int32_t e = 0; e < dim; ++e) {
        const double now = static_cast<double>(half_to_float(values[static_cast<size_t>(rows.at(t, head) + e)]));
        const Half stored = run_values(run.run(), TestRun::kLayer, head)[t * dim + e];
        const double apart = now - static_cast<double>(half_to_float(stored));
        expected += apart * apart;
      }
    REQUIRE(static_cast<double>(changes.at(0, t)) == doctest::Approx(expected).epsilon(1e-5));
    if (is_absent(t)) REQUIRE(changes.at(0, t) == 0);
  }
}

}  // namespace

TEST_CASE("value_change is the squared distance of values from what is stored, on every target and backend") {
  const auto check = [](Queue& queue) {
    for (const auto& [count, heads, dim, absent] : {std::tuple<int64_t, int32_t, int32_t, int64_t>{1, 1, 8, 0},
                                                    {7, 3, 72, 2},
                                                    {33, 2, 64, 5},
                                                    {130, 4, 128, 0},
                                                    {9, 1, 256, 1}})
      check_value_change(count, heads, dim, absent, queue);
  };
  for (const int threads : {1, 3}) {
    test::TestQueue queue(threads);
    test::for_each_target([&] { check(*queue); });
  }
  test::for_each_backend(check);
}

}  // namespace ocellus
