#include "runtime/branches/constrain/grammar/token_code.h"

namespace ocellus {

Expression add_token_code(Grammar& g, int32_t token, bool is_negated) {
  const Expression any = g.byte(TokenCode::digits());
  Expression rest = is_negated ? g.never() : g.text({});
  for (int place = TokenCode::kDigits; place-- > 0;) {
    const uint8_t digit = TokenCode::digit(token, place);
    rest = g.sequence(g.byte(ByteSet().add(digit)), rest);
    if (!is_negated) continue;
    ByteSet others;
    for (int byte = TokenCode::kFirstDigit; byte < TokenCode::kFirstDigit + TokenCode::kBase; ++byte)
      if (byte != digit) others.add(byte);
    const int32_t after = TokenCode::kDigits - 1 - place;
    rest = g.choice(rest, g.sequence(g.byte(others), g.repeat(any, after, after)));
  }
  return g.sequence(g.byte(ByteSet().add(TokenCode::kMark)), rest);
}

}  // namespace ocellus
