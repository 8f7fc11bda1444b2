// TokenTrie: the texts of a vocabulary as a trie.
#pragma once

#include "kernels/sampling/sample_row.h"
#include "platform/arena.h"
#include "runtime/branches/constrain/grammar/byte_set.h"
#include "runtime/branches/constrain/grammar/byte_trie.h"
#include "runtime/branches/constrain/grammar/token_code.h"
#include "runtime/vocabulary/tokenizer.h"

namespace ocellus {

template <>
struct TypeName<ByteTrie::Node> {
  static constexpr const char* value = "node";
};

/// Tokens that an answer may consist of: all with a text but control, unknown and unused ones, and those with bytes
/// that no UTF-8 has.
class TokenTrie {
 public:
  /// Takes its tables from the sink and fills them; while planning, only sizes are reported. After the tokenizer's own,
  /// which it reads as long as it lives.
  Status build(const Tokenizer& tokenizer, RowSink& sink);

  const ByteTrie& trie() const { return trie_; }
  int32_t token(int32_t entry) const { return sorted_.data[entry]; }
  int32_t count() const { return count_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::string_view text(int32_t entry) const { return tokenizer_->piece(token(entry), false); }
  int64_t words() const { return mask_words(tokenizer_->token_count()); }
  /// Bytes that are the whole text of a token.
  const ByteSet& single_bytes() const { return single_bytes_; }
  /// Tokens that a grammar may name; see TokenCode.
  bool may_name(TokenId token) const {
    return token < TokenCode::kMostTokens && !tokenizer_->is_end_of_generation(token) &&
           !tokenizer_->piece(token, true).empty();
  }
  /// Tokens with which an answer ends.
  HostView<TokenId> ends() const { return {ends_.data, 1, end_count_}; }

 private:
  Status fill();

  static constexpr int64_t kNamedEnds = 3;  // a file names the ends of a sequence, a turn, a message

  const Tokenizer* tokenizer_ = nullptr;
  HostView<TokenId> sorted_;        // [1, V] by text
  HostView<ByteTrie::Node> nodes_;  // [1, bytes of all texts + 1]
  HostView<TokenId> ends_;
  ByteTrie trie_;
  ByteSet single_bytes_;
  int32_t count_ = 0;
  int64_t end_count_ = 0;
};

}  // namespace ocellus
