// Good GGUF files, and typed access to them. What must be refused is in gguf_hostile_test.cpp.
#include "quant/gguf.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "tests/support/gguf_builder.h"
#include "tests/support/temporary_file.h"

using namespace ocellus;
using namespace ocellus::test;

namespace {

// One entry of every kind and three tensors, the second of which needs padding.
GgufBuilder make_good() {
  GgufBuilder file;
  file.add_string("general.architecture", "llama");
  file.add_u8("n.u8", 200);
  file.add_i8("n.i8", -100);
  file.add_u16("n.u16", 60000);
  file.add_i16("n.i16", -30000);
  file.add_u32("n.u32", 4000000000u);
  file.add_i32("n.i32", -2000000000);
  file.add_u64("n.u64", 1ull << 40);
  file.add_i64("n.i64", -(1ll << 40));
  file.add_u64("n.huge", 1ull << 63);
  file.add_f32("f.32", 1.5f);
  file.add_f64("f.64", -2.25);
  file.add_bool("b.yes", true);
  file.add_bool("b.no", false);
  file.add_string("s.empty", "");
  file.add_string_array("a.strings", {"one", "", "\xc3\xa9"});
  file.add_string_array("a.none", {});
  file.add_f32_array("a.floats", {0.25f, 0.5f, 0.75f});
  file.add_i32_array("a.ints", {1, -2});
  file.add_u32_array("a.uints", {3, 4});
  file.add_i8_array("a.bytes", {1, 2, 3, 4});
  file.add_tensor("token_embd.weight", WeightFormat::kQ8_0, {64, 3});
  file.add_tensor("output_norm.weight", {5}, {1, 2, 3, 4, 5});
  file.add_tensor("patch.weight", WeightFormat::kF16, {2, 3, 4, 5});
  return file;
}

#define CHECK_FAILS(expression, wanted_code, culprit)                                                                \
  do {                                                                                                               \
    CHECK((expression).code() == (wanted_code));                                                                     \
    CHECK_MESSAGE(std::string(last_failure().sentence).find(culprit) != std::string::npos, last_failure().sentence); \
  } while (false)

}  // namespace

TEST_CASE("a good file of version 2 or 3 is read back as it was written") {
  GgufBuilder builder = make_good();
  for (const uint32_t version : {2u, 3u}) {
    builder.version = version;
    ExactBytes bytes(builder.build());
    GgufFile file;
    REQUIRE_MESSAGE(file.parse(bytes.data(), bytes.size()).ok(), last_failure().sentence);
    CHECK(file.version() == version);
    CHECK(file.entries().size() == static_cast<int64_t>(builder.entries.size()));
    REQUIRE(file.tensors().size() == 3);
    CHECK(file.data_offset() == static_cast<int64_t>(builder.header_bytes()));
    CHECK(std::string(file.path()).empty());

    const GgufTensor* norm = file.find_tensor("output_norm.weight");
    REQUIRE(norm == &file.tensors()[1]);
    CHECK(norm->format == WeightFormat::kF32);
    CHECK(norm->dimension_count == 1);
    CHECK(norm->cols() == 5);
    CHECK(norm->rows() == 1);
    CHECK(norm->offset == 224);  // 3 rows of 2 blocks of 34 bytes make 204
    CHECK(norm->bytes == 20);
    float third = 0;
    REQUIRE(file.read_data(norm->offset + 8, &third, sizeof third).ok());
    CHECK(third == 3);

    const GgufTensor* patch = file.find_tensor("patch.weight");
    REQUIRE(patch != nullptr);
    CHECK(patch->rows() == 60);
    CHECK(patch->bytes == 240);
    CHECK(file.data_bytes() == 256 + 240);
    CHECK(file.find_tensor("patch.weigh") == nullptr);
    walk(file);
  }
}

TEST_CASE("integers of any width are read where the value fits") {
  ExactBytes bytes(make_good().build());
  GgufFile file;
  REQUIRE(file.parse(bytes.data(), bytes.size()).ok());
  const std::pair<const char*, int64_t> expected[] = {
      {"n.u8", 200},         {"n.i8", -100},         {"n.u16", 60000},     {"n.i16", -30000},
      {"n.u32", 4000000000}, {"n.i32", -2000000000}, {"n.u64", 1ll << 40}, {"n.i64", -(1ll << 40)}};
  for (const auto& [key, value] : expected) {
    int64_t out = 7;
    CHECK(file.require_int(key, value, value, &out).ok());
    CHECK(out == value);
    out = 7;
    CHECK_FAILS(file.require_int(key, value + 1, INT64_MAX, &out), Code::kBadFile, key);
    CHECK_FAILS(file.read_int(key, INT64_MIN, value - 1, &out), Code::kBadFile, std::to_string(value));
    CHECK(out == 7);
  }
  int64_t out = 7;
  CHECK_FAILS(file.read_int("n.huge", INT64_MIN, INT64_MAX, &out), Code::kBadFile, "9223372036854775808");
  CHECK_FAILS(file.require_int("absent", 0, 1, &out), Code::kBadFile, "'absent' is missing");
  CHECK(file.read_int("absent", 0, 1, &out).ok());
  for (const char* key : {"f.32", "b.yes", "s.empty", "a.ints"}) {
    CHECK_FAILS(file.read_int(key, INT64_MIN, INT64_MAX, &out), Code::kBadFile, key);
  }
  CHECK(out == 7);
}

