// Regular expressions as grammars: what ECMA-262 (with the flag u), RE2 and Python's re have in common.
//
// Literals; \t \n \r \f \v \0 \xHH \uHHHH (pairs of surrogates, too) \u{H...}, any ASCII punctuation after a backslash;
// \d \w \s over ASCII, \D \W \S without what any dialect counts to the others; \p{L} and \P{L} for general categories
// (L, Lu, Nd, ...); `.` for all but the line ends of ECMA-262; classes; groups ( ) (?: ) (?<name> ) (?P<name> );
// alternatives; * + ? {n} {n,} {n,m}, lazy ones, too, which match the same texts. ^ \A and $ \z may stand at the edges
// of the pattern, of its top-level alternatives, and of a group that is such an alternative. Lookahead, (?= ) and
// (?! ), may stand where all that follows it is the end of the pattern, groups that are not repeated included.
// Everything else is refused: other lookaround, back-references, \b and \B, possessive quantifiers, atomic groups,
// flags, POSIX classes, and what these dialects read differently.
#pragma once

#include <string_view>

#include "platform/status.h"
#include "platform/views.h"
#include "runtime/branches/constrain/grammar/grammar.h"

namespace ocellus {

inline constexpr size_t kMaxRegexBytes = 65536;
inline constexpr int32_t kMaxRegexRepeat = 100000;
/// Groups nest at most this deep.
inline constexpr int kMaxRegexGroups = 100;
/// Maximum of \p{...} in a pattern, or in all those of a schema, each of which looks at all of Unicode.
inline constexpr int kMaxRegexCategories = 16;
/// Maximum of (?= ) and (?! ) in a pattern.
inline constexpr int kMaxRegexLooks = 16;

struct RegexOptions {
  /// Every character is written as inside a JSON string: `"` as \", `\` as \\, control characters as \n \t ... or
  /// \u00xx.
  bool in_json_string = false;
  /// A match anywhere in the text is enough, as for JSON Schema's `pattern`; else the whole text must match.
  bool searches = false;
  /// Number of \p{...} in the patterns before, to which this one's are added; null if it stands alone.
  int* categories = nullptr;
  /// Aligned to 8 bytes and free again afterwards; lookahead needs it.
  HostView<std::byte> workspace = {};
};

/// Adds the pattern to the grammar. kBadArgument for what is no regular expression, kUnsupported for what cannot be
/// written as a grammar or is larger than the limits above, with the byte and what to change; kFull after the grammar's
/// memory was spent.
Status read_regex(std::string_view pattern, const RegexOptions& options, Grammar* grammar, Expression* out);

}  // namespace ocellus
