#include "apps/camera/huffman_tables.h"

#include "mm/pictures/huffman_tables.h"

namespace ocellus::app {

bool insert_huffman_tables(std::vector<uint8_t>* jpeg) {
  const int64_t place = find_missing_tables(jpeg->data(), std::ssize(*jpeg));
  if (place < 0) return false;
  jpeg->insert(jpeg->begin() + place, kHuffmanSegment, kHuffmanSegment + kHuffmanSegmentBytes);
  return true;
}

}  // namespace ocellus::app
