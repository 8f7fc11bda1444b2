#include "tests/fuzz/byte_changes.h"

#include <cstring>

namespace ocellus::fuzz {
namespace {

constexpr int64_t kMaxPiece = 32;

// A place in the bytes and how many to take from there, neither beyond the end.
struct Piece {
  size_t begin, count;
};
Piece pick_piece(const Bytes& bytes, Random& random) {
  const size_t begin = pick_index(bytes.size(), random);
  const auto count = static_cast<size_t>(random.integer(1, kMaxPiece));
  return {begin, std::min(count, bytes.size() - begin)};
}

}  // namespace

uint64_t odd_number(Random& random) {
  const uint64_t power = uint64_t{1} << random.integer(0, 63);
  switch (random.integer(0, 7)) {
    case 0: return 0;
    case 1: return ~uint64_t{0};
    case 2: return power;
    case 3: return power - 1;
    case 4: return ~power;
    case 5: return static_cast<uint64_t>(random.integer(0, 16));
    case 6: return static_cast<uint64_t>(random.integer(0, 4096));
    default: return random.bits();
  }
}

void change_bytes(Bytes& bytes, Random& random) {
  if (bytes.empty()) bytes.push_back(static_cast<uint8_t>(random.bits()));
  const auto at = [&](size_t index) { return bytes.begin() + static_cast<std::ptrdiff_t>(index); };
  const Piece piece = pick_piece(bytes, random);
  const Bytes copy(at(piece.begin), at(piece.begin + piece.count));
  switch (random.integer(0, 7)) {
    case 0: bytes[piece.begin] ^= static_cast<uint8_t>(1u << random.integer(0, 7)); break;
    case 1: bytes[piece.begin] = static_cast<uint8_t>(random.bits()); break;
    case 2: {
      const uint64_t number = odd_number(random);
      std::memcpy(&bytes[piece.begin], &number, std::min<size_t>(piece.count, sizeof number));
      break;
    }
    case 3: bytes.erase(at(piece.begin), at(piece.begin + piece.count)); break;
    case 4: bytes.insert(at(pick_index(bytes.size(), random)), copy.begin(), copy.end()); break;
    case 5: {
      const Bytes noise = random.bytes(static_cast<int64_t>(piece.count));
      bytes.insert(at(piece.begin), noise.begin(), noise.end());
      break;
    }
    case 6: bytes.resize(piece.begin); break;
    default: std::copy_n(copy.begin(), piece.count, at(pick_index(bytes.size() - piece.count + 1, random)));
  }
}

}  // namespace ocellus::fuzz
