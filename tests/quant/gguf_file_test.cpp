// GGUF files on disk: their header is read once, in pieces and up to a bound, and stays what it was.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "quant/gguf.h"
#include "tests/support/small_gguf.h"
#include "tests/support/temporary_file.h"

using namespace ocellus;
using namespace ocellus::test;

namespace {

// A small file with a header of more than a megabyte, whose last entry and tensors come after that.
GgufBuilder long_gguf() {
  GgufBuilder file = small_gguf();
  file.add_string_array("test.words", std::vector<std::string>(40000, std::string(30, 'w')));
  file.add_string("test.last", "here");
  return file;
}

bool sentence_has(const std::string& text) {
  return std::string(last_failure().sentence).find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a header that takes several pieces to read is read like one that takes one") {
  const TemporaryFile file(long_gguf());
  GgufFile opened;
  REQUIRE_MESSAGE(opened.open(file.c_str()).ok(), last_failure().sentence);
  CHECK(GgufBuilder(opened).build() == long_gguf().build());
}

TEST_CASE("a header stays what it was when its file is cut short or removed") {
  const TemporaryFile file(long_gguf());
  GgufFile opened;
  REQUIRE(opened.open(file.c_str()).ok());
  const uint64_t before = walk(opened);
  const std::filesystem::path name = file.path();
  REQUIRE(std::filesystem::remove(name));
  CHECK(walk(opened) == before);  // the data, too: the file is still there for those who have it open

  const TemporaryFile other(long_gguf());
  GgufFile moved;
  REQUIRE(moved.open(other.c_str()).ok());
  opened = std::move(moved);
  std::filesystem::resize_file(other.path(), 0);
  std::string_view text;
  CHECK((opened.require_string("test.last", &text).ok() && text == "here"));
  GgufStrings words(*opened.find("test.words"));
  while (words.left() > 0) CHECK(words.next() == std::string(30, 'w'));
  uint8_t byte = 0;
  CHECK(opened.read_data(0, &byte, 1).code() == Code::kBadFile);
  CHECK_MESSAGE(sentence_has(other.path() + ": the file changed"), last_failure().sentence);
}

TEST_CASE("a header beyond what is read of one is refused") {
  constexpr auto kMax = static_cast<uint64_t>(kMaxGgufHeaderBytes);
  const auto open_with_array = [](uint64_t count) {
    GgufBuilder builder;
    Bytes array;  // its elements are a hole in the file
    append(array, static_cast<uint32_t>(GgufType::kU8));
    append(array, count);
    builder.add_raw("test.zeros", static_cast<uint32_t>(GgufType::kArray), array);
    const TemporaryFile file(builder);
    std::filesystem::resize_file(file.path(), 2 * kMax);
    GgufFile opened;
    return opened.open(file.c_str());
  };
  CHECK(open_with_array(kMax - 1000).ok());
  CHECK(open_with_array(kMax).code() == Code::kBadFile);
  CHECK_MESSAGE(sentence_has("the header takes more than 134217728 bytes"), last_failure().sentence);
  CHECK(open_with_array(2 * kMax).code() == Code::kBadFile);
  CHECK_MESSAGE(sentence_has("claims an array of 268435456 elements"), last_failure().sentence);
}
