#include "apps/camera/jpeg_repair.h"

#include "apps/camera/picture_decode.h"
#include "apps/camera/picture_encode.h"
#include "mm/pictures/jpeg_markers.h"

namespace ocellus::app {
namespace {

using namespace jpeg;

#ifdef OCELLUS_HAS_JPEG
constexpr bool kTellsDamage = true;
#else
constexpr bool kTellsDamage = false;  // stb_image decodes what is there, and makes up the rest
#endif
constexpr int64_t kMaxBytePixels = 256;  // a block of 64 takes two bits or more

// Places of segments before the picture's data; 0: there is none.
struct Segments {
  size_t tables = 0, scan = 0;
  bool is_sequential = false;
};

Segments find_segments(const std::vector<uint8_t>& jpeg) {
  Segments found;
  for (size_t at = 2; at + 4 <= jpeg.size() && jpeg[at] == 0xFF;) {
    switch (jpeg[at + 1]) {
      case 0xFF: ++at; continue;  // padding
      case kSos: found.scan = at; return found;
      case kDht: found.tables = at; break;
      case kSof0:
      case kSof1: found.is_sequential = true; break;
      default: break;
    }
    at += 2 + static_cast<size_t>(jpeg[at + 2] << 8 | jpeg[at + 3]);
  }
  return found;
}

// The segment with the tables of ITU-T T.81, annex K.3, from a file of our own encoder: it uses no others.
std::vector<uint8_t> standard_tables() {
  const uint8_t pixel[3] = {};
  std::vector<uint8_t> file;
  encode_jpeg(pixel, 1, 1, 90, &file);
  const Segments found = find_segments(file);
  return {file.data() + found.tables, file.data() + found.scan};
}

}  // namespace

bool is_jpeg(const std::vector<uint8_t>& bytes) {
  return bytes.size() >= 3 && bytes[0] == 0xFF && bytes[1] == kSoi && bytes[2] == 0xFF;
}

bool has_jpeg(const uint8_t* bytes, size_t count) {
  // A start, a segment that may come first, and a marker after it: pixels hardly ever look so.
  for (size_t at = 0; at + 6 <= count; ++at) {
    if (bytes[at] != 0xFF || bytes[at + 1] != kSoi || bytes[at + 2] != 0xFF) continue;
    const uint8_t marker = bytes[at + 3];
    const bool is_first = marker == kDqt || marker == kDht || marker == kSof0 || marker == kDri || marker == kCom ||
                          (marker >= kApp0 && marker <= kApp15);
    const size_t next = at + 4 + static_cast<size_t>(bytes[at + 4] << 8 | bytes[at + 5]);
    if (is_first && next < count && bytes[next] == 0xFF) return true;
  }
  return false;
}

bool insert_huffman_tables(std::vector<uint8_t>* jpeg) {
  static const std::vector<uint8_t> tables = standard_tables();
  const Segments found = find_segments(*jpeg);
  if (found.scan == 0 || found.tables != 0 || !found.is_sequential) return false;
  jpeg->insert(jpeg->begin() + static_cast<std::ptrdiff_t>(found.scan), tables.begin(), tables.end());
  return true;
}

bool append_end(std::vector<uint8_t>* jpeg) {
  if (!kTellsDamage || !is_jpeg(*jpeg)) return false;
  Frame frame;
  frame.bytes.swap(*jpeg);
  frame.bytes.insert(frame.bytes.end(), {0xFF, kEoi});
  ocellus_image_facts facts;
  Picture picture;
  const int64_t count = std::ssize(frame.bytes);
  const bool is_whole = ocellus_image_probe(frame.bytes.data(), count, &facts) == OCELLUS_OK &&
                        facts.whole_pixels == 0 && int64_t{facts.width} * facts.height <= kMaxBytePixels * count &&
                        decode_rgb(frame, &picture);
  if (!is_whole) frame.bytes.resize(frame.bytes.size() - 2);
  jpeg->swap(frame.bytes);
  return is_whole;
}

}  // namespace ocellus::app