TEST_CASE("floats, truth values and strings are read only from their own types") {
  ExactBytes bytes(make_good().build());
  GgufFile file;
  REQUIRE(file.parse(bytes.data(), bytes.size()).ok());
  float number = 0;
  CHECK(file.require_float("f.32", &number).ok());
  CHECK(number == 1.5f);
  CHECK(file.read_float("f.64", &number).ok());
  CHECK(number == -2.25f);
  CHECK(file.read_float("absent", &number).ok());
  CHECK_FAILS(file.require_float("absent", &number), Code::kBadFile, "'absent' is missing");
  CHECK_FAILS(file.read_float("n.u32", &number), Code::kBadFile, "'n.u32' has type u32");
  CHECK(number == -2.25f);

  bool truth = false;
  CHECK(file.read_bool("b.yes", &truth).ok());
  CHECK(truth);
  CHECK(file.read_bool("absent", &truth).ok());
  CHECK(truth);
  CHECK(file.read_bool("b.no", &truth).ok());
  CHECK(!truth);
  CHECK_FAILS(file.read_bool("n.u8", &truth), Code::kBadFile, "'n.u8' has type u8");

  std::string_view text = "before";
  CHECK(file.read_string("absent", &text).ok());
  CHECK(text == "before");
  CHECK(file.require_string("general.architecture", &text).ok());
  CHECK(text == "llama");
  CHECK(file.read_string("s.empty", &text).ok());
  CHECK(text.empty());
  CHECK_FAILS(file.require_string("absent", &text), Code::kBadFile, "'absent' is missing");
  CHECK_FAILS(file.read_string("a.strings", &text), Code::kBadFile, "'a.strings' has type array of string");
}

TEST_CASE("floats that are not finite are refused") {
  GgufBuilder builder;
  builder.add_f32("f.infinite", std::numeric_limits<float>::infinity());
  builder.add_f32("f.nan", std::nanf(""));
  builder.add_f64("f.nan64", std::nan(""));
  builder.add_f64("f.large", 1e300);
  builder.add_f32_array("f.array", {1, std::nanf("")});
  ExactBytes bytes(builder.build());
  GgufFile file;
  REQUIRE(file.parse(bytes.data(), bytes.size()).ok());
  float number = 3;
  for (const char* key : {"f.infinite", "f.nan", "f.nan64", "f.large"}) {
    CHECK_FAILS(file.require_float(key, &number), Code::kBadFile, key);
  }
  CHECK(number == 3);
  float pair[2];
  CHECK_FAILS(file.require_floats("f.array", 2, pair), Code::kBadFile, "number 1 of metadata key 'f.array'");
}

TEST_CASE("arrays are read only with their element type and length") {
  ExactBytes bytes(make_good().build());
  GgufFile file;
  REQUIRE(file.parse(bytes.data(), bytes.size()).ok());
  const GgufEntry* array = nullptr;
  CHECK(file.read_array("a.ints", GgufType::kI32, &array).ok());
  REQUIRE(array != nullptr);
  CHECK(array->count == 2);
  CHECK(array->payload_bytes == 8);
  CHECK(file.read_array("a.ints", GgufType::kU32, &array).ok());
  CHECK(file.read_array("a.uints", GgufType::kI32, &array).ok());
  CHECK(file.read_array("absent", GgufType::kI32, &array).ok());
  CHECK(array == nullptr);
  CHECK_FAILS(file.read_array("n.u32", GgufType::kU32, &array), Code::kBadFile, "'n.u32' has type u32");

  float floats[3] = {};
  CHECK(file.require_floats("a.floats", 3, floats).ok());
  CHECK(floats[2] == 0.75f);
  CHECK_FAILS(file.require_floats("a.floats", 2, floats), Code::kBadFile, "'a.floats' holds 3 numbers, but 2");
  CHECK_FAILS(file.require_floats("a.floats", 4, floats), Code::kBadFile, "a.floats");
  CHECK_FAILS(file.require_floats("a.floats", -1, floats), Code::kBadFile, "a.floats");
  CHECK_FAILS(file.require_floats("absent", 3, floats), Code::kBadFile, "'absent' is missing");

  CHECK(file.read_array("a.strings", GgufType::kString, &array).ok());
  GgufStrings strings(*array);
  CHECK(strings.left() == 3);
  CHECK(strings.next() == "one");
  CHECK(strings.next() == "");
  CHECK(strings.next() == "\xc3\xa9");
  CHECK(strings.left() == 0);
  CHECK(strings.next() == "");
  CHECK(GgufStrings(*file.find("a.none")).left() == 0);
  CHECK(GgufStrings(*file.find("a.ints")).left() == 0);
}

