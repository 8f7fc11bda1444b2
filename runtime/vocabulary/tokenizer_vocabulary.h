// Spellings of token texts in model files, used for checking and for building the tables.
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

/// One token as stored in the file.
struct SpelledToken {
  std::string_view spelling;
  int32_t kind_number = 0;  // as stored; a TokenKind once checked
  bool ends_generation = false;

  TokenKind kind() const { return static_cast<TokenKind>(kind_number); }
};

/// Iterates over the tokens of a file in order of their ids. In files without token kinds they follow from the special
/// ids and from well-known spellings.
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

/// True for control, user-defined and unknown tokens: they are matched in the text before anything else.
constexpr bool is_special_kind(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kUserDefined || kind == TokenKind::kUnknown;
}

/// Writes the decoded text, at most as long as the spelling, and returns its bytes. `out` may be null. Ordinary
/// byte-level tokens are mapped back to bytes; one with a character outside that alphabet stays unchanged.
int64_t decode_spelling(VocabularyKind vocabulary, TokenKind kind, std::string_view spelling, char* out);

/// Copies a text with every U+2581 (SentencePiece's space) replaced by a space; returns its bytes. `out` has room for
/// the whole text, or is null.
int64_t decode_spaces(std::string_view spelling, char* out);

/// Returns the byte of a byte-level spelling of one character, or of `<0xNN>`; -1 for anything else.
int decode_byte_level(std::string_view spelling);
int decode_byte_token(std::string_view spelling);

/// Splits "left right" at the first space after its first character; false if a half would be empty.
bool split_merge(std::string_view merge, std::string_view* left, std::string_view* right);

}  // namespace ocellus
