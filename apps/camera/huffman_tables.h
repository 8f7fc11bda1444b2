// JPEG as cameras send it: USB's video class lets them leave out the Huffman tables.
#pragma once

#include <cstdint>
#include <vector>

namespace ocellus::app {

// Bytes of the segment with all four tables.
inline constexpr int32_t kHuffmanSegmentBytes = 420;

// Inserts the tables of JPEG's annex K.3 before the first scan of a sequential JPEG that defines none before it. Any
// other bytes stay as they are. Whether they were inserted.
bool insert_huffman_tables(std::vector<uint8_t>* jpeg);

}  // namespace ocellus::app
