// The Huffman tables that JPEGs of cameras omit: USB's video class allows it.
#pragma once

#include <cstdint>

namespace ocellus {

/// A segment with the four tables of ITU-T T.81, annex K.3.
inline constexpr int32_t kHuffmanSegmentBytes = 420;
extern const uint8_t kHuffmanSegment[kHuffmanSegmentBytes];

/// Returns where the segment belongs in a sequential JPEG that defines no table before its first scan: the place of
/// that scan. -1 for all other files.
int64_t find_missing_tables(const uint8_t* bytes, int64_t size_bytes);

}  // namespace ocellus
