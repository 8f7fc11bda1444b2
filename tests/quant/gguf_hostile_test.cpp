// GGUF files made to do harm or damaged by accident. Each must be refused with a sentence that names the culprit.
// Known attacks on other readers carry their number. Random damage is in gguf_damage_test.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "quant/gguf.h"
#include "tests/support/failure.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/small_gguf.h"

using namespace ocellus;
using namespace ocellus::test;

namespace {

void check_refused(const Bytes& bytes, Code code, const std::string& culprit) {
  GgufFile file;
  test::clear_failure();
  CHECK(parse_exactly(bytes, &file).code() == code);
  const std::string sentence = last_failure().sentence;
  CHECK_MESSAGE(sentence.find(culprit) != std::string::npos, sentence);
  CHECK_MESSAGE(sentence.size() + 1 < sizeof(Failure::sentence), sentence);
  CHECK(file.tensors().empty());
}

void check_bad(const GgufBuilder& builder, const std::string& culprit) {
  check_refused(builder.build(), Code::kBadFile, culprit);
}

Bytes bytes_of(std::string_view text) { return Bytes(text.begin(), text.end()); }

}  // namespace

TEST_SUITE("what is not a GGUF file") {
  TEST_CASE("other files are recognised") {
    check_refused(bytes_of("hello world, this is text"), Code::kBadFile, "starts with \"hello world, thi\"");
    check_refused(bytes_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), Code::kBadFile,
                  "git lfs pull");
    check_refused(bytes_of("<!DOCTYPE html><html>"), Code::kBadFile, "web page");
    check_refused(bytes_of("PK\x03\x04 and so on"), Code::kBadFile, "zip archive");
    check_refused(bytes_of(std::string("\x10\0\0\0\0\0\0\0{\"__metadata__\"", 23)), Code::kBadFile, "safetensors");
    check_refused(bytes_of("tjgg\1\0\0\0"), Code::kBadFile, "GGJT");
    check_refused(bytes_of("GGU"), Code::kBadFile, "not a GGUF file: it starts with \"GGU\"");
    check_refused(bytes_of("\x1b[2J\xff\\"), Code::kBadFile, "\"\\x1b[2J\\xff\\x5c\"");
    check_refused({}, Code::kBadFile, "not a GGUF file");
  }

  TEST_CASE("a header that ends early") {
    for (size_t size = 4; size < 24; ++size) {
      Bytes bytes = small_gguf().build();
      bytes.resize(size);
      check_refused(bytes, Code::kBadFile, "inside the GGUF header");
    }
  }

  TEST_CASE("versions that cannot be read") {
    for (const uint32_t version : {0u, 1u, 4u, 0x7fffffffu, 0xffffffffu}) {
      GgufBuilder file = small_gguf();
      file.version = version;
      check_refused(file.build(), Code::kUnsupported, "version " + std::to_string(version));
    }
  }

  TEST_CASE("a big-endian file") {
    for (const uint32_t version : {0x02000000u, 0x03000000u}) {
      GgufBuilder file = small_gguf();
      file.version = version;
      check_refused(file.build(), Code::kUnsupported, "big-endian");
    }
  }

  TEST_CASE("one part of a split model") {
    GgufBuilder file = small_gguf();
    file.add_u16("split.count", 3);
    file.add_u16("split.no", 0);
    check_refused(file.build(), Code::kUnsupported, "one of 3 parts");
    file.remove("split.count");
    file.add_string("split.count", "3");
    check_bad(file, "split.count");
  }
}

