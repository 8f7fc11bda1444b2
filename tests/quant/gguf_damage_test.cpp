// GGUF files damaged at random places: an error or success, never a crash, a hang or a read outside the file.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <utility>

#include "quant/gguf.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/goldens.h"
#include "tests/support/small_gguf.h"
#include "tests/support/small_run.h"

using namespace ocellus;
using namespace ocellus::test;

TEST_CASE("a small file cut at every length is refused until its last tensor is whole") {
  const Bytes bytes = small_gguf().build();
  for (size_t size = 0; size <= bytes.size(); ++size) {
    GgufFile file;
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(parse_exactly(cut, &file).ok() == (size + 16 >= bytes.size()));
  }
}

TEST_CASE("a small file with any one byte changed to any value never does harm") {
  const Bytes bytes = small_gguf().build();
  int accepted = 0, refused = 0;
  for (size_t at = 0; at < small_gguf().header_bytes(); ++at) {
    for (unsigned value = 0; value < 256; ++value) {
      if (skip(at + value)) continue;
      Bytes changed = bytes;
      changed[at] = static_cast<uint8_t>(value);
      GgufFile file;
      ++(parse_exactly(changed, &file).ok() ? accepted : refused);
    }
  }
  CHECK(accepted > (is_small_run() ? 70 : 1000));
  CHECK(refused > (is_small_run() ? 700 : 10000));
}

TEST_CASE("the bundled pair cut anywhere or with changed header bytes never does harm") {
  for (const char* name : {"shapeboard-34m-q8_0.gguf", "mmproj-shapeboard-34m-q8_0.gguf"}) {
    const std::string path = std::string(OCELLUS_SOURCE_DIR "/apps/models/") + name;
    GgufFile original;
    REQUIRE_MESSAGE(original.open(path.c_str()).ok(), last_failure().sentence);
    CHECK(original.tensors().size() > 50);
    walk(original);

    std::mt19937_64 random(34);
    const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
    const Bytes whole = read_bytes(path);
    const uint8_t* data = whole.data();
    for (uint64_t i = 0; i < 200; ++i) {
      if (skip(i)) continue;
      const int64_t size = below(i < 150 ? original.data_offset() : original.data_offset() + original.data_bytes());
      ExactBytes cut(data, static_cast<size_t>(size));
      GgufFile file;
      CHECK(file.parse(cut.data(), cut.size()).code() == Code::kBadFile);
    }

    ExactBytes copy(data, whole.size());
    int accepted = 0, refused = 0;
    for (uint64_t i = 0; i < 2000; ++i) {
      if (skip(i)) continue;
      uint8_t& byte = copy.data()[below(original.data_offset())];
      const uint8_t before = std::exchange(byte, static_cast<uint8_t>(random()));
      GgufFile file;
      const bool ok = file.parse(copy.data(), copy.size()).ok();
      if (ok) walk(file);
      ++(ok ? accepted : refused);
      byte = before;
    }
    CHECK(accepted > 0);
    CHECK(refused > 0);
  }
}
