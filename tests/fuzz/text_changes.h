// Changes to texts that are made of known pieces.
#pragma once

#include "tests/fuzz/byte_changes.h"

namespace ocellus::fuzz {

/// Changes bytes after the first `kept`, or puts one of the pieces there, now and then very often.
template <class Pieces>
void change_pieces(Bytes& input, size_t kept, const Pieces& pieces, Random& random) {
  if (once_in(5, random)) return change_bytes(input, random);
  input.resize(std::max(input.size(), kept));
  const size_t at = kept + pick_index(input.size() - kept + 1, random);
  const std::string_view piece = pick(pieces, random);
  for (int64_t left = once_in(5, random) ? random.integer(2, 400) : 1; left > 0; --left)
    input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), piece.begin(), piece.end());
}

}  // namespace ocellus::fuzz
