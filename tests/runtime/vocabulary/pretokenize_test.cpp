#include "runtime/vocabulary/pretokenize.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/random.h"

namespace ocellus {
namespace {

constexpr PreTokenizer kAll[] = {PreTokenizer::kGpt2, PreTokenizer::kSmollm, PreTokenizer::kQwen2,
                                 PreTokenizer::kLlamaBpe, PreTokenizer::kTekken};

std::vector<int64_t> cut(PreTokenizer pre_tokenizer, std::string_view text) {
  std::vector<int64_t> pieces;
  while (!text.empty()) {
    pieces.push_back(first_piece_bytes(pre_tokenizer, text));
    REQUIRE(pieces.back() >= 1);
    REQUIRE(pieces.back() <= static_cast<int64_t>(text.size()));
    text.remove_prefix(static_cast<size_t>(pieces.back()));
  }
  return pieces;
}

TEST_CASE("pieces equal those of the reference regular expressions") {
  std::ifstream in(OCELLUS_SOURCE_DIR "/tests/data/tokenizers/pieces.json");
  REQUIRE(in.good());
  const auto cases = nlohmann::json::parse(in);
  REQUIRE(cases.size() > 100);
  for (const auto& expected : cases) {
    const auto text = expected[0].get<std::string>();
    for (const PreTokenizer pre_tokenizer : kAll) {
      const auto column = static_cast<size_t>(pre_tokenizer);
      CAPTURE(text);
      CAPTURE(column);
      CHECK(cut(pre_tokenizer, text) == expected[column + 1].get<std::vector<int64_t>>());
    }
  }
}

TEST_CASE("bytes that are not UTF-8 are symbols") {
  using Pieces = std::vector<int64_t>;
  for (const PreTokenizer pre_tokenizer : kAll) {
    CHECK(cut(pre_tokenizer, "ab\xff\xfe") == Pieces{2, 2});
    CHECK(cut(pre_tokenizer, "\xe4\xb8!") == Pieces{3});              // cut short by another character
    CHECK(cut(pre_tokenizer, "a\xc0\xaf") == Pieces{1, 2});           // an overlong slash
    CHECK(cut(pre_tokenizer, "1 \xf4\x90\x80\x80") == Pieces{1, 5});  // past U+10FFFF
  }
}

TEST_CASE("any bytes are cut completely") {
  test::Random random(5);
  for (int i = 0; i < 2000; ++i) {
    const auto bytes = random.bytes(random.integer(1, 40));
    for (const PreTokenizer pre_tokenizer : kAll) {
      cut(pre_tokenizer, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
  }
}

}  // namespace
}  // namespace ocellus
