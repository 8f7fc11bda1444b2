// Numbers of rows that are recorded for views of any size.
#include "mm/tower/any_size_graphs.h"

#include <doctest/doctest.h>

#include <vector>

namespace ocellus {
namespace {

std::vector<int64_t> recorded_rows(int64_t most) {
  std::vector<int64_t> all;
  for (int64_t rows = 0; rows < most; all.push_back(rows)) rows = AnySizeGraphs::padded_rows(rows + 1, most);
  return all;
}

}  // namespace

TEST_CASE("numbers of rows that are recorded are multiples of 128, four per octave where that is fewer, and the most") {
  CHECK(recorded_rows(4096) ==
        std::vector<int64_t>{128, 256, 384, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096});
  CHECK(recorded_rows(16384).size() == 24);
  CHECK(recorded_rows(1100) == std::vector<int64_t>{128, 256, 384, 512, 640, 768, 896, 1024, 1100});
  CHECK(recorded_rows(16) == std::vector<int64_t>{16});
}

TEST_CASE("rows are padded to the smallest number that holds them") {
  const std::vector<int64_t> all = recorded_rows(2520);
  size_t next = 0;
  for (int64_t rows = 1; rows <= 2520; ++rows) {
    if (rows > all[next]) ++next;
    CHECK(AnySizeGraphs::padded_rows(rows, 2520) == all[next]);
  }
}

}  // namespace ocellus