TEST_CASE("a file without tensors is whole, with or without padding behind its header") {
  GgufBuilder builder;
  builder.add_u32("one", 1);
  Bytes bytes = builder.build();
  for (const size_t padding : {0, 3, 32, 100}) {
    bytes.resize(builder.header_bytes() + padding);
    ExactBytes exact(bytes);
    GgufFile file;
    REQUIRE(file.parse(exact.data(), exact.size()).ok());
    CHECK(file.data_bytes() == 0);
    CHECK(file.data_offset() <= exact.size());
  }
}

TEST_CASE("the alignment of the file decides where tensors lie") {
  for (const uint32_t alignment : {kLeastGgufAlignment, 64u, 4096u, kMaxGgufAlignment}) {
    GgufBuilder builder;
    builder.add_alignment(alignment);
    builder.add_tensor("first", {3}, {1, 2, 3});
    builder.add_tensor("second", {1}, {4});
    ExactBytes bytes(builder.build());
    GgufFile file;
    REQUIRE_MESSAGE(file.parse(bytes.data(), bytes.size()).ok(), last_failure().sentence);
    CHECK(file.data_offset() % alignment == 0);
    CHECK(file.find_tensor("second")->offset == (alignment == 8 ? 16 : alignment));
    walk(file);
  }
}

TEST_CASE("the last tensor may end the file without padding") {
  GgufBuilder builder;
  builder.add_tensor("only", {3}, {1, 2, 3});
  Bytes bytes = builder.build();
  bytes.resize(builder.header_bytes() + 12);
  ExactBytes exact(bytes);
  GgufFile file;
  CHECK(file.parse(exact.data(), exact.size()).ok());
  CHECK(file.data_bytes() == 12);
}

TEST_CASE("every runnable weight format is accepted") {
  for (int i = 0; i < kWeightFormatCount; ++i) {
    GgufBuilder builder;
    builder.add_tensor("w", static_cast<WeightFormat>(i), {512, 2});
    ExactBytes bytes(builder.build());
    GgufFile file;
    REQUIRE_MESSAGE(file.parse(bytes.data(), bytes.size()).ok(), last_failure().sentence);
    CHECK(file.find_tensor("w")->format == static_cast<WeightFormat>(i));
    CHECK(file.find_tensor("w")->bytes == 2 * row_bytes(static_cast<WeightFormat>(i), 512));
  }
}

TEST_CASE("a file that counts as its only part is whole") {
  GgufBuilder builder;
  builder.add_u16("split.count", 1);
  ExactBytes bytes(builder.build());
  GgufFile file;
  CHECK(file.parse(bytes.data(), bytes.size()).ok());
}

TEST_CASE("a file copied through the builder stays the same") {
  const Bytes original = make_good().build();
  ExactBytes bytes(original);
  GgufFile file;
  REQUIRE(file.parse(bytes.data(), bytes.size()).ok());
  CHECK(GgufBuilder(file).build() == original);
}

TEST_CASE("open reads a file, names it in every sentence and can be repeated") {
  const TemporaryFile good(make_good());
  GgufBuilder forged;
  forged.version = 1;
  const TemporaryFile bad(forged);
  GgufFile file;
  REQUIRE(file.open(good.c_str()).ok());
  CHECK(file.path() == good.path());
  walk(file);
  GgufFile moved = std::move(file);
  walk(moved);
  CHECK(moved.find("n.u8") != nullptr);

  CHECK_FAILS(moved.open(bad.c_str()), Code::kUnsupported, bad.path() + ": this file has GGUF version 1");
  CHECK(moved.entries().empty());
  CHECK(moved.find("n.u8") == nullptr);
  CHECK(moved.find_tensor("output_norm.weight") == nullptr);
  CHECK_FAILS(moved.open("/no/such/file.gguf"), Code::kBadFile, "/no/such/file.gguf");
  CHECK_FAILS(moved.open("/"), Code::kBadFile, "directory");
  CHECK_FAILS(moved.open(nullptr), Code::kBadArgument, "null");
  CHECK_FAILS(moved.parse(nullptr, 0), Code::kBadArgument, "no bytes");
  CHECK(moved.open(good.c_str()).ok());
  moved.close();
  CHECK(moved.data_bytes() == 0);
  CHECK(moved.tensors().empty());
}
