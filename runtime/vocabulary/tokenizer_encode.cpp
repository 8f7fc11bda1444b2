#include <algorithm>

#include "runtime/vocabulary/tokenizer.h"
#include "runtime/vocabulary/tokenizer_merge.h"
#include "runtime/vocabulary/tokenizer_utf8.h"
#include "runtime/vocabulary/tokenizer_vocabulary.h"

namespace ocellus {
namespace {

constexpr int64_t kBytesPerTextByte = sizeof(Symbol) + sizeof(int32_t) + sizeof(char);

}  // namespace

/// One call of encode(): the text's workspace and the output.
class Encoder {
 public:
  /// `symbol_count`: bytes of the longest text to merge.
  Encoder(const Tokenizer& tokenizer, std::byte* workspace, int64_t symbol_count, TokenId* out, int64_t capacity)
      : tokenizer_(tokenizer),
        symbols_(reinterpret_cast<Symbol*>(workspace)),
        heap_(reinterpret_cast<int32_t*>(symbols_ + symbol_count)),
        spaced_text_(reinterpret_cast<char*>(heap_ + symbol_count)),
        out_(out),
        capacity_(capacity) {}

  int64_t count() const { return count_; }

  /// Encodes specials, and the stretches between them.
  Status encode(std::string_view text, bool parse_special, bool continues) {
    bool wants_prefix = !continues;
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      const TokenId special = tokenizer_.match_special(slice(text, at), parse_special);
      if (special == kNoToken) {
        ++at;
        continue;
      }
      OCELLUS_TRY(encode_between(slice(text, begin, at - begin), wants_prefix));
      OCELLUS_TRY(put(special));
      at += tokenizer_.text_of(special).size();
      begin = at;
      wants_prefix = true;
    }
    return encode_between(slice(text, begin), wants_prefix);
  }

 private:
  Status put(TokenId id) {
    if (count_ == capacity_) {
      return OCELLUS_FAIL(Code::kFull,
                          "the text has more than the %lld tokens there is room for: plan more text tokens",
                          static_cast<long long>(capacity_));
    }
    out_[count_++] = id;
    return {};
  }

  Status encode_between(std::string_view text, bool wants_prefix) {
    if (text.empty()) return {};
    if (tokenizer_.facts_.kind == VocabularyKind::kSentencePiece) return encode_by_score(text, wants_prefix);
    if (tokenizer_.facts_.kind == VocabularyKind::kSpacedPair) return encode_lines(text);
    while (!text.empty()) {
      const auto bytes = static_cast<size_t>(first_piece_bytes(tokenizer_.facts_.pre_tokenizer, text));
      OCELLUS_TRY(encode_by_rank(slice(text, 0, bytes)));
      text.remove_prefix(bytes);
    }
    return {};
  }

  // Byte-level BPE on one piece. A byte without a token does not merge and yields no id.
  Status encode_by_rank(std::string_view piece) {
    if (tokenizer_.facts_.ignore_merges) {
      if (const TokenId id = tokenizer_.find_normal(piece); id != kNoToken) return put(id);
    }
    const auto bytes = static_cast<int32_t>(piece.size());
    for (int32_t i = 0; i < bytes; ++i) {
      symbols_[i].previous = i - 1;
      symbols_[i].next = i + 1;
      symbols_[i].id = tokenizer_.byte_tokens_[static_cast<uint8_t>(piece[static_cast<size_t>(i)])];
    }
    merge_symbols(symbols_, bytes, heap_, [this](int32_t left, int32_t right) { return merge_of(left, right); });
    for (int32_t i = 0; i < bytes; i = symbols_[i].next) {
      if (symbols_[i].id != kNoToken) OCELLUS_TRY(put(symbols_[i].id));
    }
    return {};
  }

  PairMerge merge_of(int32_t left, int32_t right) const {
    const int32_t rank = tokenizer_.find_merge(symbols_[left].id, symbols_[right].id);
    return rank < 0 ? PairMerge{} : PairMerge{tokenizer_.merges_[rank].merged, static_cast<float>(rank)};
  }

  // Spaced BPE: runs of line breaks, which are tokens if there are such, and the lines between them, as llama.cpp does.
  Status encode_lines(std::string_view between) {
    std::string_view text = copy_spaced(between, false);
    while (!text.empty()) {
      const bool breaks = text[0] == '\n';
      const size_t end = breaks ? text.find_first_not_of('\n') : text.find('\n');
      const std::string_view part = slice(text, 0, std::min(end, text.size()));
      const TokenId run = breaks ? tokenizer_.find_normal(part) : kNoToken;
      OCELLUS_TRY(run != kNoToken ? put(run) : encode_line(part));
      text.remove_prefix(part.size());
    }
    return {};
  }

  Status encode_line(std::string_view line) {
    link_characters(line);
    merge_symbols(symbols_, static_cast<int32_t>(line.size()), heap_,
                  [this](int32_t left, int32_t right) { return merge_of(left, right); });
    return put_symbols(line);
  }