TEST_SUITE("metadata") {
  TEST_CASE("entry counts beyond the file, CVE-2024-23605 and CVE-2024-21802") {
    for (const uint64_t count : {uint64_t{5}, uint64_t{65537}, uint64_t{1} << 32, uint64_t{1} << 59,
                                 UINT64_MAX / 64 + 1, uint64_t{1} << 63, UINT64_MAX}) {
      GgufBuilder file = small_gguf();
      file.tensors.clear();
      file.forged_entry_count = count;
      check_bad(file, count == 5 ? "metadata entry 4" : std::to_string(count) + " metadata entries");
    }
  }

  TEST_CASE("an entry count the file has no room for is refused before anything is reserved") {
    GgufBuilder file = small_gguf();
    file.forged_entry_count = 60000;
    check_bad(file, "60000 metadata entries");
  }

  TEST_CASE("more entries than the limit in a file that has room for them") {
    GgufBuilder file;
    file.forged_entry_count = kMaxGgufEntries + 1;
    Bytes bytes = file.build();
    bytes.resize(bytes.size() + 16 * static_cast<size_t>(kMaxGgufEntries));
    check_refused(bytes, Code::kBadFile, "65537 metadata entries");
  }

  TEST_CASE("key lengths beyond the file") {
    for (const uint64_t length : {uint64_t{1} << 20, uint64_t{1} << 63, UINT64_MAX - 7, UINT64_MAX}) {
      GgufBuilder file = small_gguf();
      file.entry("llama.block_count").forged_key_length = length;
      check_bad(file, "key of metadata entry 1 reaches past the end");
    }
  }

  TEST_CASE("keys that are empty, endless or not text") {
    GgufBuilder file = small_gguf();
    file.entries[1].key = "";
    check_bad(file, "metadata entry 1 has an empty key");
    file.entries[1].key = std::string(65536, 'k');
    check_bad(file, "metadata entry 1 has a key of 65536 bytes");
    for (const std::string& key :
         {std::string("a\0b", 3), std::string("\x1b[2J"), std::string("\xff"), std::string("a\xc3"),
          std::string("\xc0\x80"), std::string("\xe0\x80\x80"), std::string("\xed\xa0\x80"),
          std::string("\xf0\x80\x80\x80"), std::string("\xf4\x90\x80\x80"), std::string("\xf8\x88\x80\x80"),
          std::string("\xc2\x85"), std::string("\x7f"), std::string("\xe2\x82")}) {
      file.entries[1].key = key;
      check_bad(file, "key of metadata entry 1 is not printable UTF-8");
    }
    for (const std::string& key :
         {std::string(65535, 'k'), std::string("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xed\x9f\xbf\xf4\x8f\xbf\xbf")}) {
      file.entries[1].key = key;
      GgufFile good;
      CHECK(parse_exactly(file.build(), &good).ok());
    }
  }

  TEST_CASE("a sentence shows a long key up to a whole character") {
    GgufBuilder file;
    std::string key(63, 'k');
    for (int i = 0; i < 100; ++i) key += "\xc3\xa9";
    file.add_raw(key, 13, {0});
    check_bad(file, "'" + std::string(63, 'k') + "' has the value type 13");
  }

  TEST_CASE("a key that appears twice") {
    GgufBuilder file = small_gguf();
    file.add_u32("llama.block_count", 3);
    check_bad(file, "'llama.block_count' appears twice, as entry 1 and 4");
  }

  TEST_CASE("value types that do not exist") {
    for (const uint32_t type : {13u, 255u, 0x80000000u, 0xffffffffu}) {
      GgufBuilder file = small_gguf();
      file.entry("llama.block_count").type = type;
      check_bad(file, "'llama.block_count' has the value type " + std::to_string(type));
    }
  }

  TEST_CASE("truth values other than 0 and 1") {
    GgufBuilder file = small_gguf();
    file.entry("tokenizer.ggml.add_bos_token").value = {2};
    check_bad(file, "'tokenizer.ggml.add_bos_token' holds the truth value 2");
    GgufBuilder array = small_gguf();
    const uint8_t values[] = {0, 1, 255};
    array.add_array("flags", GgufType::kBool, 3, values, 3);
    check_bad(array, "'flags' holds the truth value 255");
  }

  TEST_CASE("string lengths beyond the file, CVE-2024-21825") {
    for (const uint64_t length : {uint64_t{1} << 30, uint64_t{1} << 63, UINT64_MAX - 8, UINT64_MAX}) {
      GgufBuilder file = small_gguf();
      std::memcpy(file.entry("general.architecture").value.data(), &length, sizeof length);
      check_bad(file, "'general.architecture' reaches past the end");
    }
  }

  TEST_CASE("values that the end of the file cuts off") {
    for (uint32_t type = 0; type <= 12; ++type) {
      GgufBuilder file;
      file.add_u32("padding.for.the.count.check", 0);
      file.add_raw("cut", type, {});
      check_bad(file, "'cut'");
    }
  }

  TEST_CASE("array lengths whose size in bytes overflows, CVE-2024-21836") {
    const std::pair<GgufType, uint64_t> cases[] = {{GgufType::kU8, UINT64_MAX},
                                                   {GgufType::kU16, (uint64_t{1} << 63) + 1},
                                                   {GgufType::kF32, (uint64_t{1} << 62) + 1},
                                                   {GgufType::kF64, (uint64_t{1} << 61) + 1},
                                                   {GgufType::kString, (uint64_t{1} << 61) + 1},
                                                   {GgufType::kI64, UINT64_MAX},
                                                   {GgufType::kF32, 1000000}};
    for (const auto& [type, count] : cases) {
      GgufBuilder file = small_gguf();
      file.add_array("long", type, count, "01234567", 8);
      check_bad(file, "'long' claims an array of " + std::to_string(count) + " elements");
    }
  }

  TEST_CASE("a file of some 43 bytes whose array claims 2^63 elements") {
    GgufBuilder file;
    file.add_array("a.b", GgufType::kString, uint64_t{1} << 63, "", 0);
    CHECK(file.build().size() <= 51);
    check_bad(file, "'a.b' claims an array of 9223372036854775808 elements");
  }

  TEST_CASE("string lengths inside an array, CVE-2025-49847") {
    for (const uint64_t length : {uint64_t{1} << 20, uint64_t{1} << 31, uint64_t{1} << 63, UINT64_MAX}) {
      GgufBuilder file;
      Bytes strings;
      append_string(strings, "a");
      append_string(strings, "b", length);
      file.add_array("tokenizer.ggml.tokens", GgufType::kString, 2, strings.data(), strings.size());
      check_bad(file, "string 1 of metadata key 'tokenizer.ggml.tokens'");
    }
  }

  TEST_CASE("arrays of arrays, however deep") {
    GgufBuilder file = small_gguf();
    Bytes nested;
    for (int depth = 0; depth < 100000; ++depth) {
      append(nested, uint32_t{9});
      append(nested, uint64_t{1});
    }
    file.add_raw("deep", 9, nested);
    check_refused(file.build(), Code::kUnsupported, "'deep' is an array of arrays");
  }

  TEST_CASE("element types that do not exist") {
    GgufBuilder file = small_gguf();
    file.add_array("odd", static_cast<GgufType>(13), 1, "01234567", 8);
    check_bad(file, "'odd' has the value type 13");
  }

  TEST_CASE("an array of i8 read as i32") {
    GgufBuilder builder = small_gguf();
    builder.add_i8_array("tokenizer.ggml.token_type", {1, 1});
    ExactBytes bytes(builder.build());
    GgufFile file;
    REQUIRE(file.parse(bytes.data(), bytes.size()).ok());
    const GgufEntry* array = nullptr;
    CHECK(file.read_array("tokenizer.ggml.token_type", GgufType::kI32, &array).code() == Code::kBadFile);
    CHECK(array == nullptr);
    CHECK(std::string(last_failure().sentence) ==
          "metadata key 'tokenizer.ggml.token_type' has type array of i8, but array of i32 is expected");
    float floats[2];
    CHECK(file.require_floats("tokenizer.ggml.token_type", 2, floats).code() == Code::kBadFile);
  }

  TEST_CASE("alignments that are not a power of two in bounds") {
    for (const uint32_t alignment : {0u, 1u, 4u, 12u, 33u, 131072u, 0x80000000u, 0xffffffffu}) {
      GgufBuilder file = small_gguf();
      file.add_u32("general.alignment", alignment);
      check_bad(file, "'general.alignment' is " + std::to_string(alignment));
    }
  }

  TEST_CASE("alignments of another type") {
    GgufBuilder file = small_gguf();
    file.add_string("general.alignment", "32");
    check_bad(file, "'general.alignment' has type string");
    file.remove("general.alignment");
    file.add_u64("general.alignment", 32);
    check_bad(file, "'general.alignment' has type u64");
    file.remove("general.alignment");
    file.add_u32_array("general.alignment", {});
    check_bad(file, "'general.alignment' has type array");
  }

  TEST_CASE("keys chosen to collide do not make loading crawl") {
    // With 3,000 entries the table has 8,192 slots; all of these keys belong into the same one.
    GgufBuilder file;
    for (uint64_t i = 0; file.entries.size() < 3000; ++i) {
      std::string key = std::to_string(i);
      if (file.entries.size() < 400 && hash_name(key) % 8192 != 5) continue;
      file.add_u8(key, 0);
    }
    check_bad(file, "metadata keys: its names were chosen to collide");
  }
}

