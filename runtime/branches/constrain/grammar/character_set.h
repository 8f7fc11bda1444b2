// CharacterSet: some of Unicode's characters, as the classes of regular expressions and of GBNF name them.
#pragma once

#include <cstdint>

#include "runtime/branches/constrain/grammar/grammar.h"

namespace ocellus {

inline constexpr uint32_t kLastCharacter = 0x10FFFF;

/// Ranges in order that neither meet nor overlap.
class CharacterSet {
 public:
  static constexpr int32_t kMaxRanges = 1024;

  void clear() { count_ = 0, is_full_ = false; }
  /// first <= last <= kLastCharacter.
  void add(uint32_t first, uint32_t last);
  void remove(uint32_t first, uint32_t last);
  /// Makes it the characters that it had not.
  void negate();
  bool has(uint32_t character) const;
  /// More ranges were needed than there is room for, and the set is wrong.
  bool is_full() const { return is_full_; }

  const CharacterRange* ranges() const { return ranges_; }
  int32_t count() const { return count_; }

 private:
  CharacterRange ranges_[kMaxRanges + 1];  // one more while a range is taken out
  int32_t count_ = 0;
  bool is_full_ = false;
};

}  // namespace ocellus
