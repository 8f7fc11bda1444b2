// Streams of frames: MJPEG in any cuts with the repair and decoding of what is found, and YUV4MPEG2.
#include <algorithm>
#include <memory>
#include <string>

#include "apps/base/failure.h"
#include "apps/camera/jpeg_repair.h"
#include "apps/camera/jpeg_splitter.h"
#include "apps/camera/picture_decode.h"
#include "apps/camera/stream_parser.h"
#include "tests/fuzz/byte_changes.h"
#include "tests/fuzz/picture_seeds.h"

namespace ocellus::fuzz {
namespace {

constexpr int64_t kMaxPixels = 1 << 14;

// A frame begins and ends as JPEG does, and if its headers are sound, its pixels have the size that they say.
void check_frame(const Bytes& bytes) {
  require(bytes.size() >= 4 && app::is_jpeg(bytes), "a frame begins as JPEG does");
  require(bytes[bytes.size() - 2] == 0xFF && bytes.back() == 0xD9, "a frame ends as JPEG does");
  app::Frame frame;
  frame.bytes = bytes;
  if (!app::finish_encoded(&frame).empty() || int64_t{frame.width} * frame.height > kMaxPixels) return;
  app::Picture picture;
  if (!app::decode_rgb(frame, &picture)) return;
  require(picture.width == frame.width && picture.height == frame.height, "pixels have the frame's size");
  require(picture.pixels.size() == size_t{3} * static_cast<size_t>(frame.width) * static_cast<size_t>(frame.height),
          "there are as many pixels as the size says");
}

// Returns the number of frames if the stream comes in pieces of this size; all of their bytes in *joined.
size_t split(const uint8_t* data, size_t size, size_t piece, Bytes* joined) {
  app::JpegSplitter splitter;
  Bytes frame;
  std::string what;
  size_t frames = 0;
  for (size_t at = 0; at < size; at += piece) {
    splitter.push(data + at, std::min(piece, size - at));
    require(splitter.held_bytes() <= size, "a splitter holds no more than it got");
    for (bool on = true; on;) {
      switch (splitter.next(&frame, &what)) {
        case app::JpegSplitter::kNeedMore: on = false; break;
        case app::JpegSplitter::kBroken: require(!what.empty(), "a broken frame has a sentence"); break;
        case app::JpegSplitter::kFrame:
          if (piece == size) check_frame(frame);
          joined->insert(joined->end(), frame.begin(), frame.end());
          ++frames;
          break;
      }
    }
  }
  splitter.finish();
  return frames;
}

bool run_mjpeg(const uint8_t* data, size_t size) {
  if (size == 0) return false;
  Bytes whole, cut;
  const size_t frames = split(data, size, size, &whole);
  require(frames == split(data, size, size_t{1} + data[size - 1], &cut) && whole == cut, "cuts make no difference");
  return frames > 0;
}

// Joins pictures as a camera sends them, with or without rubbish between.
std::vector<Bytes> make_mjpeg_seeds() {
  std::vector<Bytes> seeds = make_jpeg_seeds();
  Bytes all;
  for (const Bytes& one : seeds) {
    all.insert(all.end(), one.begin(), one.end());
    all.insert(all.end(), seeds.size(), '\n');
  }
  seeds.push_back(all);
  return seeds;
}

// Cuts, doubles and joins at markers, where the splitter decides.
void change_mjpeg(Bytes& input, Random& random) {
  std::vector<Bytes> pieces(1);
  for (const uint8_t byte : input) {
    if (byte == 0xFF) pieces.emplace_back();
    pieces.back().push_back(byte);
  }
  once_in(2, random) ? change_order(pieces, random) : change_bytes(pick(pieces, random), random);
  input.clear();
  for (const Bytes& piece : pieces) input.insert(input.end(), piece.begin(), piece.end());
}

std::vector<Bytes> make_y4m_seeds() {
  std::vector<Bytes> seeds;
  const struct {
    const char* head;
    size_t frame_bytes;
  } kinds[] = {{"YUV4MPEG2 W8 H6 F25:1 Ip A1:1 C420jpeg\n", 72},
               {"YUV4MPEG2 W8 H6 C422 F30000:1001\n", 96},
               {"YUV4MPEG2 H5 W7 C444 XYSCSS=444\n", 105},
               {"YUV4MPEG2 W4 H4 Cmono\n", 16},
               {"YUV4MPEG2 W7 H5\n", 59}};
  for (const auto& kind : kinds) {
    const std::string head = kind.head;
    Bytes stream(head.begin(), head.end());
    for (const std::string frame : {"FRAME\n", "FRAME Ip\n"}) {
      stream.insert(stream.end(), frame.begin(), frame.end());
      stream.insert(stream.end(), kind.frame_bytes, 100);
    }
    seeds.push_back(stream);
  }
  const std::string promise = "YUV4MPEG2 W8192 H8192 C444\nFRAME\n";  // a frame of 201 MB without data
  seeds.emplace_back(promise.begin(), promise.end());
  return seeds;
}

// Words of the head and of frames' heads.
void change_y4m(Bytes& input, Random& random) {
  constexpr const char* kWords[] = {" W0",       " W1",      " W-1",   " H99999999999999999999",
                                    " C420p10",  " Cmono",   " C411",  " It",
                                    " F0:0",     " F1:0",    " A0:0",  " X",
                                    "\nFRAME\n", "\n",       " W8192", " H8192",
                                    " C444",     " C422",    "FRAME",  " C420",
                                    " W2 H2 ",   "YUV4MPEG2"};
  if (once_in(3, random)) return change_bytes(input, random);
  const std::string word = pick(kWords, random);
  const size_t most = once_in(2, random) ? std::min<size_t>(input.size(), 60) : input.size();
  size_t at = pick_index(most + 1, random);
  while (at < most && input[at] != ' ' && input[at] != '\n') ++at;
  input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), word.begin(), word.end());
}

bool run_y4m(const uint8_t* data, size_t size) {
  const std::unique_ptr<app::StreamParser> parser = app::make_y4m_parser({});
  app::Frame frame;
  int64_t frames = 0;
  for (size_t at = 0; at < size || parser->pause();) {  // a first frame may wait for the next one
    const size_t taken = parser->take(data + at, size - at);
    require(taken <= size - at, "a parser takes what there is");
    require(taken > 0 || at == size, "a parser that needs bytes takes some");
    at += taken;
    const app::SourceEvent::Kind kind = parser->next(&frame).kind;
    if (kind == app::SourceEvent::kLost) return false;
    if (kind != app::SourceEvent::kFrame) continue;
    ++frames;
    app::Picture picture;
    require(app::decode_rgb(frame, &picture), "a raw frame has the bytes of its size");
    require(picture.width == frame.width && picture.height == frame.height, "pixels have the frame's size");
  }
  if (parser->is_ready()) require(!parser->describe().empty(), "a stream that is known can be described");
  parser->finish();
  return frames > 0;
}

const Registration kMjpeg({.name = "mjpeg", .make_seeds = make_mjpeg_seeds, .mutate = change_mjpeg, .run = run_mjpeg});
const Registration kY4m({.name = "y4m",
                         .make_seeds = make_y4m_seeds,
                         .mutate = change_y4m,
                         .run = run_y4m,
                         .most_bytes = 4096,
                         .most_heap_bytes = int64_t{1} << 20});

}  // namespace
}  // namespace ocellus::fuzz
