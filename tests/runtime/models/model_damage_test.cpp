// The bundled pair damaged at random places: opening, planning and talking end in an error or an answer, never in a
// crash or a hang.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "runtime/engine/memory_plan.h"
#include "runtime/models/model.h"
#include "tests/support/failure.h"
#include "tests/support/random.h"
#include "tests/support/short_talk.h"
#include "tests/support/small_pair.h"

namespace ocellus {
namespace {

using test::Random;
using test::talk;
using test::TemporaryFile;

/// A pair of which one half is a copy that can be damaged.
struct DamagedPair {
  explicit DamagedPair(bool text) : copy(text ? test::bundled_pair().model : test::bundled_pair().mmproj) {
    const test::ModelPair good = test::bundled_pair();
    pair = {text ? copy.path() : good.model, text ? good.mmproj : copy.path()};
    GgufFile file;
    REQUIRE_MESSAGE(file.open(copy.c_str()).ok(), last_failure().sentence);
    header_bytes = file.data_offset();
    bytes = test::read_bytes(copy.path());
    used_bytes = header_bytes + file.data_bytes();
  }
  Status open(Model* model) const { return model->open(pair.model.c_str(), pair.mmproj.c_str()); }
  /// Puts bytes into the copy.
  void overwrite(int64_t offset, const uint8_t* values, int64_t count) const {
    std::fstream file(copy.path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(offset);
    file.write(reinterpret_cast<const char*>(values), count);
    REQUIRE(file.flush());
  }
  void restore(int64_t offset, int64_t count) const { overwrite(offset, bytes.data() + offset, count); }

  TemporaryFile copy;
  test::ModelPair pair;
  std::vector<uint8_t> bytes;  // as they should be
  int64_t header_bytes = 0;
  int64_t used_bytes = 0;  // up to the end of the last tensor
};

/// The sentence of a failure begins with the file and says something.
void check_sentence(const DamagedPair& damaged) {
  const std::string sentence = last_failure().sentence;
  CHECK_MESSAGE(sentence.rfind(damaged.copy.path() + ": ", 0) == 0, sentence);
  CHECK_MESSAGE(sentence.size() > damaged.copy.path().size() + 10, sentence);
}

/// Results over many damaged files.
struct Tally {
  int refused = 0, opened = 0, planned = 0, talked = 0, answered = 0;
};

/// Opens a damaged pair, plans it, and talks to it if it is one of those chosen for that.
void try_pair(const DamagedPair& damaged, int most_talks, Tally* tally) {
  Model model;
  if (!damaged.open(&model).ok()) {
    check_sentence(damaged);
    ++tally->refused;
    return;
  }
  ++tally->opened;
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  ocellus_plan plan;
  if (plan_memory(model, limits, &plan).ok()) ++tally->planned;
  if (tally->talked >= most_talks) return;
  ++tally->talked;
  if (talk(model).ok()) ++tally->answered;
}

void report(const std::string& what, const Tally& t) {
  MESSAGE(what << ": refused " << t.refused << ", opened " << t.opened << ", planned " << t.planned << ", talked to "
               << t.talked << ", answered " << t.answered);
}

}  // namespace

TEST_CASE("the bundled pair cut at any length is refused with the name of what is cut") {
  for (const bool text : {true, false}) {
    const DamagedPair damaged(text);
    Random random(35);
    std::vector<int64_t> lengths;
    for (int i = 0; i < 160; ++i) lengths.push_back(random.integer(damaged.header_bytes, damaged.used_bytes - 1));
    for (int i = 0; i < 40; ++i) lengths.push_back(random.integer(0, damaged.header_bytes - 1));
    // From long to short, so that one copy serves all.
    std::sort(lengths.rbegin(), lengths.rend());
    for (const int64_t length : lengths) {
      CAPTURE(length);
      std::filesystem::resize_file(damaged.copy.path(), static_cast<uint64_t>(length));
      Model model;
      test::clear_failure();
      CHECK(damaged.open(&model).code() == Code::kBadFile);
      check_sentence(damaged);
      const std::string sentence = last_failure().sentence;
      if (length > damaged.header_bytes) {
        CHECK_MESSAGE(sentence.find("tensor '") != std::string::npos, sentence);
        CHECK_MESSAGE(sentence.find("cut short or damaged") != std::string::npos, sentence);
      }
    }
  }
}

TEST_CASE("the bundled pair with changed header bytes does no harm") {
  for (const bool text : {true, false}) {
    const DamagedPair damaged(text);
    Random random(36);
    Tally tally;
    for (int i = 0; i < 1000; ++i) {
      const int64_t at = random.integer(0, damaged.header_bytes - 1);
      const auto value = static_cast<uint8_t>(random.bits());
      CAPTURE(at);
      CAPTURE(value);
      damaged.overwrite(at, &value, 1);
      // Vocabularies open with almost any byte changed; talks are spread over all of them.
      try_pair(damaged, tally.opened % 20 == 0 ? 25 : 0, &tally);
      damaged.restore(at, 1);
    }
    report(text ? "text header" : "mmproj header", tally);
    CHECK(tally.refused > 50);
    CHECK(tally.opened > 50);
    CHECK(tally.talked > 2);
  }
}

TEST_CASE("the facts and tensor descriptions of the bundled pair with changed bytes do no harm") {
  // Most of a text header is vocabulary, which hides the few bytes that decide about shapes. Those alone, then.
  for (const bool text : {true, false}) {
    const DamagedPair damaged(text);
    GgufFile file;
    REQUIRE(file.open(damaged.copy.c_str()).ok());
    std::vector<int64_t> places;
    const auto place_of = [&](const void* address) { return static_cast<const uint8_t*>(address) - file.header(); };
    for (const GgufEntry& entry : file.entries())
      if (entry.payload_bytes <= 32)  // with its type before it
        for (int64_t i = -4; i < static_cast<int64_t>(entry.payload_bytes); ++i)
          places.push_back(place_of(entry.payload) + i);
    for (const GgufTensor& tensor : file.tensors()) {  // count, extents, type, offset
      const int64_t end = place_of(tensor.name.data() + tensor.name.size());
      for (int64_t i = 0; i < 4 + 8 * tensor.dimension_count + 12; ++i) places.push_back(end + i);
    }
    file.close();
    Random random(37);
    Tally tally;
    const auto last = static_cast<int64_t>(places.size()) - 1;
    for (int i = 0; i < 1000; ++i) {
      const int64_t at = places[static_cast<size_t>(random.integer(0, last))];
      const auto value = static_cast<uint8_t>(random.integer(0, 3) == 0 ? 1 << random.integer(0, 7) : random.bits());
      CAPTURE(at);
      CAPTURE(value);
      damaged.overwrite(at, &value, 1);
      try_pair(damaged, 25, &tally);
      damaged.restore(at, 1);
    }
    report(text ? "text facts" : "mmproj facts", tally);
    CHECK(tally.refused > 500);
    CHECK(tally.talked > 2);
  }
}

TEST_CASE("the bundled pair with changed weights answers or says that it cannot") {
  for (const bool text : {true, false}) {
    const DamagedPair damaged(text);
    Random random(38);
    Tally tally;
    for (int i = 0; i < 6; ++i) {
      const int64_t first = random.integer(damaged.header_bytes, damaged.used_bytes - 1);
      const int64_t count = std::min<int64_t>(int64_t{1} << (4 * i), damaged.used_bytes - first);
      const std::vector<uint8_t> noise = random.bytes(count);
      damaged.overwrite(first, noise.data(), count);
      try_pair(damaged, 6, &tally);
      damaged.restore(first, count);
    }
    report(text ? "text weights" : "mmproj weights", tally);
    CHECK(tally.talked == 6);
  }
}

TEST_CASE("norms that are not numbers are noticed in any layer, of the text model and of the tower" *
          doctest::test_suite("long")) {
  for (const bool text : {true, false}) {
    const DamagedPair damaged(text);
    GgufFile file;
    REQUIRE(file.open(damaged.copy.c_str()).ok());
    int tried = 0;
    for (const GgufTensor& tensor : file.tensors()) {
      const bool is_norm =
          tensor.name.find("norm") != std::string_view::npos || tensor.name.find("ln") != std::string_view::npos;
      if (tensor.format != WeightFormat::kF32 || !is_norm) continue;
      CAPTURE(std::string(tensor.name));
      const std::vector<uint8_t> ones(4, 0xFF);
      const int64_t at = damaged.header_bytes + tensor.offset;
      damaged.overwrite(at, ones.data(), 4);
      Model model;
      REQUIRE(damaged.open(&model).ok());
      CHECK(talk(model).code() == Code::kBadFile);
      damaged.restore(at, 4);
      ++tried;
    }
    CHECK(tried > 4);
  }
}

}  // namespace ocellus
