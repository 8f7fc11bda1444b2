// The bytes after 0xFF in a JPEG (ITU-T T.81, table B.1), as far as they are told apart.
#pragma once

#include <cstdint>

namespace ocellus::jpeg {

enum Marker : uint8_t {
  kTem = 0x01,
  kSof0 = 0xC0,  // baseline
  kSof1 = 0xC1,  // extended sequential
  kSof2 = 0xC2,  // progressive
  kDht = 0xC4,
  kSof15 = 0xCF,
  kRst0 = 0xD0,
  kRst7 = 0xD7,
  kSoi = 0xD8,
  kEoi = 0xD9,
  kSos = 0xDA,
  kDqt = 0xDB,
  kDnl = 0xDC,
  kDri = 0xDD,
  kApp0 = 0xE0,
  kApp1 = 0xE1,
  kApp14 = 0xEE,
  kApp15 = 0xEF,
  kCom = 0xFE,
};

inline bool is_restart(int marker) { return marker >= kRst0 && marker <= kRst7; }

}  // namespace ocellus::jpeg
