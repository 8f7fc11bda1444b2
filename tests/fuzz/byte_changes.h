// Changes to bytes that know nothing of their form, and what the changes that do are made of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "tests/fuzz/fuzz_target.h"

namespace ocellus::fuzz {

/// Once in `of` times.
inline bool once_in(int64_t of, Random& random) { return random.integer(1, of) == 1; }

/// An index below `count`, which is not 0.
inline size_t pick_index(size_t count, Random& random) { return static_cast<size_t>(random.bits() % count); }

template <class Items>
auto& pick(Items& items, Random& random) {
  return *std::next(std::begin(items), static_cast<std::ptrdiff_t>(pick_index(std::size(items), random)));
}

/// Numbers at which arithmetic goes wrong: zero, all ones, powers of two and their neighbours, and any other.
uint64_t odd_number(Random& random);

/// Flips, overwrites, inserts, removes, repeats or moves some bytes.
void change_bytes(Bytes& bytes, Random& random);

/// Removes, doubles or moves one of the items; does nothing where there are none.
template <class Items>
void change_order(Items& items, Random& random) {
  if (items.empty()) return;
  const auto at = [&](size_t index) { return items.begin() + static_cast<std::ptrdiff_t>(index); };
  const size_t from = pick_index(items.size(), random);
  switch (random.integer(0, 2)) {
    case 0: items.erase(at(from)); break;
    case 1: {
      const auto copy = items[from];
      items.insert(at(pick_index(items.size() + 1, random)), copy);
      break;
    }
    default: std::swap(items[from], items[pick_index(items.size(), random)]);
  }
}

}  // namespace ocellus::fuzz