TEST_SUITE("tensors") {
  TEST_CASE("tensor counts beyond the file") {
    for (const uint64_t count :
         {uint64_t{3}, uint64_t{65537}, uint64_t{1} << 32, uint64_t{1} << 58, uint64_t{1} << 63, UINT64_MAX}) {
      GgufBuilder file = small_gguf();
      file.forged_tensor_count = count;
      check_bad(file, count == 3 ? "tensor 2" : std::to_string(count) + " tensors");
    }
  }

  TEST_CASE("a tensor count the file has no room for is refused before anything is reserved") {
    GgufBuilder file = small_gguf();
    file.forged_tensor_count = 60000;
    check_bad(file, "60000 tensors");
  }

  TEST_CASE("more tensors than the limit in a file that has room for them") {
    GgufBuilder file;
    file.forged_tensor_count = kMaxGgufTensors + 1;
    Bytes bytes = file.build();
    bytes.resize(bytes.size() + 40 * static_cast<size_t>(kMaxGgufTensors));
    check_refused(bytes, Code::kBadFile, "65537 tensors");
  }

  TEST_CASE("names that are empty, too long or not text") {
    GgufBuilder file = small_gguf();
    file.tensors[1].name = "";
    check_bad(file, "tensor 1 has an empty name");
    file.tensors[1].name = std::string(64, 'n');
    check_bad(file, "tensor 1 has a name of 64 bytes");
    for (const std::string& name : {std::string("output\0norm", 11), std::string("\xff"), std::string("a\nb")}) {
      file.tensors[1].name = name;
      check_bad(file, "name of tensor 1 is not printable UTF-8");
    }
    file.tensors[1].name = std::string(63, 'n');
    GgufFile good;
    CHECK(parse_exactly(file.build(), &good).ok());
  }

  TEST_CASE("name lengths beyond the file") {
    for (const uint64_t length : {uint64_t{1} << 20, uint64_t{1} << 63, UINT64_MAX}) {
      GgufBuilder file = small_gguf();
      file.tensors[1].forged_name_length = length;
      check_bad(file, "name of tensor 1 reaches past the end");
    }
  }

  TEST_CASE("a name that appears twice") {
    GgufBuilder file = small_gguf();
    file.add_tensor("token_embd.weight", {1}, {1});
    check_bad(file, "'token_embd.weight' appears twice, as tensor 0 and 2");
  }

  TEST_CASE("dimension counts other than 1 to 4, CVE-2024-23496") {
    for (const uint32_t count : {0u, 5u, 64u, 0xffffffffu}) {
      GgufBuilder file = small_gguf();
      file.tensors[0].forged_dimension_count = count;
      check_bad(file, "'token_embd.weight' has " + std::to_string(count) + " dimensions");
    }
  }

  TEST_CASE("dimensions of 0") {
    for (size_t dimension = 0; dimension < 4; ++dimension) {
      GgufBuilder file = small_gguf();
      std::vector<uint64_t> ne = {32, 2, 3, 4};
      ne[dimension] = 0;
      file.tensors[0].ne = ne;
      check_bad(file, "dimension " + std::to_string(dimension) + " of tensor 'token_embd.weight' is 0");
    }
  }

  TEST_CASE("dimensions whose product overflows") {
    const std::vector<uint64_t> cases[] = {{32, uint64_t{1} << 58},
                                           {uint64_t{1} << 63},
                                           {UINT64_MAX},
                                           {uint64_t{1} << 32, uint64_t{1} << 32},
                                           {uint64_t{1} << 16, uint64_t{1} << 16, uint64_t{1} << 16, uint64_t{1} << 16},
                                           {32, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    for (const auto& ne : cases) {
      GgufBuilder file = small_gguf();
      file.tensors[0].ne = ne;
      check_bad(file, "'token_embd.weight' multiply to more than 63 bits");
    }
  }

  TEST_CASE("sizes in bytes that overflow, CVE-2026-33298") {
    GgufBuilder file = small_gguf();
    file.tensors[0].ne = {uint64_t{1} << 62};
    check_bad(file, "tensor 'token_embd.weight'");  // 17/16 of 2^62 bytes fits 63 bits, but not the file
    file.tensors[1].ne = {uint64_t{1} << 62};
    check_bad(file, "size of tensor 'output_norm.weight' in bytes does not fit");
  }

  TEST_CASE("sizes whose sum overflows, CVE-2025-53630 and CVE-2026-27940") {
    GgufBuilder file;
    for (int i = 0; i < 5; ++i) {
      GgufBuilder::Tensor& tensor = file.add_tensor("part." + std::to_string(i), {1}, {1});
      tensor.ne = {uint64_t{1} << 60};
      tensor.forged_offset = static_cast<uint64_t>(i) << 62;
    }
    check_bad(file, "'part.0' needs 4611686018427387904 bytes");
    file.tensors[0].ne = {1};
    file.tensors[1].ne = {(uint64_t{1} << 61) - 1};
    file.tensors[1].forged_offset = 32;
    check_bad(file, "'part.1' needs");
  }

  TEST_CASE("rows that are no whole number of blocks") {
    for (const uint64_t cols : {1, 31, 33, 100}) {
      GgufBuilder file = small_gguf();
      file.tensors[0].ne = {cols, 32};
      check_bad(file, "'token_embd.weight' has rows of " + std::to_string(cols) + " weights, but Q8_0");
    }
  }

  TEST_CASE("types that cannot be run are named") {
    GgufBuilder file = small_gguf();
    file.tensors[0].type = 21;
    check_refused(file.build(), Code::kUnsupported, "'token_embd.weight' has type IQ3_S, which this build cannot run");
    for (const uint32_t type : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 1000u, 0x80000000u, 0xffffffffu}) {
      file.tensors[0].type = type;
      check_refused(file.build(), Code::kUnsupported,
                    "'token_embd.weight' has type number " + std::to_string(type) + ", which is removed");
    }
  }

  TEST_CASE("offsets other than the running sum") {
    GgufBuilder file = small_gguf();  // 68 bytes, so the second tensor belongs at 96
    const uint64_t cases[] = {0,         32, 64, 68, 95, 97, 128, uint64_t{1} << 40, uint64_t{1} << 63, UINT64_MAX - 15,
                              UINT64_MAX};
    for (const uint64_t offset : cases) {
      file.tensors[1].forged_offset = offset;
      const uint64_t shown = std::min(offset, uint64_t{INT64_MAX});
      check_bad(file, "tensor 'output_norm.weight' starts at byte " + std::to_string(shown) + " of the data section");
    }
    file.tensors[1].forged_offset = 96;
    GgufFile good;
    CHECK(parse_exactly(file.build(), &good).ok());
    file.tensors[0].forged_offset = 32;
    check_bad(file,
              "tensor 'token_embd.weight' starts at byte 32 of the data section, but the tensors before it end at 0");
  }

  TEST_CASE("a tensor past the end of the file, CVE-2026-7482") {
    GgufBuilder file = small_gguf();
    file.tensors[1].ne = {1000};
    check_bad(file, "'output_norm.weight' needs 4000 bytes, but the file has 32 left");
    Bytes cut = small_gguf().build();
    cut.resize(cut.size() - 17);  // 16 bytes of padding and one of the tensor
    check_refused(cut, Code::kBadFile, "'output_norm.weight' needs 16 bytes, but the file has 15 left");
    cut.resize(small_gguf().header_bytes() - 1);
    check_refused(cut, Code::kBadFile, "'token_embd.weight' needs 68 bytes, but the file has 0 left");
  }

  TEST_CASE("a description that the end of the file cuts off") {
    GgufBuilder file = small_gguf();
    const Bytes bytes = file.build();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const size_t name_end = text.find("output_norm.weight") + 18;
    file.tensors[0].data.clear();
    for (size_t i = 8; i < 24; ++i) {
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(name_end + i));
      check_refused(cut, Code::kBadFile, "tensor");
    }
  }
}
