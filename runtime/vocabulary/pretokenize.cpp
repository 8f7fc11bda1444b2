#include "runtime/vocabulary/pretokenize.h"

#include <utf8proc.h>

#include "runtime/vocabulary/tokenizer_utf8.h"

namespace ocellus {
namespace {

// The classes \p{L}, \p{N}, \s and the rest.
enum class CharClass : uint8_t { kLetter, kNumber, kSpace, kOther };

bool is_white_space(int32_t code_point, utf8proc_category_t category) {
  return (code_point >= 0x09 && code_point <= 0x0d) || code_point == 0x85 || category == UTF8PROC_CATEGORY_ZS ||
         category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

CharClass classify(int32_t code_point) {
  if (code_point == kInvalidCodePoint) return CharClass::kOther;
  const utf8proc_category_t category = utf8proc_category(code_point);
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return CharClass::kLetter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) return CharClass::kNumber;
  return is_white_space(code_point, category) ? CharClass::kSpace : CharClass::kOther;
}

/// A position in the text and the character there. At the end there is no character.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) { read(); }

  bool at_end() const { return at_ == text_.size(); }
  int64_t at() const { return static_cast<int64_t>(at_); }
  bool is(char c) const { return !at_end() && code_point_ == c; }
  bool is(CharClass wanted) const { return !at_end() && class_ == wanted; }
  bool is_newline() const { return is('\r') || is('\n'); }
  /// Letters without case and marks are both: [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and [\p{Ll}\p{Lm}\p{Lo}\p{M}].
  bool is_capital() const { return is_word() && category() != UTF8PROC_CATEGORY_LL; }
  bool is_small() const {
    return is_word() && category() != UTF8PROC_CATEGORY_LU && category() != UTF8PROC_CATEGORY_LT;
  }
  int32_t code_point() const { return code_point_; }

  void advance() {
    at_ += static_cast<size_t>(bytes_);
    read();
  }
  void skip(CharClass skipped) {
    while (is(skipped)) advance();
  }

 private:
  utf8proc_category_t category() const { return utf8proc_category(code_point_); }
  bool is_word() const {
    return !at_end() && code_point_ != kInvalidCodePoint && category() >= UTF8PROC_CATEGORY_LU &&
           category() <= UTF8PROC_CATEGORY_ME;
  }
  void read() {
    if (at_end()) return;
    code_point_ = decode_utf8(slice(text_, at_), &bytes_);
    class_ = classify(code_point_);
  }

