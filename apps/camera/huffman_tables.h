// Huffman tables for JPEGs of cameras: USB's video class allows to omit them.
#pragma once

#include <cstdint>
#include <vector>

namespace ocellus::app {

// Bytes of the segment with all four tables.
inline constexpr int32_t kHuffmanSegmentBytes = 420;

// Inserts the tables of JPEG's annex K.3 before the first scan of a sequential JPEG that defines none before it. Leaves
// all other bytes unchanged. Returns true if the tables were inserted.
bool insert_huffman_tables(std::vector<uint8_t>* jpeg);

}  // namespace ocellus::app
