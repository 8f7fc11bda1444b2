#include "kernels/gather_rows.h"

#include <doctest/doctest.h>

#include <cstring>

#include "tests/support/guard.h"
#include "tests/support/random.h"
#include "tests/support/test_queue.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

TEST_CASE("gather_rows decodes the rows that were asked for, in every format") {
  constexpr int64_t kVocabulary = 11, kCols = 512;
  test::TestQueue queue(2);
  Random random(3);
  for (int format = 0; format < kWeightFormatCount; ++format) {
    CAPTURE(format);
    WeightView table{nullptr, static_cast<WeightFormat>(format), kVocabulary, kCols};
    const std::vector<uint8_t> bytes = random.bytes(table.bytes());
    table.data = bytes.data();
    std::vector<int32_t> ids = {0, 10, 10, 3};
    for (int i = 0; i < 100; ++i) ids.push_back(static_cast<int32_t>(random.integer(0, kVocabulary - 1)));
    const int64_t count = static_cast<int64_t>(ids.size());
    Guarded<float> out(count, kCols, kCols + 9);
    gather_rows({.ids = ids.data(), .count = count, .table = table, .output = out.view()}, *queue);
    CHECK(queue->ok());
    CHECK(out.intact());
    std::vector<float> expected(kCols);
    for (int64_t t = 0; t < count; ++t) {
      decode_row(table.format, table.row(ids[static_cast<size_t>(t)]), kCols, expected.data());
      REQUIRE(std::memcmp(&out.at(t, 0), expected.data(), kCols * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("an id outside the table is refused before anything is written") {
  const float table[4] = {1, 2, 3, 4};
  const WeightView view{reinterpret_cast<const uint8_t*>(table), WeightFormat::kF32, 2, 2};
  for (const int32_t bad : {-1, 2, 1 << 30}) {
    test::TestQueue queue(1);
    const int32_t ids[2] = {0, bad};
    Guarded<float> out(2, 2);
    gather_rows({.ids = ids, .count = 2, .table = view, .output = out.view()}, *queue);
    CHECK(queue->status().code() == Code::kInternal);
    CHECK(out.untouched_count() == 4);
  }
}

}  // namespace
}  // namespace ocellus
