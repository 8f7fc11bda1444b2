#include "kernels/rows/gather_rows.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "tests/support/device.h"
#include "tests/support/guard.h"
#include "tests/support/random.h"
#include "tests/support/weights.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

/// Random bytes are valid blocks of every format.
test::Vector<uint8_t> random_table(const WeightView& table, Random& random) {
  const std::vector<uint8_t> bytes = random.bytes(table.bytes());
  return {bytes.begin(), bytes.end()};
}

/// Equal to the bit, except that one NaN is as good as another.
bool same(const float* actual, const float* expected, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (std::memcmp(actual + i, expected + i, sizeof(float)) != 0 &&
        !(std::isnan(actual[i]) && std::isnan(expected[i])))
      return false;
  return true;
}

void check_gather(WeightFormat format, int64_t cols, int64_t id_stride, int64_t gap, Queue& queue) {
  constexpr int64_t kVocabulary = 11;
  Random random(3);
  WeightView table{nullptr, format, kVocabulary, cols};
  const test::Vector<uint8_t> bytes = random_table(table, random);
  table.data = bytes.data();
  std::vector<int32_t> wanted = {0, 10, 10, 3};
  for (int i = 0; i < 100; ++i) wanted.push_back(static_cast<int32_t>(random.integer(0, kVocabulary - 1)));
  const auto count = static_cast<int64_t>(wanted.size());
  test::Vector<int32_t> ids(static_cast<size_t>(count * id_stride), -1);
  for (int64_t t = 0; t < count; ++t) ids[static_cast<size_t>(t * id_stride)] = wanted[static_cast<size_t>(t)];
  Guarded<float> out(count, cols, cols + gap);
  gather_rows({.ids = ids.data(), .id_stride = id_stride, .count = count, .table = table, .output = out.view()}, queue);
  REQUIRE(queue.finish().ok());
  CHECK(out.intact());
  std::vector<float> expected(static_cast<size_t>(cols));
  for (int64_t t = 0; t < count; ++t) {
    decode_row(format, table.row(wanted[static_cast<size_t>(t)]), cols, expected.data());
    REQUIRE(same(&out.at(t, 0), expected.data(), cols));
  }
}

TEST_CASE("gather_rows multiplies by its scale") {
  test::for_each_backend([](Queue& queue) {
    Random random(8);
    for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kQ8_0}) {
      WeightView table{nullptr, format, 5, 96};
      const test::Weights weights = test::random_weights(format, 5, 96, random);
      const test::Vector<uint8_t> bytes(weights.bytes.begin(), weights.bytes.end());
      table.data = bytes.data();
      const test::Vector<int32_t> ids = {4, 0, 2, 2};
      Guarded<float> plain(4, 96, 99), scaled(4, 96, 99);
      gather_rows({.ids = ids.data(), .count = 4, .table = table, .output = plain.view()}, queue);
      gather_rows({.ids = ids.data(), .count = 4, .table = table, .scale = 25.5f, .output = scaled.view()}, queue);
      REQUIRE(queue.finish().ok());
      CHECK(scaled.intact());
      for (int64_t t = 0; t < 4; ++t)
        for (int64_t i = 0; i < 96; ++i) REQUIRE(scaled.at(t, i) == 25.5f * plain.at(t, i));
    }
  });
}

TEST_CASE("gather_rows decodes the rows that were asked for, in every format") {
  test::for_each_backend([](Queue& queue) {
    for (int format = 0; format < kWeightFormatCount; ++format) {
      CAPTURE(format);
      for (const int64_t gap : {0, 9})
        for (const int64_t id_stride : {1, 3})
          check_gather(static_cast<WeightFormat>(format), 512, id_stride, gap, queue);
      check_gather(static_cast<WeightFormat>(format), 2304, 1, 0, queue);
    }
    for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16})
      for (const int64_t cols : {1, 7, 131}) check_gather(format, cols, 1, 0, queue);
    for (const WeightFormat format : {WeightFormat::kQ8_0, WeightFormat::kQ5_1, WeightFormat::kMXFP4})
      check_gather(format, 32, 2, 1, queue);
  });
}

TEST_CASE("gather_rows leaves skipped rows alone") {
  test::for_each_backend([](Queue& queue) {
    for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kQ4_0}) {
      WeightView view{nullptr, format, 2, 64};
      const test::Vector<uint8_t> table(static_cast<size_t>(view.bytes()), uint8_t{1});
      view.data = table.data();
      const test::Vector<int32_t> ids = {kSkippedRow, 1, kSkippedRow, 0};
      Guarded<float> out(4, 64, 70);
      gather_rows({.ids = ids.data(), .count = 4, .table = view, .output = out.view()}, queue);
      REQUIRE(queue.finish().ok());
      CHECK(out.intact());
      CHECK(out.untouched_count() == 2 * 64);
      for (int64_t i = 0; i < 64; ++i) {
        CHECK(out.at(1, i) == out.at(3, i));
        CHECK(std::memcmp(&out.at(0, i), &out.at(2, i), sizeof(float)) == 0);
      }
    }
  });
}

TEST_CASE("gather_rows takes a row of the table for skipped ones, if it is told to") {
  test::for_each_backend([](Queue& queue) {
    for (const WeightFormat format : {WeightFormat::kF16, WeightFormat::kQ8_0}) {
      WeightView view{nullptr, format, 3, 64};
      test::Vector<uint8_t> table(static_cast<size_t>(view.bytes()));
      for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<uint8_t>(1 + i % 50);
      view.data = table.data();
      const test::Vector<int32_t> ids = {kSkippedRow, 2, 0};
      Guarded<float> out(3, 64, 70);
      gather_rows({.ids = ids.data(), .count = 3, .table = view, .skipped_as = 2, .output = out.view()}, queue);
      REQUIRE(queue.finish().ok());
      CHECK(out.intact());
      for (int64_t i = 0; i < 64; ++i) CHECK(out.at(0, i) == out.at(1, i));
      bool differs = false;
      for (int64_t i = 0; i < 64; ++i) differs = differs || out.at(0, i) != out.at(2, i);
      CHECK(differs);
    }
  });
}

TEST_CASE("an id outside the table is refused before anything is written, or on CUDA becomes a row of NaN") {
  test::for_each_backend([](Queue& queue) {
    for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kQ8_0}) {
      WeightView view{nullptr, format, 2, 32};
      const test::Vector<uint8_t> table(static_cast<size_t>(view.bytes()), uint8_t{1});
      view.data = table.data();
      for (const int32_t bad : {-2, 2, 1 << 30}) {
        const test::Vector<int32_t> ids = {0, bad, 1};
        Guarded<float> out(3, 32);
        gather_rows({.ids = ids.data(), .count = 3, .table = view, .output = out.view()}, queue);
        if (!queue.on_cuda()) {
          CHECK(queue.status().code() == Code::kInternal);
          CHECK(out.untouched_count() == 3 * 32);
          queue.clear();
          continue;
        }
        REQUIRE(queue.finish().ok());
        CHECK(out.intact());
        for (int64_t i = 0; i < 32; ++i) {
          CHECK(!std::isnan(out.at(0, i)));
          CHECK(std::isnan(out.at(1, i)));
          CHECK(!std::isnan(out.at(2, i)));
        }
      }
    }
  });
}

}  // namespace
}  // namespace ocellus
