// Tokenizer: text to token ids and back, with the vocabulary of a model file.
//
// Three kinds are implemented. Byte-level BPE ("gpt2" in files) splits text into pieces (pretokenize.h) and merges the
// bytes of a piece by rank. SentencePiece ("llama") merges the characters of a whole text by score. Spaced BPE
// ("gemma4") merges the characters of a line by rank, and spells them as SentencePiece does. All run on the same loop
// (tokenizer_merge.h) in O(n log n), whatever the text.
//
// Token texts are stored decoded: byte-level and "▁" spellings are converted once, when the tables are built. Input is
// bytes. Bytes that are not UTF-8 are never changed: to the pre-tokenizer each is a symbol of its own, and each becomes
// its byte token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "platform/arena.h"
#include "platform/status.h"
#include "quant/gguf.h"
#include "runtime/vocabulary/pretokenize.h"

namespace ocellus {

using TokenId = int32_t;
inline constexpr TokenId kNoToken = -1;

/// Limits of accepted vocabularies. Public ones stay below a quarter of each.
inline constexpr int64_t kMaxTokenCount = int64_t{1} << 22;
inline constexpr int64_t kMaxMergeCount = int64_t{1} << 23;  // ranks stay exact in float
inline constexpr int64_t kMaxTokenBytes = 1024;
inline constexpr int64_t kMaxTextBytes = int64_t{1} << 30;  // per text to encode

enum class VocabularyKind : uint8_t { kBytePair, kSentencePiece, kSpacedPair };

/// Values of tokenizer.ggml.token_type.
enum class TokenKind : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

/// Facts of a model file's vocabulary, read when the file is opened; nothing is copied yet.
struct VocabularyFacts {
  VocabularyKind kind = VocabularyKind::kBytePair;
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;  // byte pair only
  int32_t token_count = 0;
  int32_t merge_count = 0;    // not SentencePiece
  int32_t special_count = 0;  // control, user-defined and unknown tokens that have a text
  int64_t text_bytes = 0;     // all decoded token texts
  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId eot = kNoToken;
  TokenId eom = kNoToken;
  TokenId unknown = kNoToken;
  TokenId padding = kNoToken;
  bool add_bos = false;  // encode() adds neither: the prompt does, once, at its ends
  bool add_eos = false;
  bool add_space_prefix = false;  // SentencePiece: a text starts with a space, also after a special token
  bool renames_nul = false;       // internlm2: converters write the piece of byte 0 as U+1F409, a dragon
  bool ignore_merges = false;     // a piece that is a token is not merged

  bool merges_by_rank() const { return kind != VocabularyKind::kSentencePiece; }
  /// The first token of every prompt; kNoToken: none.
  TokenId start_token() const { return add_bos ? bos : kNoToken; }
};

/// Checks the vocabulary of `file` in full: types, lengths, ids below the token count, merges of known tokens,
/// hexadecimal byte tokens, unique token texts of 1 to kMaxTokenBytes bytes. kBadFile, or kUnsupported for a vocabulary
/// or pre-tokenizer that this build does not have.
Status read_vocabulary_facts(const GgufFile& file, VocabularyFacts* out);

class Tokenizer {
 public:
  /// Takes its tables from the sink (rows "vocabulary ...", Lifetime::kWeights) and fills them. While planning, when
  /// the sink returns nullptr, only sizes are reported. `facts` must come from the same file, which may be closed
  /// afterwards.
  Status build(const GgufFile& file, const VocabularyFacts& facts, RowSink& sink);

  const VocabularyFacts& facts() const { return facts_; }
  int32_t token_count() const { return facts_.token_count; }

  /// Workspace that encode() needs for a text of at most `text_bytes` bytes; any alignment.
  static int64_t workspace_bytes(int64_t text_bytes);

