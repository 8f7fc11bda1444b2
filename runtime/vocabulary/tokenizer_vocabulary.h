// How token texts are spelled in model files, for the two places that read them: checking and building.
#pragma once

#include <cstdint>
#include <string_view>

#include "quant/gguf.h"
#include "runtime/vocabulary/tokenizer.h"

namespace ocellus {

namespace vocabulary_key {
inline constexpr const char* kTokens = "tokenizer.ggml.tokens";
inline constexpr const char* kTokenKinds = "tokenizer.ggml.token_type";
inline constexpr const char* kScores = "tokenizer.ggml.scores";
inline constexpr const char* kMerges = "tokenizer.ggml.merges";
}  // namespace vocabulary_key

/// One token as the file has it.
struct SpelledToken {
  std::string_view spelling;
  int32_t kind_number = 0;  // as stored; a TokenKind once checked
  bool ends_generation = false;

  TokenKind kind() const { return static_cast<TokenKind>(kind_number); }
};

/// Walks the tokens of a file in order of their ids. Files without token kinds get them from the special ids and
/// from well-known spellings.
class SpelledTokens {
 public:
  /// `file` has the tokens array, and a kinds array of the same length or none.
  SpelledTokens(const GgufFile& file, const VocabularyFacts& facts);
  SpelledToken next();

 private:
  int32_t guess_kind(TokenId id, std::string_view spelling) const;

  const VocabularyFacts& facts_;
  GgufStrings spellings_;
  const uint8_t* kinds_;
  TokenId id_ = 0;
};

/// Control, user-defined and unknown tokens: found in the text as a whole before anything else is.
constexpr bool is_special_kind(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kUserDefined || kind == TokenKind::kUnknown;
}

/// Writes the text a reader sees, at most as long as the spelling, and returns its bytes. `out` may be null.
/// Ordinary byte-level tokens are mapped back to bytes; one with a character outside that alphabet stays as it is.
int64_t decode_spelling(VocabularyKind vocabulary, TokenKind kind, std::string_view spelling, char* out);

/// Copies a text with every U+2581, which SentencePiece writes for a space, made a space; returns its bytes. `out` has
/// room for the whole text, or is null.
int64_t decode_spaces(std::string_view spelling, char* out);

/// The byte that a byte-level spelling of one character stands for, or that `<0xNN>` names; -1 for anything else.
int decode_byte_level(std::string_view spelling);
int decode_byte_token(std::string_view spelling);

/// Cuts "left right" at the first space after its first character; false if a half would be empty.
bool split_merge(std::string_view merge, std::string_view* left, std::string_view* right);

}  // namespace ocellus
