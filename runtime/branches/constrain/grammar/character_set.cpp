#include "runtime/branches/constrain/grammar/character_set.h"

#include <algorithm>

namespace ocellus {

void CharacterSet::add(uint32_t first, uint32_t last) {
  CharacterRange* const end = ranges_ + count_;
  CharacterRange* const begin =
      std::lower_bound(ranges_, end, first, [](const CharacterRange& r, uint32_t c) { return r.last + 1 < c; });
  CharacterRange* after = begin;  // ranges begin .. after meet the new one
  for (; after != end && after->first <= last + 1; ++after) {
    first = std::min(first, after->first);
    last = std::max(last, after->last);
  }
  if (after == begin) {
    if (count_ == kMaxRanges) {
      is_full_ = true;
      return;
    }
    std::copy_backward(begin, end, end + 1);
    ++count_;
  } else {
    std::copy(after, end, begin + 1);
    count_ -= static_cast<int32_t>(after - begin) - 1;
  }
  *begin = {first, last};
}

void CharacterSet::remove(uint32_t first, uint32_t last) {
  negate();
  add(first, last);
  negate();
}

void CharacterSet::negate() {
  uint32_t next = 0;  // first character after those seen
  int32_t count = 0;
  for (int32_t i = 0; i < count_; ++i) {
    const CharacterRange range = ranges_[i];
    if (range.first > next) ranges_[count++] = {next, range.first - 1};
    next = range.last + 1;
  }
  if (next <= kLastCharacter) ranges_[count++] = {next, kLastCharacter};
  count_ = std::min(count, kMaxRanges);
  is_full_ = is_full_ || count > kMaxRanges;
}

bool CharacterSet::has(uint32_t character) const {
  return std::any_of(ranges_, ranges_ + count_,
                     [=](const CharacterRange& r) { return r.first <= character && character <= r.last; });
}

}  // namespace ocellus