  /// Writes the ids of `text` to out[0, *count). Allocates nothing.
  /// parse_special: control tokens written out in the text become their ids; user-defined tokens always do. The longest
  ///   one wins if several start at one place.
  /// continues: the text follows other text directly, so it gets no space prefix of its own.
  /// kFull if the workspace or out is too small, kBadArgument for a text over kMaxTextBytes.
  Status encode(std::string_view text, bool parse_special, std::byte* workspace, int64_t workspace_bytes, TokenId* out,
                int64_t capacity, int64_t* count, bool continues = false) const;

  /// Finds the first control token that is written out in the text, at *at; kNoToken if there is none.
  TokenId find_control(std::string_view text, size_t* at) const;

  /// Returns the decoded bytes of a token: possibly part of a UTF-8 sequence, at most kMaxTokenBytes, valid as long as
  /// the tables. Empty for an id out of range and, unless show_special, for control, unknown and unused tokens.
  std::string_view piece(TokenId id, bool show_special) const;

  /// Returns the token whose decoded text is `token_text`, specials before others; kNoToken if absent.
  TokenId find(std::string_view token_text) const;

  /// True for the file's end tokens and for specials with a well-known end name (<|im_end|>, <end_of_utterance>, ...).
  bool is_end_of_generation(TokenId id) const;

  TokenKind kind_of(TokenId id) const { return static_cast<TokenKind>(kinds_[id] & kKindMask); }

 private:
  friend class Encoder;
  static constexpr uint8_t kKindMask = 0x0f;
  static constexpr uint8_t kEndsGeneration = 0x80;
  struct Merge {
    TokenId left, right, merged;
  };

  Status take_tables(RowSink& sink);
  void fill_texts(const GgufFile& file);
  void fill_specials();
  Status fill_text_slots();
  Status fill_merges(const GgufFile& file);

  std::string_view text_of(TokenId id) const {
    return {texts_ + offsets_[id], static_cast<size_t>(offsets_[id + 1] - offsets_[id])};
  }
  /// Returns the ordinary token with this text; kNoToken if absent.
  TokenId find_normal(std::string_view token_text) const;
  /// Returns the token of a byte-level spelling, as in merges; kNoToken if absent.
  TokenId find_spelled(std::string_view spelling) const;
  /// Returns the index (the rank) of this pair's merge; -1 if the pair does not merge.
  int32_t find_merge(TokenId left, TokenId right) const;
  /// Returns the longest special at the start of `text`, or kNoToken.
  TokenId match_special(std::string_view text, bool parse_special) const;

  VocabularyFacts facts_;
  char* texts_ = nullptr;           // [text_bytes]
  int32_t* offsets_ = nullptr;      // [token_count + 1]
  uint8_t* kinds_ = nullptr;        // [token_count] TokenKind, and kEndsGeneration
  int32_t* text_slots_ = nullptr;   // [text_slot_count] open addressing by text, id + 1, 0 = empty
  TokenId* specials_ = nullptr;     // [special_count] by text
  TokenId* byte_tokens_ = nullptr;  // [256] the token of one byte, kNoToken if there is none
  Merge* merges_ = nullptr;         // [merge_count] by rank
  int32_t* merge_slots_ = nullptr;  // [merge_slot_count] open addressing by pair, rank + 1, 0 = empty
  float* scores_ = nullptr;         // [token_count] SentencePiece
  int64_t text_slot_count_ = 0;     // powers of two
  int64_t merge_slot_count_ = 0;
  int64_t longest_normal_ = 0;     // bytes
  bool special_starts_[256] = {};  // by first byte of a text
};

/// Converts a stream of token pieces to whole UTF-8 characters: an incomplete sequence stays buffered until the next
/// piece, an invalid one is replaced by U+FFFD. Fixed size.
class Utf8Stream {
 public:
  /// Adds at most kMaxTokenBytes bytes (more are cut off); the result is valid until the next call.
  std::string_view push(std::string_view bytes);
  /// Ends the stream: an incomplete sequence becomes U+FFFD, and the stream is empty again.
  std::string_view finish();

 private:
  char pending_[4] = {};
  int pending_bytes_ = 0;
  char out_[3 * (kMaxTokenBytes + 4)];
};

}  // namespace ocellus
