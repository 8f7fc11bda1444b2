#include "tests/fuzz/zlib_writer.h"

#include <algorithm>
#include <array>

#include "tests/fuzz/byte_changes.h"

namespace ocellus::fuzz {
namespace {

constexpr int kEndOfBlock = 256;
constexpr int kLiteralCount = 286;
constexpr int kDistanceCount = 30;
constexpr std::array<int, 29> kLengthBase = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                             31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::array<int, 29> kLengthBits = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                             2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr int kMaxMatch = 257;  // 258 has a code of its own

class BitWriter {
 public:
  void bits(uint32_t value, int count) {
    for (int i = 0; i < count; ++i) {
      if (used_ == 0) bytes_.push_back(0);
      bytes_.back() = static_cast<uint8_t>(bytes_.back() | ((value >> i & 1) << used_));
      used_ = (used_ + 1) % 8;
    }
  }
  void code(uint32_t value, int count) {  // codes begin with their highest bit
    for (int i = count - 1; i >= 0; --i) bits(value >> i & 1, 1);
  }
  void align() { used_ = 0; }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
  int used_ = 0;  // bits of the last byte; 0: all of them
};

// The codes that belong to lengths, as RFC 1951 counts them out.
struct Codes {
  explicit Codes(std::vector<int> each) : lengths(std::move(each)), values(lengths.size()) {
    uint32_t next = 0;
    for (int length = 1; length <= 15; ++length) {
      for (size_t i = 0; i < lengths.size(); ++i)
        if (lengths[i] == length) values[i] = next++;
      next <<= 1;
    }
  }
  void write(BitWriter& out, int symbol) const {
    out.code(values[static_cast<size_t>(symbol)], lengths[static_cast<size_t>(symbol)]);
  }
  std::vector<int> lengths;
  std::vector<uint32_t> values;
};

std::vector<int> fixed_lengths() {
  std::vector<int> lengths(288, 8);
  std::fill(lengths.begin() + 144, lengths.begin() + 256, 9);
  std::fill(lengths.begin() + 256, lengths.begin() + 280, 7);
  return lengths;
}

// A complete code: one symbol's code after another is split in two until there are enough, short ones rather than long.
std::vector<int> split_lengths(size_t count, int most, Random& random) {
  std::vector<int> lengths = {1, 1};
  while (lengths.size() < count) {
    size_t at = pick_index(lengths.size(), random);
    for (int tries = 0; tries < 3; ++tries) {
      const size_t other = pick_index(lengths.size(), random);
      if (lengths[other] < lengths[at]) at = other;
    }
    if (lengths[at] >= most) continue;
    const int length = ++lengths[at];
    lengths.push_back(length);
  }
  return lengths;
}

void write_literals(const Bytes& data, size_t begin, size_t end, const Codes& literals, const Codes& distances,
                    Random& random, BitWriter& out) {
  const size_t stride = pick_index(200, random) + 1;  // distance between positions tried for repetitions
  for (size_t at = begin; at < end;) {
    size_t length = 0;
    const size_t distance = std::min(once_in(2, random) ? stride : size_t{1}, size_t{256});
    while (distance <= at && at + length < end && static_cast<int>(length) < kMaxMatch &&
           data[at + length] == data[at + length - distance])
      ++length;
    if (length < 3) {
      literals.write(out, data[at++]);
      continue;
    }
    const auto base = std::upper_bound(kLengthBase.begin(), kLengthBase.end(), static_cast<int>(length)) - 1;
    const auto index = base - kLengthBase.begin();
    literals.write(out, kEndOfBlock + 1 + static_cast<int>(index));
    out.bits(static_cast<uint32_t>(static_cast<int>(length) - *base), kLengthBits[static_cast<size_t>(index)]);
    int symbol = 0, first = 1, extra = 0;  // extra bits of the distance
    while (static_cast<int>(distance) >= first + (1 << extra)) {
      first += 1 << extra;
      extra = std::max(0, ++symbol / 2 - 1);
    }
    distances.write(out, symbol);
    out.bits(static_cast<uint32_t>(static_cast<int>(distance) - first), extra);
    at += length;
  }
  literals.write(out, kEndOfBlock);
}

void write_stored(const Bytes& data, size_t begin, size_t end, BitWriter& out) {
  const auto count = static_cast<uint32_t>(end - begin);
  out.bits(0, 2);
  out.align();
  out.bits(count, 16);
  out.bits(~count & 0xFFFF, 16);
  for (size_t at = begin; at < end; ++at) out.bits(data[at], 8);
}

void write_own_codes(const Bytes& data, size_t begin, size_t end, Random& random, BitWriter& out) {
  const Codes literals(split_lengths(kLiteralCount, 15, random));
  const Codes distances(split_lengths(kDistanceCount, 15, random));
  constexpr int kOrder[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  const Codes lengths(split_lengths(19, 7, random));
  out.bits(2, 2);
  out.bits(kLiteralCount - 257, 5);
  out.bits(kDistanceCount - 1, 5);
  out.bits(19 - 4, 4);
  for (const int symbol : kOrder) out.bits(static_cast<uint32_t>(lengths.lengths[static_cast<size_t>(symbol)]), 3);
  for (const int length : literals.lengths) lengths.write(out, length);
  for (const int length : distances.lengths) lengths.write(out, length);
  write_literals(data, begin, end, literals, distances, random, out);
}

}  // namespace

Bytes write_zlib(const Bytes& data, Random& random) {
  static const Codes fixed(fixed_lengths());
  static const Codes fixed_distances(std::vector<int>(30, 5));
  BitWriter out;
  out.bits(0x78, 8);
  out.bits(0x01, 8);
  size_t at = 0;
  do {
    const size_t most = std::min<size_t>(data.size() - at, 65535);
    const size_t count = most > 0 && once_in(2, random) ? pick_index(most, random) + 1 : most;
    out.bits(at + count == data.size() ? 1 : 0, 1);
    switch (random.integer(0, 2)) {
      case 0: write_stored(data, at, at + count, out); break;
      case 1:
        out.bits(1, 2);
        write_literals(data, at, at + count, fixed, fixed_distances, random, out);
        break;
      default: write_own_codes(data, at, at + count, random, out);
    }
    at += count;
  } while (at < data.size());
  uint32_t a = 1, b = 0;  // Adler-32
  for (const uint8_t byte : data) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  out.align();
  for (const uint32_t half : {b, a}) {
    out.bits(half >> 8, 8);
    out.bits(half & 255, 8);
  }
  return out.take();
}

}  // namespace ocellus::fuzz
