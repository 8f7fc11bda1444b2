// The formats of matrices in files as llama.cpp's quantiser makes them: tests/data/file_types.txt has what it chooses.
#include "runtime/models/file_type.h"

#include <doctest/doctest.h>

#include <cctype>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/models/model_shapes.h"
#include "tests/support/goldens.h"

namespace ocellus {
namespace {

char letter_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF16: return 'h';
    case WeightFormat::kQ8_0: return '8';
    case WeightFormat::kQ4_0: return 'a';
    case WeightFormat::kQ4_1: return 'b';
    case WeightFormat::kQ5_0: return 'c';
    case WeightFormat::kQ5_1: return 'd';
    case WeightFormat::kQ2_K: return '2';
    case WeightFormat::kQ3_K: return '3';
    case WeightFormat::kQ4_K: return '4';
    case WeightFormat::kQ5_K: return '5';
    case WeightFormat::kQ6_K: return '6';
    case WeightFormat::kIQ4_NL: return 'n';
    case WeightFormat::kIQ4_XS: return 'x';
    default: return '?';
  }
}

/// A line of the table, without shape and type.
std::string describe(const ModelShape& shape, FileType type) {
  constexpr const char* kParts[] = {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"};
  const TextConfig& c = shape.text;
  FileFormats formats(type, {.layers = c.layer_count,
                             .value_layers = c.layer_count,
                             .group = c.query_heads / c.kv_heads,
                             .tied = shape.tied});
  std::string text(1, letter_of(formats.next("token_embd.weight", c.width)));
  std::string parts[std::size(kParts)];
  for (int32_t layer = 0; layer < c.layer_count; ++layer)
    for (size_t i = 0; i < std::size(kParts); ++i) {
      const std::string part = kParts[i];
      const int64_t cols = part == "attn_output" ? c.query_width(layer) : part == "ffn_down" ? c.mlp_width : c.width;
      parts[i] += letter_of(formats.next("blk." + std::to_string(layer) + "." + part + ".weight", cols));
    }
  text += shape.tied ? '-' : letter_of(formats.next("output.weight", c.width));
  for (const std::string& part : parts)
    text += " " + (part.find_first_not_of(part[0]) == std::string::npos ? part.substr(0, 1) : part);
  return text;
}

}  // namespace

TEST_CASE("every matrix has the format that llama.cpp's quantiser gives it") {
  std::ifstream table(test::kSourceDir + "/tests/data/file_types.txt");
  std::string line;
  int compared = 0;
  while (std::getline(table, line)) {
    if (line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, type_name, expected;
    words >> name >> type_name >> std::ws;
    std::getline(words, expected);
    CAPTURE(name);
    CAPTURE(type_name);
    const ModelShape* shape = nullptr;
    FileType type;
    REQUIRE(find_model_shape(name.c_str(), &shape).ok());
    REQUIRE(find_file_type(type_name.c_str(), &type).ok());
    CHECK(describe(*shape, type) == expected);
    ++compared;
  }
  CHECK(compared == 9 * 17);
}

TEST_CASE("types are found by llama.cpp's names and their short ones, pure ones too; others get the list") {
  FileType type, same;
  for (int i = 0; i < kWeightFormatCount; ++i) {
    const std::string name = format_info(static_cast<WeightFormat>(i)).name;
    CAPTURE(name);
    REQUIRE(find_file_type(name.c_str(), &type).ok());
    CHECK(type.main == static_cast<WeightFormat>(i));
    REQUIRE(find_file_type((name + "-PURE").c_str(), &type).ok());
    CHECK(type.main == static_cast<WeightFormat>(i));
    CHECK(type.mixture == Mixture::kPure);
  }
  for (const std::string& name : {std::string("Q3_K"), std::string("q4_k"), std::string("Q5_K")}) {
    REQUIRE(find_file_type(name.c_str(), &type).ok());
    REQUIRE(find_file_type((name + "_m").c_str(), &same).ok());
    CHECK(type.mixture == same.mixture);
  }
  for (const std::string& name : {std::string("Q7_K"), std::string(), std::string("Q4_K_"), std::string("Q8_0_M"),
                                  std::string("Q4_K-pur"), std::string(1000, 'Q')}) {
    CHECK(find_file_type(name.c_str(), &type).code() == Code::kBadArgument);
    const std::string sentence = last_failure().sentence;
    for (const char* listed : {"F32, F16, BF16, Q8_0", "Q2_K_S", "Q4_K_M", "IQ4_XS", "MXFP4", "-pure"})
      CHECK(sentence.find(listed) != std::string::npos);
  }
}

TEST_CASE("where blocks do not divide a row the quantiser's next format does, or F16") {
  CHECK(format_that_fits(WeightFormat::kQ4_K, 4096) == WeightFormat::kQ4_K);
  CHECK(format_that_fits(WeightFormat::kQ4_K, 576) == WeightFormat::kQ5_0);
  CHECK(format_that_fits(WeightFormat::kQ6_K, 576) == WeightFormat::kQ8_0);
  CHECK(format_that_fits(WeightFormat::kQ4_K, 4304) == WeightFormat::kF16);
  CHECK(format_that_fits(WeightFormat::kQ8_0, 4304) == WeightFormat::kF16);
  CHECK(format_that_fits(WeightFormat::kBF16, 4304) == WeightFormat::kBF16);
}

}  // namespace ocellus
