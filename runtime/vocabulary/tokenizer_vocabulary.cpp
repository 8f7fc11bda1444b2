#include "runtime/vocabulary/tokenizer_vocabulary.h"

#include <algorithm>
#include <cstring>

#include "platform/hex_digit.h"
#include "runtime/vocabulary/tokenizer_utf8.h"

namespace ocellus {
namespace {

constexpr std::string_view kSpaceSpelling = "\xe2\x96\x81";    // U+2581
constexpr std::string_view kNulSpelling = "\xf0\x9f\x90\x89";  // U+1F409

// Names of end-of-answer tokens in public model families.
constexpr std::string_view kEndNames[] = {
    "</s>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<|eos|>",
    "<eos>",
    "<EOT>",
    "<|return|>",
    "<turn|>",
    "<|tool_response>",  // after its calls a model waits for what they give back
};

// Marks around Gemma 4's tools, which files hold as control tokens or not: answers show them, and texts write them.
constexpr std::string_view kToolMarks[] = {
    "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", "<|\"|>",
};

template <size_t kCount>
bool is_one_of(std::string_view spelling, const std::string_view (&names)[kCount]) {
  return std::find(names, names + kCount, spelling) != names + kCount;
}

// True if byte-level BPE spells the byte as itself: printable Latin-1; the other 68 bytes are spelled, in order, as
// U+0100 and up (`bytes_to_unicode` of GPT-2).
constexpr bool is_shown_as_itself(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
}

int byte_of_code_point(int32_t code_point) {
  if (code_point >= 0 && code_point < 256) return is_shown_as_itself(code_point) ? code_point : -1;
  const int hidden = code_point - 256;
  if (hidden < 0 || hidden >= 68) return -1;
  if (hidden <= 32) return hidden;                  // 0..32
  return hidden == 67 ? 173 : 127 + (hidden - 33);  // 127..160, then the soft hyphen
}

// Returns -1 if a character is outside the alphabet; `out` is then incomplete.
int64_t decode_byte_level_text(std::string_view spelling, char* out) {
  int64_t count = 0;
  for (size_t at = 0; at < spelling.size(); ++count) {
    int bytes = 0;
    const int byte = byte_of_code_point(decode_utf8(slice(spelling, at), &bytes));
    if (byte < 0) return -1;
    if (out != nullptr) out[count] = static_cast<char>(byte);
    at += static_cast<size_t>(bytes);
  }
  return count;
}

const uint8_t* payload_of(const GgufEntry* entry) { return entry == nullptr ? nullptr : entry->payload; }

}  // namespace

SpelledTokens::SpelledTokens(const GgufFile& file, const VocabularyFacts& facts)
    : facts_(facts),
      spellings_(*file.find(vocabulary_key::kTokens)),
      kinds_(payload_of(file.find(vocabulary_key::kTokenKinds))) {}

SpelledToken SpelledTokens::next() {
  const TokenId id = id_++;
  SpelledToken token;
  token.spelling = spellings_.next();
  if (kinds_ != nullptr) {
    std::memcpy(&token.kind_number, kinds_ + int64_t{id} * 4, sizeof(token.kind_number));
  } else {
    token.kind_number = guess_kind(id, token.spelling);
  }
  if (facts_.renames_nul && token.kind() == TokenKind::kNormal && token.spelling == kNulSpelling)
    token.spelling = std::string_view("\0", 1);
  const bool is_control = token.kind() == TokenKind::kControl;
  if (is_control && facts_.kind == VocabularyKind::kSpacedPair && is_one_of(token.spelling, kToolMarks))
    token.kind_number = static_cast<int32_t>(TokenKind::kUserDefined);
  token.ends_generation = id == facts_.eos || id == facts_.eot || id == facts_.eom ||
                          (is_special_kind(token.kind()) && is_one_of(token.spelling, kEndNames));
  return token;
}

int32_t SpelledTokens::guess_kind(TokenId id, std::string_view spelling) const {
  TokenKind kind = TokenKind::kNormal;
  if (id == facts_.bos || id == facts_.eos || id == facts_.eot || id == facts_.eom || id == facts_.padding) {
    kind = TokenKind::kControl;
  } else if (id == facts_.unknown) {
    kind = TokenKind::kUnknown;
  } else if (facts_.kind != VocabularyKind::kBytePair && decode_byte_token(spelling) >= 0) {
    kind = TokenKind::kByte;
  } else if (is_one_of(spelling, kEndNames)) {
    kind = TokenKind::kControl;
  }
  return static_cast<int32_t>(kind);
}

int64_t decode_spaces(std::string_view spelling, char* out) {
  int64_t count = 0;
  for (size_t at = 0; at < spelling.size(); ++count) {
    const bool space = slice(spelling, at, kSpaceSpelling.size()) == kSpaceSpelling;
    if (out != nullptr) out[count] = space ? ' ' : spelling[at];
    at += space ? kSpaceSpelling.size() : 1;
  }
  return count;
}

int64_t decode_spelling(VocabularyKind vocabulary, TokenKind kind, std::string_view spelling, char* out) {
  if (kind == TokenKind::kByte) {
    if (out != nullptr) *out = static_cast<char>(decode_byte_token(spelling));
    return 1;
  }
  if (vocabulary == VocabularyKind::kBytePair && kind == TokenKind::kNormal) {
    if (const int64_t count = decode_byte_level_text(spelling, out); count >= 0) return count;
  }
  const bool spells_spaces = kind == TokenKind::kNormal || kind == TokenKind::kUserDefined;
  if (vocabulary != VocabularyKind::kBytePair && spells_spaces) return decode_spaces(spelling, out);
  if (out != nullptr && !spelling.empty()) std::memcpy(out, spelling.data(), spelling.size());
  return static_cast<int64_t>(spelling.size());
}

int decode_byte_level(std::string_view spelling) {
  if (spelling.empty()) return -1;
  int bytes = 0;
  const int32_t code_point = decode_utf8(spelling, &bytes);
  return static_cast<size_t>(bytes) == spelling.size() ? byte_of_code_point(code_point) : -1;
}

int decode_byte_token(std::string_view spelling) {
  if (spelling.size() != 6 || slice(spelling, 0, 3) != "<0x" || spelling[5] != '>') return -1;
  const int high = hex_digit(spelling[3]);
  const int low = hex_digit(spelling[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

bool split_merge(std::string_view merge, std::string_view* left, std::string_view* right) {
  const size_t space = merge.find(' ', 1);
  if (space == std::string_view::npos || space + 1 == merge.size()) return false;
  *left = slice(merge, 0, space);
  *right = slice(merge, space + 1);
  return true;
}

}  // namespace ocellus
