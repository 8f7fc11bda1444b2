#include "runtime/branches/constrain/grammar/regex_escape.h"

#include <utf8proc.h>

#include "runtime/branches/constrain/grammar/regex.h"

namespace ocellus {
namespace {

constexpr CharacterRange kDigits[] = {{'0', '9'}};
constexpr CharacterRange kWord[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
constexpr CharacterRange kSpace[] = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
// Spaces of ECMA-262 and of Python's re.
constexpr CharacterRange kAnySpace[] = {{'\t', '\r'},     {0x1C, ' '},      {0x85, 0x85},     {0xA0, 0xA0},
                                        {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                        {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
constexpr uint32_t kFirstSurrogate = 0xD800, kFirstLowSurrogate = 0xDC00, kLastSurrogate = 0xDFFF;

template <size_t kCount>
void add_all(const CharacterRange (&ranges)[kCount], CharacterSet* set) {
  for (const CharacterRange& range : ranges) set->add(range.first, range.last);
}

/// Planes 4 to 13 have no characters yet, so that one of theirs stands for all.
constexpr uint32_t kFirstEmpty = 0x40000, kLastEmpty = 0xDFFFF;

/// Adds the characters of general categories: is_named(name) is asked for every two-letter name. False if it names
/// none.
template <class IsNamed>
bool add_categories(IsNamed is_named, bool is_negated, CharacterSet* set) {
  enum : uint8_t { kUnseen, kIsOther, kIsNamed };
  uint8_t categories[UTF8PROC_CATEGORY_CO + 1] = {};
  bool is_known = false, was_in = false;
  uint32_t begin = 0;  // first character of a range, if was_in
  for (uint32_t c = 0; c <= kLastCharacter; c = c == kFirstEmpty ? kLastEmpty + 1 : c + 1) {
    const auto code_point = static_cast<int32_t>(c);
    uint8_t& category = categories[utf8proc_category(code_point)];
    if (category == kUnseen) {
      category = is_named(std::string_view(utf8proc_category_string(code_point))) ? kIsNamed : kIsOther;
      is_known = is_known || category == kIsNamed;
    }
    const bool is_in = (category == kIsNamed) != is_negated;
    if (is_in && !was_in) begin = c;
    if (was_in && !is_in) set->add(begin, c - 1);
    was_in = is_in;
  }
  if (was_in) set->add(begin, kLastCharacter);
  return is_known;
}

/// Adds the characters of \d, \w or \s. Dialects differ outside ASCII, so that what is matched is what all of them
/// match: ASCII only where the characters are wanted, those of any dialect where they are left out.
void add_shorthand(char letter, bool is_wanted, CharacterSet* set) {
  if (letter == 's') return is_wanted ? add_all(kSpace, set) : add_all(kAnySpace, set);
  if (letter == 'd') add_all(kDigits, set);
  if (letter == 'w') add_all(kWord, set);
  if (is_wanted) return;
  const std::string_view majors = letter == 'w' ? "NLM" : "N";
  add_categories([=](std::string_view name) { return majors.find(name[0]) != std::string_view::npos; }, false, set);
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// \u with a pair of surrogates, \uHHHH or \u{H...}; the letter was taken.
bool take_unicode(TextCursor* text, uint32_t* out) {
  if (text->take('{')) {
    size_t digits = 0;
    while (digits < text->rest().size() && text->rest()[digits] != '}') ++digits;
    return digits > 0 && digits <= 8 && text->take_hexadecimal(digits, out) && text->take('}');
  }
  if (!text->take_hexadecimal(4, out)) return false;
  if (*out < kFirstSurrogate || *out >= kFirstLowSurrogate) return true;
  uint32_t low = 0;
  if (!text->take("\\u") || !text->take_hexadecimal(4, &low)) return false;
  if (low < kFirstLowSurrogate || low > kLastSurrogate) return false;
  *out = 0x10000 + ((*out - kFirstSurrogate) << 10) + (low - kFirstLowSurrogate);
  return true;
}

}  // namespace

bool RegexEscape::refuse(const char* sentence, Code code) {
  sentence_ = sentence;
  code_ = code;
  return false;
}

bool RegexEscape::read(TextCursor* text, EscapePlace place, CharacterSet* set) {
  is_set_ = false;
  text->take('\\');
  if (text->at_end())
    return refuse("the pattern ends after a backslash; write \\\\ for the character", Code::kBadArgument);
  const char c = text->rest()[0];
  if (static_cast<uint8_t>(c) <= ' ' || static_cast<uint8_t>(c) >= 0x7F)
    return refuse("it is no escape; remove the backslash", Code::kBadArgument);
  text->skip(1);
  if (c == 'x' || c == 'u' || (c >= '0' && c <= '9')) return read_number(text, c);
  if (c == 'p' || c == 'P') return read_category(text, c == 'P', set);
  if (is_letter(c)) return read_letter(c, place, set);
  character_ = static_cast<uint8_t>(c);
  return true;
}

bool RegexEscape::read_letter(char letter, EscapePlace place, CharacterSet* set) {
  const auto give = [this](uint32_t character) { return character_ = character, true; };
  switch (letter) {
    case 't': return give('\t');
    case 'n': return give('\n');
    case 'r': return give('\r');
    case 'f': return give('\f');
    case 'v': return give('\v');
    case 'd':
    case 'w':
    case 's':
    case 'D':
    case 'W':
    case 'S': return read_shorthand(letter, place == EscapePlace::kNegatedClass, set);
    case 'k': return refuse("back-references are not supported; repeat what the group matches");
    case 'b':
      if (place != EscapePlace::kAlone) return give('\b');
      [[fallthrough]];
    case 'B': return refuse("word boundaries are not supported; write the characters that may stand there");
    case 'A':
    case 'z': return refuse("\\A and \\z may only stand where the pattern or an alternative begins and ends");
    default: return refuse("it is no escape that is supported; remove the backslash or write \\u and four digits");
  }
}

bool RegexEscape::read_shorthand(char letter, bool in_negated_class, CharacterSet* set) {
  const bool is_negated = letter < 'a';
  const char positive = is_negated ? static_cast<char>(letter - 'A' + 'a') : letter;
  const bool is_wanted = is_negated == in_negated_class;
  if (!is_wanted && positive != 's' && !count_category()) return false;
  shorthands_ |= uint32_t{1} << ((positive == 'd' ? 0 : positive == 'w' ? 1 : 2) + (is_negated ? 8 : 0));
  CharacterSet members;
  add_shorthand(positive, is_wanted, &members);
  if (is_negated) members.negate();
  for (int32_t r = 0; r < members.count(); ++r) set->add(members.ranges()[r].first, members.ranges()[r].last);
  return is_set_ = true;
}

bool RegexEscape::read_number(TextCursor* text, char letter) {
  if (letter >= '1' && letter <= '9') return refuse("back-references are not supported; repeat what the group matches");
  character_ = 0;
  if (letter == '0') return !text->is_digit() || refuse("octal numbers are not supported; write \\x and two digits");
  if (letter == 'x')
    return text->take_hexadecimal(2, &character_) || refuse("\\x needs two hexadecimal digits", Code::kBadArgument);
  if (!take_unicode(text, &character_) || character_ > kLastCharacter ||
      (character_ >= kFirstSurrogate && character_ <= kLastSurrogate))
    return refuse("\\u needs four hexadecimal digits, two such halves of a pair, or {10FFFF} at most",
                  Code::kBadArgument);
  return true;
}

bool RegexEscape::count_category() {
  return ++categories_ <= kMaxRegexCategories || refuse("there are more than 16 of \\p, \\P, \\D and \\W");
}

bool RegexEscape::read_category(TextCursor* text, bool is_negated, CharacterSet* set) {
  const std::string_view name = text->take('{') ? text->rest().substr(0, text->rest().find('}')) : "";
  if (name.empty() || name.size() > 2)
    return refuse("only general categories in braces are supported, as in \\p{L} and \\p{Lu}");
  if (!count_category()) return false;
  if (!add_categories([=](std::string_view category) { return category.starts_with(name); }, is_negated, set))
    return refuse("it is no general category of Unicode", Code::kBadArgument);
  text->skip(name.size());
  if (!text->take('}')) return refuse("\\p{ is not closed", Code::kBadArgument);
  return is_set_ = true;
}

}  // namespace ocellus