  std::string_view text_;
  size_t at_ = 0;
  int bytes_ = 0;
  int32_t code_point_ = 0;
  CharClass class_ = CharClass::kOther;
};

// Unicode case folding as far as the letters of contractions need it; U+017F is the long s.
int32_t fold_case(int32_t code_point) {
  if (code_point >= 'A' && code_point <= 'Z') return code_point - 'A' + 'a';
  return code_point == 0x17f ? 's' : code_point;
}

// 's|'t|'re|'ve|'m|'ll|'d ; 0 if the text starts with none of them.
int64_t match_contraction(Cursor cursor, bool ignore_case) {
  if (!cursor.is('\'')) return 0;
  cursor.advance();
  int32_t letters[2] = {};
  int64_t ends[2] = {};
  for (int i = 0; i < 2 && !cursor.at_end(); ++i) {
    letters[i] = ignore_case ? fold_case(cursor.code_point()) : cursor.code_point();
    cursor.advance();
    ends[i] = cursor.at();
  }
  const auto [first, second] = letters;
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return ends[0];
  const bool two =
      (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
  return two ? ends[1] : 0;
}

// s+(?!\S)|\s+ : the last space is left to the text after it, unless it is the only one or nothing follows.
// `cuts_digits`: a number was cut off beforehand, so nothing follows there either.
int64_t match_spaces(Cursor cursor, bool cuts_digits) {
  int64_t last = 0;
  while (cursor.is(CharClass::kSpace)) {
    last = cursor.at();
    cursor.advance();
  }
  const bool nothing_follows = cursor.at_end() || (cuts_digits && cursor.is(CharClass::kNumber));
  return nothing_follows || last == 0 ? cursor.at() : last;
}

//  ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+ ; 0 if none matches. `cuts_digits`: numbers are pieces of one character.
int64_t match_word(Cursor cursor, bool cuts_digits) {
  const bool spaced = cursor.is(' ');
  if (spaced) cursor.advance();
  if (cursor.at_end() || cursor.is(CharClass::kSpace)) return 0;
  if (cuts_digits && cursor.is(CharClass::kNumber)) {
    if (spaced) return 0;
    cursor.advance();
    return cursor.at();
  }
  for (const CharClass word : {CharClass::kLetter, CharClass::kNumber, CharClass::kOther}) {
    if (!cursor.is(word)) continue;
    cursor.skip(word);
    break;
  }
  return cursor.at();
}

// gpt-2:  's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)
// smollm: every \p{N} on its own, then gpt-2 on what lies between.
int64_t match_gpt2(std::string_view text, bool cuts_digits) {
  const Cursor start(text);
  if (const int64_t bytes = match_contraction(start, false); bytes > 0) return bytes;
  if (const int64_t bytes = match_word(start, cuts_digits); bytes > 0) return bytes;
  return match_spaces(start, cuts_digits);
}

// [^\r\n\p{L}\p{N}]?\p{L}+
int64_t match_led_letters(Cursor cursor) {
  if (cursor.is_newline() || cursor.is(CharClass::kNumber)) return 0;
  if (!cursor.is(CharClass::kLetter)) cursor.advance();
  if (!cursor.is(CharClass::kLetter)) return 0;
  cursor.skip(CharClass::kLetter);
  return cursor.at();
}

// \p{N}{1,most}
int64_t match_digits(Cursor cursor, int most) {
  for (int i = 0; i < most && cursor.is(CharClass::kNumber); ++i) cursor.advance();
  return cursor.at();
}

//  ?[^\s\p{L}\p{N}]+[\r\n]* , with slashes [\r\n/]*
int64_t match_symbols(Cursor cursor, bool with_slashes) {
  if (cursor.is(' ')) cursor.advance();
  if (!cursor.is(CharClass::kOther)) return 0;
  cursor.skip(CharClass::kOther);
  while (cursor.is_newline() || (with_slashes && cursor.is('/'))) cursor.advance();
  return cursor.at();
}

// \s*[\r\n]+ : up to the last line end of the white space.
int64_t match_lines(Cursor cursor) {
  int64_t end = 0;
  while (cursor.is(CharClass::kSpace)) {
    const bool newline = cursor.is_newline();
    cursor.advance();
    if (newline) end = cursor.at();
  }
  return end;
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,most}|
// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ with at most 1 digit for qwen2 and 3 for llama-bpe.
int64_t match_llama3(std::string_view text, int most_digits) {
  const Cursor start(text);
  if (const int64_t bytes = match_contraction(start, true); bytes > 0) return bytes;
  if (const int64_t bytes = match_led_letters(start); bytes > 0) return bytes;
  if (const int64_t bytes = match_digits(start, most_digits); bytes > 0) return bytes;
  if (const int64_t bytes = match_symbols(start, false); bytes > 0) return bytes;
  if (const int64_t bytes = match_lines(start); bytes > 0) return bytes;
  return match_spaces(start, false);
}

// C*s+ , c a capital and s a small letter: up to the last character that is small, of capitals that none follows.
int64_t match_small_end(Cursor cursor) {
  int64_t end = 0;
  while (cursor.is_capital()) {
    const bool small = cursor.is_small();
    cursor.advance();
    if (small) end = cursor.at();
  }
  while (cursor.is_small()) {
    cursor.advance();
    end = cursor.at();
  }
  return end;
}

// c+ , as no small letter follows.
int64_t match_capitals(Cursor cursor) {
  const int64_t start = cursor.at();
  while (cursor.is_capital()) cursor.advance();
  return cursor.at() > start ? cursor.at() : 0;
}

// [^\r\n\p{L}\p{N}]?c*s+|[^\r\n\p{L}\p{N}]?c+s* : a character that leads is left out if nothing matches after it.
int64_t match_cased_word(const Cursor start) {
  Cursor led = start;
  if (start.is(CharClass::kSpace) ? !start.is_newline() : start.is(CharClass::kOther)) led.advance();
  if (const int64_t bytes = match_small_end(led); bytes > 0) return bytes;
  if (const int64_t bytes = match_small_end(start); bytes > 0) return bytes;
  return match_capitals(led);
}

// The first two alternatives cut words by case, the others are those of llama3 with slashes after symbols.
int64_t match_tekken(std::string_view text) {
  const Cursor start(text);
  if (const int64_t bytes = match_cased_word(start); bytes > 0) return bytes;
  if (const int64_t bytes = match_digits(start, 1); bytes > 0) return bytes;
  if (const int64_t bytes = match_symbols(start, true); bytes > 0) return bytes;
  if (const int64_t bytes = match_lines(start); bytes > 0) return bytes;
  return match_spaces(start, false);
}

}  // namespace

int64_t first_piece_bytes(PreTokenizer pre_tokenizer, std::string_view text) {
  switch (pre_tokenizer) {
    case PreTokenizer::kGpt2: return match_gpt2(text, false);
    case PreTokenizer::kSmollm: return match_gpt2(text, true);
    case PreTokenizer::kQwen2: return match_llama3(text, 1);
    case PreTokenizer::kLlamaBpe: return match_llama3(text, 3);
    case PreTokenizer::kTekken: return match_tekken(text);
  }
  return static_cast<int64_t>(text.size());
}

}  // namespace ocellus
