#include "runtime/branches/constrain/grammar/character_writer.h"

#include <cstring>

#include "platform/utf8.h"

namespace ocellus {
namespace {

constexpr uint32_t kFirstPlain = 0x20;  // control characters stand before it

/// The letter after the backslash; 0: none, and \u is written; -1: no backslash is needed.
int letter_of_escape(uint32_t character) {
  switch (character) {
    case '"':
    case '\\': return static_cast<int>(character);
    case '\b': return 'b';
    case '\f': return 'f';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return character < kFirstPlain ? 0 : -1;
  }
}

int digit_of(uint32_t value) { return "0123456789abcdef"[value % 16]; }

/// Characters of the set that are written with a backslash.
Expression write_escapes(const CharacterSet& set, Grammar* grammar) {
  ByteSet letters, low, high;  // low and high: last digits of \u000x and \u001x
  const auto sort = [&](uint32_t character) {
    const int letter = letter_of_escape(character);
    if (!set.has(character)) return;
    (letter > 0 ? letters : character < 0x10 ? low : high).add(letter > 0 ? letter : digit_of(character));
  };
  for (uint32_t c = 0; c < kFirstPlain; ++c) sort(c);
  sort('"');
  sort('\\');
  ExpressionList forms;
  if (!letters.empty()) grammar->append(&forms, grammar->byte(letters));
  if (!low.empty()) grammar->append(&forms, grammar->sequence(grammar->text("u000"), grammar->byte(low)));
  if (!high.empty()) grammar->append(&forms, grammar->sequence(grammar->text("u001"), grammar->byte(high)));
  return forms.count == 0 ? kNoExpression : grammar->sequence(grammar->text("\\"), grammar->choice(forms));
}

}  // namespace

WrittenCharacter::WrittenCharacter(uint32_t character, bool in_json_string) {
  const auto put = [this](int byte) { bytes_[count_++] = static_cast<char>(byte); };
  const int letter = in_json_string ? letter_of_escape(character) : -1;
  if (letter < 0) {
    count_ = encode_utf8(character, reinterpret_cast<uint8_t*>(bytes_));
    return;
  }
  put('\\');
  put(letter > 0 ? letter : 'u');
  if (letter > 0) return;
  put('0');
  put('0');
  put(digit_of(character / 16));
  put(digit_of(character));
}

Expression write_character_of(CharacterSet* set, bool in_json_string, Grammar* grammar) {
  Expression escapes = kNoExpression;
  if (in_json_string) {
    escapes = write_escapes(*set, grammar);
    set->remove(0, kFirstPlain - 1);
    set->remove('"', '"');
    set->remove('\\', '\\');
  }
  if (escapes != kNoExpression && set->count() == 0) return escapes;
  const Expression plain = grammar->character(set->ranges(), set->count());
  return escapes == kNoExpression ? plain : grammar->choice(escapes, plain);
}

void LiteralWriter::add(uint32_t character, ExpressionList* items) {
  const WrittenCharacter written(character, in_json_string_);
  if (sizeof bytes_ - count_ < written.text().size()) finish(items);
  std::memcpy(bytes_ + count_, written.text().data(), written.text().size());
  count_ += written.text().size();
}

void LiteralWriter::finish(ExpressionList* items) {
  if (count_ > 0) grammar_.append(items, grammar_.text({bytes_, count_}));
  count_ = 0;
}

}  // namespace ocellus
