// Headers that are written in memory and read without the data they describe.
#include "quant/gguf_header.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <utility>

namespace ocellus {
namespace {

Buffer<uint8_t> sample_header() {
  GgufHeaderWriter writer;
  const float values[] = {0.5f, -2.0f};
  writer.add_string("general.architecture", "llama");
  writer.add_u32("llama.block_count", 7);
  writer.add_f32("llama.rope.freq_base", 1e6f);
  writer.add_bool("tied", true);
  writer.add_floats("values", values, 2);
  writer.begin_array("words", GgufType::kString, 2);
  writer.append_string("one");
  writer.append_string("");
  writer.begin_array("kinds", GgufType::kI32, 3);
  for (const int32_t kind : {1, -3, 6}) writer.append_i32(kind);
  writer.add_tensor("first", WeightFormat::kQ8_0, {32, 3});
  writer.add_tensor("second", WeightFormat::kF16, {4, 5, 3, 2});
  writer.add_tensor("third", WeightFormat::kF32, {9});
  Buffer<uint8_t> header;
  REQUIRE(writer.finish(&header).ok());
  return header;
}

TEST_CASE("A written header is read as it was meant") {
  GgufFile file;
  REQUIRE_MESSAGE(file.open_header(sample_header()).ok(), last_failure().sentence);
  CHECK(!file.has_data());
  int64_t count = 0;
  float base = 0;
  bool tied = false;
  float values[2] = {};
  std::string_view text;
  CHECK((file.require_int("llama.block_count", 0, 100, &count).ok() && count == 7));
  CHECK((file.require_float("llama.rope.freq_base", &base).ok() && base == 1e6f));
  CHECK((file.read_bool("tied", &tied).ok() && tied));
  CHECK((file.require_floats("values", 2, values).ok() && values[0] == 0.5f && values[1] == -2.0f));
  CHECK((file.require_string("general.architecture", &text).ok() && text == "llama"));
  REQUIRE(file.find("words") != nullptr);
  GgufStrings words(*file.find("words"));
  CHECK(words.left() == 2);
  CHECK(words.next() == "one");
  CHECK(words.next().empty());
  REQUIRE(file.find("kinds") != nullptr);
  int32_t kinds[3];
  std::memcpy(kinds, file.find("kinds")->payload, sizeof kinds);
  CHECK((kinds[0] == 1 && kinds[1] == -3 && kinds[2] == 6));

  REQUIRE(file.tensors().size() == 3);
  const GgufTensor& second = *file.find_tensor("second");
  CHECK(file.find_tensor("first")->bytes == 3 * 34);
  CHECK(second.offset == 128);  // 102 bytes before it, and padding
  CHECK(second.dimension_count == 4);
  CHECK((second.cols() == 4 && second.rows() == 30 && second.bytes == 240));
  CHECK(file.find_tensor("third")->offset == 128 + 256);
  CHECK(file.data_bytes() == 128 + 256 + 36);
}

TEST_CASE("A header keeps its bytes when the file object moves, and forgets them when it closes") {
  GgufFile file;
  REQUIRE(file.open_header(sample_header()).ok());
  GgufFile moved = std::move(file);
  std::string_view text;
  CHECK((moved.require_string("general.architecture", &text).ok() && text == "llama"));
  moved.close();
  CHECK(moved.has_data());
  CHECK(moved.tensors().empty());
}

TEST_CASE("A header alone is no file") {
  const Buffer<uint8_t> header = sample_header();
  GgufFile file;
  CHECK(file.parse(header.data(), header.size()).code() == Code::kBadFile);
  CHECK(std::string(last_failure().sentence).find("cut short") != std::string::npos);
}

TEST_CASE("A damaged header is refused like a damaged file") {
  const Buffer<uint8_t> whole = sample_header();
  for (int64_t size = 0; size < whole.size() - kDefaultGgufAlignment; ++size) {
    Buffer<uint8_t> cut;
    for (int64_t i = 0; i < size; ++i) REQUIRE(cut.push(whole[i]).ok());
    GgufFile file;
    CHECK(!file.open_header(std::move(cut)).ok());
    CHECK(file.has_data());
  }
  GgufHeaderWriter writer;
  writer.add_tensor("twice", WeightFormat::kF32, {4});
  writer.add_tensor("twice", WeightFormat::kF32, {4});
  Buffer<uint8_t> header;
  REQUIRE(writer.finish(&header).ok());
  GgufFile file;
  CHECK(file.open_header(std::move(header)).code() == Code::kBadFile);
}

}  // namespace
}  // namespace ocellus
