// Huffman tables for JPEGs of cameras: whoever gets such a frame, a browser or a file, gets it complete.
#pragma once

#include <cstdint>
#include <vector>

namespace ocellus::app {

// Inserts the library's tables before the first scan of a sequential JPEG that defines none before it. Leaves all other
// bytes unchanged. Returns true if the tables were inserted.
bool insert_huffman_tables(std::vector<uint8_t>* jpeg);

}  // namespace ocellus::app