  // SentencePiece on the stretch between two specials.
  Status encode_by_score(std::string_view between, bool wants_prefix) {
    const std::string_view text = copy_spaced(between, wants_prefix && tokenizer_.facts_.add_space_prefix);
    link_characters(text);
    merge_symbols(symbols_, static_cast<int32_t>(text.size()), heap_, [this, text](int32_t left, int32_t right) {
      const auto begin = static_cast<size_t>(left);
      const auto end = static_cast<size_t>(symbols_[right].next);
      const TokenId merged = tokenizer_.find_normal(slice(text, begin, end - begin));
      return merged == kNoToken ? PairMerge{} : PairMerge{merged, -tokenizer_.scores_[merged]};
    });
    return put_symbols(text);
  }

  // Puts the tokens of merged characters, and the bytes of those that are no token.
  Status put_symbols(std::string_view text) {
    const auto bytes = static_cast<int32_t>(text.size());
    for (int32_t i = 0; i < bytes; i = symbols_[i].next) {
      if (symbols_[i].id != kNoToken) {
        OCELLUS_TRY(put(symbols_[i].id));
      } else {
        OCELLUS_TRY(put_bytes(slice(text, static_cast<size_t>(i), static_cast<size_t>(symbols_[i].next - i))));
      }
    }
    return {};
  }

  // Tokens are stored with plain spaces, so the text is converted to plain spaces, too.
  std::string_view copy_spaced(std::string_view text, bool with_prefix) {
    const int64_t prefix_bytes = with_prefix ? 1 : 0;
    spaced_text_[0] = ' ';
    const int64_t bytes = prefix_bytes + decode_spaces(text, spaced_text_ + prefix_bytes);
    return {spaced_text_, static_cast<size_t>(bytes)};
  }

  void link_characters(std::string_view text) {
    const auto bytes = static_cast<int32_t>(text.size());
    int32_t previous = -1;
    for (int32_t i = 0; i < bytes; i = symbols_[i].next) {
      int character_bytes = 0;
      decode_utf8(slice(text, static_cast<size_t>(i)), &character_bytes);
      const auto character = slice(text, static_cast<size_t>(i), static_cast<size_t>(character_bytes));
      symbols_[i].previous = previous;
      symbols_[i].next = i + character_bytes;
      symbols_[i].id = tokenizer_.find_normal(character);
      previous = i;
    }
  }

  // Encodes a character that the vocabulary lacks: as its bytes; as the unknown token if it lacks those, too; else as
  // nothing.
  Status put_bytes(std::string_view character) {
    bool all_known = true;
    for (const char c : character)
      all_known = all_known && tokenizer_.byte_tokens_[static_cast<uint8_t>(c)] != kNoToken;
    if (!all_known) return tokenizer_.facts_.unknown == kNoToken ? Status() : put(tokenizer_.facts_.unknown);
    for (const char c : character) OCELLUS_TRY(put(tokenizer_.byte_tokens_[static_cast<uint8_t>(c)]));
    return {};
  }

  const Tokenizer& tokenizer_;
  Symbol* symbols_;    // [symbol_count]
  int32_t* heap_;      // [symbol_count]
  char* spaced_text_;  // [symbol_count]
  TokenId* out_;
  int64_t capacity_;
  int64_t count_ = 0;
};

int64_t Tokenizer::workspace_bytes(int64_t text_bytes) {
  // One more byte for the space prefix; the rest is for aligning any pointer.
  const int64_t symbol_count = std::clamp<int64_t>(text_bytes, 0, kMaxTextBytes) + 1;
  return symbol_count * kBytesPerTextByte + static_cast<int64_t>(alignof(Symbol)) - 1;
}

Status Tokenizer::encode(std::string_view text, bool parse_special, std::byte* workspace, int64_t available_bytes,
                         TokenId* out, int64_t capacity, int64_t* count, bool continues) const {
  *count = 0;
  const auto text_bytes = static_cast<int64_t>(text.size());
  if (text_bytes > kMaxTextBytes) {
    return OCELLUS_FAIL(Code::kBadArgument, "the text has %lld bytes: at most %lld can be encoded at once",
                        static_cast<long long>(text_bytes), static_cast<long long>(kMaxTextBytes));
  }
  if (workspace_bytes(text_bytes) > available_bytes) {
    return OCELLUS_FAIL(Code::kFull, "the text has %lld bytes, more than the planned text room: plan more text tokens",
                        static_cast<long long>(text_bytes));
  }
  const auto misaligned = reinterpret_cast<uintptr_t>(workspace) % alignof(Symbol);
  std::byte* aligned = workspace + (misaligned == 0 ? 0 : alignof(Symbol) - misaligned);
  Encoder encoder(*this, aligned, text_bytes + 1, out, capacity);
  const Status status = encoder.encode(text, parse_special, continues);
  *count = encoder.count();
  return status;
}

}  // namespace ocellus
