// The splitter of JPEG streams on any bytes in any cuts, and the repair and decoding of what it finds. The build links
// it with replay.cpp, which only replays files. For a search, compile this file, apps/camera/{jpeg_splitter,
// huffman_tables,picture_decode,pixel_convert,frame}.cpp, apps/sizes.cpp and what the library is made of with
// clang++ -std=c++20 -O1 -g -I. -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
// (the sources with stb_image with -fwrapv -fno-sanitize=shift besides) and start from apps/samples.
#include <algorithm>
#include <cstdlib>

#include "apps/camera/jpeg_damage.h"
#include "apps/camera/jpeg_splitter.h"
#include "apps/camera/picture_decode.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// A frame begins and ends as JPEG does, and if its headers are sound, its pixels have the size that they say.
void check_frame(const std::vector<uint8_t>& bytes) {
  require(bytes.size() >= 4 && ocellus::app::is_jpeg(bytes));
  require(bytes[bytes.size() - 2] == 0xFF && bytes.back() == 0xD9);
  ocellus::app::Frame frame;
  frame.bytes = bytes;
  if (!ocellus::app::finish_encoded(&frame).empty() || int64_t{frame.width} * frame.height > 1 << 16) return;
  (void)ocellus::app::find_jpeg_damage(frame.bytes);
  ocellus::app::Picture picture;
  if (!ocellus::app::decode_rgb(frame, &picture)) return;
  require(picture.width == frame.width && picture.height == frame.height);
  require(picture.pixels.size() == size_t{3} * static_cast<size_t>(frame.width) * static_cast<size_t>(frame.height));
}

// How many frames come if the stream comes in pieces of this size; all of their bytes in *joined.
size_t split(const uint8_t* data, size_t size, size_t piece, std::vector<uint8_t>* joined) {
  ocellus::app::JpegSplitter splitter;
  std::vector<uint8_t> frame;
  std::string what;
  size_t frames = 0;
  for (size_t at = 0; at < size; at += piece) {
    splitter.push(data + at, std::min(piece, size - at));
    require(splitter.held_bytes() <= size);
    for (bool on = true; on;) {
      switch (splitter.next(&frame, &what)) {
        case ocellus::app::JpegSplitter::kNeedMore: on = false; break;
        case ocellus::app::JpegSplitter::kBroken: require(!what.empty()); break;
        case ocellus::app::JpegSplitter::kFrame:
          check_frame(frame);
          joined->insert(joined->end(), frame.begin(), frame.end());
          ++frames;
          break;
      }
    }
  }
  splitter.finish();
  return frames;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The cuts make no difference.
  std::vector<uint8_t> whole, cut;
  const size_t piece = size == 0 ? 1 : 1 + data[size - 1];
  require(split(data, size, std::max<size_t>(size, 1), &whole) == split(data, size, piece, &cut));
  require(whole == cut);
  return 0;
}
