// Vocabularies that lie. Each is a good one with one thing changed; each must be refused with a sentence that names it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/gguf_builder.h"
#include "tests/support/random.h"
#include "tests/support/tokenizer_loader.h"

namespace ocellus {
namespace {

using test::ExactBytes;
using test::GgufBuilder;
using test::LoadedTokenizer;
using Strings = std::vector<std::string>;

const Strings kBytePairTokens = {"a", "b", "c", "ab", "abc", "\xc4\xa0", "<|end|>", "<tool>"};
const Strings kPieceTokens = {"<unk>", "<s>", "</s>", "<0x41>", "\xe2\x96\x81", "a", "b", "ab"};

GgufBuilder byte_pair() {
  GgufBuilder file;
  file.add_string("general.architecture", "llama");
  file.add_string("tokenizer.ggml.model", "gpt2");
  file.add_string("tokenizer.ggml.pre", "gpt-2");
  file.add_string_array("tokenizer.ggml.tokens", kBytePairTokens);
  file.add_i32_array("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 1, 3, 4});
  file.add_string_array("tokenizer.ggml.merges", {"a b", "ab c"});
  file.add_u32("tokenizer.ggml.eos_token_id", 6);
  return file;
}

GgufBuilder sentence_piece() {
  GgufBuilder file;
  file.add_string("general.architecture", "llama");
  file.add_string("tokenizer.ggml.model", "llama");
  file.add_string_array("tokenizer.ggml.tokens", kPieceTokens);
  file.add_i32_array("tokenizer.ggml.token_type", {2, 3, 3, 6, 1, 1, 1, 1});
  file.add_f32_array("tokenizer.ggml.scores", {0, 0, 0, 0, -1, -2, -3, -4});
  return file;
}

Status load(const GgufBuilder& builder, LoadedTokenizer* loaded) {
  const ExactBytes bytes(builder.build());
  return loaded->parse(const_cast<ExactBytes&>(bytes).data(), bytes.size());
}

void check_refused(const GgufBuilder& builder, Code code, const std::string& says) {
  CAPTURE(says);
  LoadedTokenizer loaded;
  CHECK(load(builder, &loaded).code() == code);
  const std::string sentence = last_failure().sentence;
  CAPTURE(sentence);
  CHECK(sentence.find(says) != std::string::npos);
}

TEST_CASE("the vocabularies that are changed below are good") {
  LoadedTokenizer pairs, pieces;
  REQUIRE_MESSAGE(load(byte_pair(), &pairs).ok(), last_failure().sentence);
  CHECK(pairs.encode("abcab cb<tool><|end|>", true) == std::vector<TokenId>{4, 3, 5, 2, 1, 7, 6});
  CHECK(pairs.encode("a!b", true) == std::vector<TokenId>{0, 1});  // "!" has no token
  REQUIRE_MESSAGE(load(sentence_piece(), &pieces).ok(), last_failure().sentence);
  CHECK(pieces.encode("abA", true) == std::vector<TokenId>{4, 7, 3});
  CHECK(pieces.encode("a!b", true) == std::vector<TokenId>{4, 5, 0, 6});
  CHECK(pieces.tokenizer.facts().bos == 1);
  CHECK(pieces.tokenizer.is_end_of_generation(2));
}

TEST_CASE("missing keys") {
  for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    GgufBuilder file = byte_pair();
    file.remove(key);
    check_refused(file, Code::kBadFile, key);
  }
  GgufBuilder file = byte_pair();
  file.remove("tokenizer.ggml.pre");
  check_refused(file, Code::kUnsupported, "tokenizer.ggml.pre is missing");
  file = sentence_piece();
  file.remove("tokenizer.ggml.scores");
  check_refused(file, Code::kBadFile, "tokenizer.ggml.scores is missing");
}

TEST_CASE("unknown tokenizers are named") {
  GgufBuilder file = byte_pair();
  file.remove("tokenizer.ggml.model");
  file.add_string("tokenizer.ggml.model", "bert");
  check_refused(file, Code::kUnsupported, "\"bert\"");
  for (const std::string pre : {"default", "gpt-2 ", "deepseek-coder"}) {
    file = byte_pair();
    file.remove("tokenizer.ggml.pre");
    file.add_string("tokenizer.ggml.pre", pre);
    check_refused(file, Code::kUnsupported, "\"" + pre + "\"");
  }
  file = byte_pair();
  file.remove("tokenizer.ggml.pre");
  file.add_string("tokenizer.ggml.pre", std::string(100000, 'x'));
  check_refused(file, Code::kUnsupported, "xxx");
}

// Puts another value under `key` into each good vocabulary that has it: both must refuse it.
template <class Add, class... Values>
void check_replaced(const char* key, const std::string& says, const Add& add, const Values&... values) {
  int tried = 0;
  for (GgufBuilder file : {byte_pair(), sentence_piece()}) {
    const auto has_key = [&](const auto& entry) { return entry.key == key; };
    if (std::none_of(file.entries.begin(), file.entries.end(), has_key)) continue;
    file.remove(key);
    (file.*add)(key, values...);
    check_refused(file, Code::kBadFile, says);
    ++tried;
  }
  CHECK(tried > 0);
}

TEST_CASE("wrong types and lengths") {
  const auto number = &GgufBuilder::add_u32;
  const auto text = &GgufBuilder::add_string;
  const auto texts = &GgufBuilder::add_string_array;
  const auto numbers = &GgufBuilder::add_i32_array;
  const auto small_numbers = &GgufBuilder::add_i8_array;
  const auto floats = &GgufBuilder::add_f32_array;
  using Numbers = std::vector<int32_t>;
  using Floats = std::vector<float>;
  check_replaced("tokenizer.ggml.model", "tokenizer.ggml.model", number, 1u);
  check_replaced("tokenizer.ggml.tokens", "tokenizer.ggml.tokens", text, "a");
  check_replaced("tokenizer.ggml.tokens", "tokenizer.ggml.tokens", numbers, Numbers{1, 2});
  check_replaced("tokenizer.ggml.tokens", "tokenizer.ggml.tokens", texts, Strings{});
  check_replaced("tokenizer.ggml.merges", "tokenizer.ggml.merges", floats, Floats{1});
  check_replaced("tokenizer.ggml.merges", "tokenizer.ggml.merges", texts, Strings{});
  const char* kinds = "tokenizer.ggml.token_type";
  check_replaced(kinds, kinds, small_numbers, std::vector<int8_t>(8, 1));
  check_replaced(kinds, "3 entries for 8 tokens", numbers, Numbers{1, 1, 1});
  check_replaced(kinds, "of token 7 is 7", numbers, Numbers{1, 1, 1, 1, 1, 1, 1, 7});
  check_replaced(kinds, "of token 1 is -1", numbers, Numbers{1, -1, 1, 1, 1, 1, 1, 1});
  const char* scores = "tokenizer.ggml.scores";
  check_replaced(scores, scores, numbers, Numbers(8, 0));
  check_replaced(scores, "2 entries for 8 tokens", floats, Floats{0, 0});
  check_replaced(scores, "score of token 2", floats, Floats{0, 0, NAN, 0, 0, 0, 0, 0});
}

TEST_CASE("special ids outside the vocabulary") {
  for (const char* name : {"bos", "eos", "eot", "eom", "unknown", "padding"}) {
    const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
    for (const int64_t id : {int64_t{8}, int64_t{-2}, int64_t{128257}, int64_t{1} << 40}) {
      GgufBuilder file = byte_pair();
      if (key == "tokenizer.ggml.eos_token_id") file.remove(key);
      file.add_i64(key, id);
      check_refused(file, Code::kBadFile, key);
    }
    GgufBuilder file = byte_pair();
    if (key == "tokenizer.ggml.eos_token_id") file.remove(key);
    file.add_string(key, "6");
    check_refused(file, Code::kBadFile, key);
  }
  GgufBuilder file = byte_pair();
  file.add_u32("tokenizer.ggml.add_bos_token", 1);
  check_refused(file, Code::kBadFile, "tokenizer.ggml.add_bos_token");
}

TEST_CASE("token texts") {
  const auto refuse = [](int id, const std::string& text, const char* says) {
    for (const bool pieces : {false, true}) {
      GgufBuilder file = pieces ? sentence_piece() : byte_pair();
      Strings tokens = pieces ? kPieceTokens : kBytePairTokens;
      tokens[static_cast<size_t>(id)] = text;
      file.remove("tokenizer.ggml.tokens");
      file.add_string_array("tokenizer.ggml.tokens", tokens);
      check_refused(file, Code::kBadFile, says);
    }
  };
  refuse(5, std::string(1 << 20, 'x'), "token 5 has 1048576 bytes");
  refuse(5, std::string(kMaxTokenBytes + 1, 'x'), "token 5 has 1025 bytes");
  refuse(7, "b", "have the same text");
}

TEST_CASE("tokens without a text are rows that nothing reaches") {
  for (const int32_t kind : {1, 3, 4, 5}) {
    for (const bool pieces : {false, true}) {
      GgufBuilder file = pieces ? sentence_piece() : byte_pair();
      Strings tokens = pieces ? kPieceTokens : kBytePairTokens;
      std::vector<int32_t> kinds =
          pieces ? std::vector<int32_t>{2, 3, 3, 6, 1, 1, 1, 1} : std::vector<int32_t>{1, 1, 1, 1, 1, 1, 3, 4};
      for (int i = 0; i < 2; ++i) {
        tokens.push_back("");
        kinds.push_back(kind);
      }
      file.remove("tokenizer.ggml.tokens");
      file.remove("tokenizer.ggml.token_type");
      file.add_string_array("tokenizer.ggml.tokens", tokens);
      file.add_i32_array("tokenizer.ggml.token_type", kinds);
      if (pieces) {
        file.remove("tokenizer.ggml.scores");
        file.add_f32_array("tokenizer.ggml.scores", {0, 0, 0, 0, -1, -2, -3, -4, 0, 0});
      }
      file.add_u32("tokenizer.ggml.padding_token_id", UINT32_MAX);
      LoadedTokenizer loaded;
      REQUIRE(load(file, &loaded).ok());
      CHECK(loaded.tokenizer.token_count() == 10);
      CHECK(loaded.tokenizer.facts().padding == kNoToken);
      CHECK(loaded.tokenizer.piece(8, true).empty());
      CHECK(loaded.tokenizer.find("") == kNoToken);
      for (const bool special : {false, true}) {
        const std::vector<TokenId> ids = loaded.encode("ab<|end|>ab", special);
        CHECK(std::count_if(ids.begin(), ids.end(), [](TokenId id) { return id >= 8; }) == 0);
        CHECK(std::count(ids.begin(), ids.end(), pieces ? 7 : 3) == 2);
      }
    }
  }
}

TEST_CASE("byte tokens") {
  for (const char* text :
       {"<0x-1>", "<0x1>", "<0x123>", "<0xG0>", "<0x 1>", "<0X41>", "0x41", "<0x41", "<0x41)", "<0x+1>"}) {
    GgufBuilder file = sentence_piece();
    Strings tokens = kPieceTokens;
    tokens[3] = text;
    file.remove("tokenizer.ggml.tokens");
    file.add_string_array("tokenizer.ggml.tokens", tokens);
    check_refused(file, Code::kBadFile, "byte token 3");
  }
}

TEST_CASE("merges") {
  for (const std::string line : {"a x", "x a", "b c", "ab", "", " ", "a ", " a", "a  b", "a b c"}) {
    GgufBuilder file = byte_pair();
    file.remove("tokenizer.ggml.merges");
    file.add_string_array("tokenizer.ggml.merges", {"a b", line});
    check_refused(file, Code::kBadFile, "merge 1 ");
  }
  GgufBuilder file = byte_pair();
  file.remove("tokenizer.ggml.merges");
  file.add_string_array("tokenizer.ggml.merges", {std::string(1 << 20, 'a') + " b"});
  check_refused(file, Code::kBadFile, "merge 0 ");
}

TEST_CASE("texts that decode to the same bytes cannot slow the tables down") {
  // 2^12 spellings of one text of 12 spaces: each different, all equal to a reader.
  GgufBuilder file = sentence_piece();
  Strings tokens = kPieceTokens;
  for (int mask = 0; mask < 4096; ++mask) {
    std::string text;
    for (int bit = 0; bit < 12; ++bit) text += mask >> bit & 1 ? "\xe2\x96\x81" : " ";
    tokens.push_back(text);
  }
  file.remove("tokenizer.ggml.tokens");
  file.remove("tokenizer.ggml.token_type");
  file.remove("tokenizer.ggml.scores");
  file.add_string_array("tokenizer.ggml.tokens", tokens);
  file.add_f32_array("tokenizer.ggml.scores", std::vector<float>(tokens.size(), 0.0f));
  check_refused(file, Code::kBadFile, "collide");
}

TEST_CASE("without token kinds they follow from ids and spellings") {
  GgufBuilder file = sentence_piece();
  file.remove("tokenizer.ggml.token_type");
  LoadedTokenizer loaded;
  REQUIRE(load(file, &loaded).ok());
  CHECK(loaded.encode("abA</s>", true) == std::vector<TokenId>{4, 7, 3, 2});
  CHECK(loaded.tokenizer.kind_of(0) == TokenKind::kUnknown);
  CHECK(loaded.tokenizer.kind_of(1) == TokenKind::kControl);
}

TEST_CASE("random damage ends in an error or a working tokenizer") {
  test::Random random(3);
  for (const bool pieces : {false, true}) {
    const test::Bytes good = (pieces ? sentence_piece() : byte_pair()).build();
    int refused = 0;
    for (int i = 0; i < 2000; ++i) {
      test::Bytes bytes = good;
      for (int64_t flips = random.integer(1, 3); flips > 0; --flips) {
        bytes[static_cast<size_t>(random.integer(0, static_cast<int64_t>(bytes.size()) - 1))] =
            static_cast<uint8_t>(random.bits());
      }
      ExactBytes exact(bytes);
      LoadedTokenizer loaded;
      if (!loaded.parse(exact.data(), exact.size()).ok()) {
        ++refused;
        CHECK(last_failure().sentence[0] != '\0');
        continue;
      }
      CHECK(loaded.encode("ab c\xff<tool> abA<|end|></s>", true).size() < 100);
      for (TokenId id = 0; id < loaded.tokenizer.token_count(); ++id) loaded.tokenizer.piece(id, true);
    }
    CHECK(refused > 500);
  }
}

}  // namespace
}  // namespace ocellus
