// JPEGs of cameras, completed: whoever gets such a frame, a browser or a file, gets all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ocellus::app {

bool is_jpeg(const std::vector<uint8_t>& bytes);
// True if a JPEG begins somewhere in the bytes: a stream may start with an HTTP head, or inside a frame.
bool has_jpeg(const uint8_t* bytes, size_t count);

// Inserts the standard's Huffman tables before the first scan of a sequential JPEG that defines none before it. Leaves
// all other bytes unchanged. Returns true if the tables were inserted.
bool insert_huffman_tables(std::vector<uint8_t>* jpeg);

// Appends the end marker to a JPEG in one scan, as cameras write it, that lacks this alone, and returns true: then all
// of its picture decodes. Leaves other files unchanged, and in builds with stb_image all of them, as it does not tell
// what is missing.
bool append_end(std::vector<uint8_t>* jpeg);

}  // namespace ocellus::app
