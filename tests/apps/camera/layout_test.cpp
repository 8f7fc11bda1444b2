// Where rows lie in streams, and what their values mean: padding, colours, depth.
#include "apps/camera/frame_layout.h"
#include "apps/camera/picture_decode.h"
#include "tests/apps/camera/streams.h"

namespace ocellus::app {
namespace {

using test::Bytes;
using test::contains;
using test::milliseconds;
using test::operator+;
using test::raw;
using test::read_pipe;
using test::to_bytes;
using test::y4m_frame;

/// Planes of random bytes, with `layout`'s padding of other random bytes, and without.
struct Padded {
  Bytes stored, packed;
  Padded(const FrameLayout& layout, test::Random* random) {
    for (const PlaneLayout& plane : layout.planes) {
      for (int64_t row = 0; row < plane.stored_rows; ++row) {
        const Bytes bytes = random->bytes(plane.stride);
        stored = stored + bytes;
        if (row < plane.rows) packed.insert(packed.end(), bytes.begin(), bytes.begin() + plane.row_bytes);
      }
    }
  }
};

TEST_CASE("GStreamer's layouts are those of its files") {
  struct Seen {
    const char* format;
    int32_t width, height;
    int64_t frame_bytes;  // of `videotestsrc ! video/x-raw,format=...,width=...,height=... ! filesink`, 1.22.0
  };
  const Seen files[] = {
      {"i420", 854, 480, 616'320},   {"i420", 854, 481, 618'888},  {"i420", 853, 480, 616'320},
      {"i420", 850, 481, 616'960},   {"i420", 322, 480, 234'240},  {"i420", 321, 481, 235'216},
      {"i420", 848, 480, 610'560},   {"i420", 848, 481, 613'104},  {"nv12", 854, 480, 616'320},
      {"nv12", 850, 480, 613'440},   {"nv12", 322, 480, 233'280},  {"yuyv", 854, 480, 819'840},
      {"yuyv", 850, 480, 816'000},   {"yuyv", 322, 481, 309'764},  {"rgb", 854, 480, 1'230'720},
      {"bgr", 853, 480, 1'228'800},  {"rgb", 321, 481, 463'684},   {"bgra", 853, 480, 1'637'760},
      {"gray8", 854, 480, 410'880},  {"gray8", 321, 481, 155'844}, {"gray16", 853, 480, 819'840},
      {"gray16", 322, 481, 309'764}, {"i422", 850, 480, 819'840},  {"i422", 321, 481, 313'612},
      {"i444", 853, 480, 1'232'640}, {"i444", 322, 481, 467'532},
  };
  for (const Seen& seen : files) {
    CAPTURE(seen.format);
    CAPTURE(seen.width);
    CHECK(gstreamer_layout(find_raw_format(seen.format)->format, seen.width, seen.height).bytes() == seen.frame_bytes);
  }
}

TEST_CASE("a Y4M file of GStreamer, whose rows are padded, is read from its first frame on") {
  // videotestsrc pattern=smpte, 10 x 5, I420, y4menc, 1.22.0: luma in rows of 12 bytes and with a sixth row.
  const Bytes header = to_bytes("YUV4MPEG2 C420 W10 H5 Ip F30:1 A1:1\n");
  const Bytes luma = {0xeb, 0xd2, 0xaa, 0xaa, 0x91, 0x6a, 0x6a, 0x51, 0x29, 0x29, 0, 0};
  const Bytes ramp = {0x10, 0xeb, 0xeb, 0x10, 0x10, 0x10, 0x20, 0x10, 0xcd, 0x13, 0, 0};
  const Bytes chroma = {0x48, 0xa6, 0x80, 0x92, 0xf0, 0, 0, 0};
  const Bytes stored =
      luma + luma + luma + ramp + ramp + Bytes(12, 0) + chroma + chroma + chroma + chroma + chroma + chroma;
  Bytes packed;
  for (const Bytes& row : {luma, luma, luma, ramp, ramp}) packed.insert(packed.end(), row.begin(), row.end() - 2);
  for (int i = 0; i < 6; ++i) packed.insert(packed.end(), chroma.begin(), chroma.end() - 3);
  for (const int count : {1, 2, 5}) {
    CAPTURE(count);
    Bytes stream = header;
    for (int i = 0; i < count; ++i) stream = stream + y4m_frame(stored);
    std::vector<Frame> frames;
    const auto events = read_pipe({.name = "pipe"}, stream, &frames);
    CHECK(static_cast<int>(frames.size()) == count);
    CHECK(static_cast<int>(events.size()) == count + 1);
    for (const Frame& frame : frames) CHECK(frame.bytes == packed);
  }
}

TEST_CASE("the distance to the next frame of Y4M tells how its rows are padded") {
  test::Random random(7);
  const std::pair<const char*, int32_t> kinds[] = {
      {"C420", OCELLUS_I420}, {"C422", OCELLUS_I422}, {"C444", OCELLUS_I444}, {"Cmono", OCELLUS_GRAY8}};
  for (const auto& [name, format] : kinds) {
    for (const auto& [width, height] : {std::pair{21, 7}, {10, 4}, {2, 2}, {35, 9}}) {
      for (const int64_t alignment : {1, 4, 8, 16, 32, 64}) {
        for (const bool has_even_rows : {false, true}) {
          CAPTURE(name);
          CAPTURE(width);
          CAPTURE(alignment);
          CAPTURE(has_even_rows);
          const FrameLayout layout = aligned_layout(format, width, height, alignment, has_even_rows && alignment > 1);
          Bytes stream =
              to_bytes("YUV4MPEG2 W" + std::to_string(width) + " H" + std::to_string(height) + " " + name + "\n");
          std::vector<Bytes> packed;
          for (int i = 0; i < 3; ++i) {
            const Padded padded(layout, &random);
            stream = stream + y4m_frame(padded.stored, i == 1 ? " Ip" : "");
            packed.push_back(padded.packed);
          }
          std::vector<Frame> frames;
          const auto events = read_pipe({.name = "pipe"}, stream, &frames);
          REQUIRE(frames.size() == 3);
          CHECK(events.size() == 4);
          for (size_t i = 0; i < 3; ++i) CHECK(frames[i].bytes == packed[i]);
        }
      }
    }
  }
}

TEST_CASE("a first frame of Y4M does not wait for a second one that does not come") {
  test::Random random(8);
  for (const bool is_padded : {false, true}) {
    const auto layout = is_padded ? gstreamer_layout(OCELLUS_I420, 21, 7) : packed_layout(OCELLUS_I420, 21, 7);
    const Padded padded(layout, &random), second(layout, &random);
    test::Pipe pipe;
    StreamSource source({.name = "pipe"}, pipe.reader);
    pipe.write(to_bytes("YUV4MPEG2 W21 H7\n") + y4m_frame(padded.stored));
    Frame frame;
    CHECK(source.next(&frame, milliseconds(50)).kind == SourceEvent::kFrame);
    CHECK(frame.bytes == padded.packed);
    CHECK(source.next(&frame, milliseconds(10)).kind == SourceEvent::kTimeout);
    pipe.write(y4m_frame(second.stored));
    CHECK(source.next(&frame, milliseconds(50)).kind == SourceEvent::kFrame);
    CHECK(frame.bytes == second.packed);
    pipe.finish();
  }
}

TEST_CASE("Y4M whose frames have no known padding is refused in a sentence, frame by frame") {
  const Bytes stored = Bytes(21 * 7 + 2 * 11 * 4 + 5, 60);
  std::vector<Frame> frames;
  const auto events =
      read_pipe({.name = "pipe"},
                to_bytes("YUV4MPEG2 W21 H7\n") + y4m_frame(stored) + y4m_frame(stored) + Bytes(9000, 1), &frames);
  CHECK(frames.empty());
  REQUIRE(events.size() >= 2);
  CHECK(events[0].kind == SourceEvent::kBroken);
  CHECK_MESSAGE(contains(events[0].what, "21 x 7 pixels of 4:2:0 take, 235,"), events[0].what);
}

TEST_CASE("raw frames are read with the stride that is given") {
  test::Random random(9);
  struct Kind {
    const char *format, *stride;
    FrameLayout layout;
  };
  const Kind kinds[] = {
      {"nv12", "gstreamer", gstreamer_layout(OCELLUS_NV12, 34, 6)},
      {"i420", "gstreamer", gstreamer_layout(OCELLUS_I420, 34, 6)},
      {"rgb", "104", strided_layout(OCELLUS_RGB8, 34, 6, 104)},
      {"i420", "40", strided_layout(OCELLUS_I420, 34, 6, 40)},  // chroma: 20
      {"i420", "36,20", gstreamer_layout(OCELLUS_I420, 34, 6)},
      {"i420", "36,20,20", gstreamer_layout(OCELLUS_I420, 34, 6)},
      {"nv12", "64", aligned_layout(OCELLUS_NV12, 34, 6, 64)},
      {"gray", "34", packed_layout(OCELLUS_GRAY8, 34, 6)},
      {"gray16le", "72", strided_layout(OCELLUS_GRAY16, 34, 6, 72)},
  };
  for (const Kind& kind : kinds) {
    CAPTURE(kind.format);
    CAPTURE(kind.stride);
    const Padded first(kind.layout, &random), second(kind.layout, &random);
    std::vector<Frame> frames;
    SourceOptions options = raw(kind.format, 34, 6);
    options.stride = kind.stride;
    const auto events = read_pipe(options, first.stored + second.stored, &frames);
    REQUIRE(frames.size() == 2);
    CHECK(events.size() == 3);
    CHECK(frames[0].bytes == first.packed);
    CHECK(frames[1].bytes == second.packed);
  }
}

TEST_CASE("a stride that cannot be is refused, and one that is missing is named") {
  const auto refused = [](const std::string& format, const std::string& stride) {
    SourceOptions options = raw(format, 34, 6);
    options.stride = stride;
    return test::failure_of([&] {
      const test::Pipe pipe;
      const StreamSource source(options, pipe.reader);
    });
  };
  CHECK(contains(refused("nv12", "33"), "rows of 33 bytes, but those of 34 x 6 take 34"));
  CHECK(contains(refused("i420", "36,10"), "take 17 in plane 2"));
  CHECK(contains(refused("rgb", "104,4"), "has 2 numbers, but the format has 1 plane"));
  CHECK(contains(refused("rgb", "2000000"), "at most 1 MiB"));
  for (const char* text : {"wide", "-4", "0", "36,", "36,,20", "36;20", "99999999999999999999", " 36"}) {
    CAPTURE(text);
    CHECK(contains(refused("i420", text), "gstreamer or the bytes from one row to the next"));
  }
  for (const char* format : {"", "mjpeg", "y4m"}) CHECK(contains(refused(format, "36"), "of raw frames"));

  const test::TemporaryFolder folder;
  const std::string path = folder.file("f.raw");
  const auto padded = static_cast<size_t>(gstreamer_layout(OCELLUS_I420, 34, 6).bytes());
  test::write_whole(path, Bytes(3 * padded, 7));
  SourceOptions options = raw("i420", 34, 6);
  options.name = path;
  CHECK(contains(test::failure_of([&] { open_source(options); }), "add --stride gstreamer"));
  options.stride = "gstreamer";
  options.frames_per_second = 1000;
  std::vector<Frame> frames;
  test::collect(*open_source(options), &frames);
  CHECK(frames.size() == 3);
}

TEST_CASE("auto takes colours from the file's tags and from the habit of the tool that wrote it") {
  struct Choice {
    const char *color, *header;  // {H} stands for the height
    int32_t height, matrix;
    bool full_range;
  };
  const Choice choices[] = {
      // GStreamer 1.22.0: 62 or 63, 102, 240 for red above 576 lines.
      {"", "C420 W4 H{H} Ip F30:1 A1:1", 576, OCELLUS_BT601, false},
      {"auto", "C420 W4 H{H} Ip F30:1 A1:1", 577, OCELLUS_BT709, false},
      {"auto", "C422 W4 H{H} Ip F30:1 A1:1", 720, OCELLUS_BT709, false},
      {"auto", "C444 W4 H{H} Ip F30:1 A1:1", 2400, OCELLUS_BT709, false},
      {"bt601", "C420 W4 H{H} Ip F30:1 A1:1", 720, OCELLUS_BT601, false},
      {"bt601-full", "C420 W4 H{H} Ip F30:1 A1:1", 720, OCELLUS_BT601, true},
      // ffmpeg 5.1.9: 81, 90, 240 for red at any height.
      {"auto", "W4 H{H} F25:1 Ip A1:1 C420jpeg XYSCSS=420JPEG", 720, OCELLUS_BT601, false},
      {"auto", "W4 H{H} F25:1 Ip A1:1 C420jpeg XYSCSS=420JPEG XCOLORRANGE=LIMITED", 1080, OCELLUS_BT601, false},
      {"auto", "W4 H{H} F25:1 Ip A1:1 C420jpeg XYSCSS=420JPEG XCOLORRANGE=FULL", 720, OCELLUS_BT601, true},
      {"bt709", "W4 H{H} F25:1 Ip A1:1 C420jpeg XYSCSS=420JPEG XCOLORRANGE=FULL", 720, OCELLUS_BT709, true},
      // Others: vspipe and tools of Xiph begin with the kind of chroma, too.
      {"auto", "C420 W4 H{H} F30:1 Ip A0:0 XLENGTH=9", 720, OCELLUS_BT601, false},
      {"auto", "C420jpeg W4 H{H} F30:1 Ip A1:1", 720, OCELLUS_BT601, false},
  };
  for (const Choice& choice : choices) {
    CAPTURE(choice.header);
    std::string header = "YUV4MPEG2 " + std::string(choice.header) + "\n";
    header.replace(header.find("{H}"), 3, std::to_string(choice.height));
    const int64_t lines = choice.height;
    const int64_t chroma = contains(header, "C444")   ? 8 * lines
                           : contains(header, "C422") ? 4 * lines
                                                      : 4 * ((lines + 1) / 2);
    std::vector<Frame> frames;
    read_pipe({.name = "pipe", .color = choice.color},
              to_bytes(header) + y4m_frame(Bytes(static_cast<size_t>(4 * lines + chroma), 90)), &frames);
    REQUIRE(frames.size() == 1);
    CHECK(frames[0].color_matrix == choice.matrix);
    CHECK(frames[0].full_range == choice.full_range);
  }
  // Raw frames do not say who wrote them, but their stride may.
  for (const auto& [height, matrix] : {std::pair{576, OCELLUS_BT601}, {578, OCELLUS_BT709}}) {
    std::vector<Frame> frames;
    SourceOptions options = raw("nv12", 8, height);
    options.stride = "gstreamer";
    read_pipe(options, Bytes(static_cast<size_t>(12 * height), 90), &frames);
    options.stride = "";
    read_pipe(options, Bytes(static_cast<size_t>(12 * height), 90), &frames);
    options.stride = "gstreamer";
    options.color = "bt709-full";
    read_pipe(options, Bytes(static_cast<size_t>(12 * height), 90), &frames);
    REQUIRE(frames.size() == 3);
    CHECK(frames[0].color_matrix == matrix);
    CHECK(!frames[0].full_range);
    CHECK(frames[1].color_matrix == OCELLUS_BT601);
    CHECK(frames[2].color_matrix == OCELLUS_BT709);
    CHECK(frames[2].full_range);
  }
}

TEST_CASE("frames of 16 bits carry the depths that they are shown by") {
  SourceOptions options = raw("gray16le", 3, 2);
  const Bytes samples = {0, 0, 0xE8, 3, 0xD0, 7, 0xB8, 0x0B, 0xA0, 0x0F, 0x88, 0x13};  // 0, 1000, 2000 to 5000
  const auto shown = [&](DepthRange depth) {
    options.depth = depth;
    std::vector<Frame> frames;
    read_pipe(options, samples, &frames);
    REQUIRE(frames.size() == 1);
    Picture picture;
    REQUIRE(decode_rgb(frames[0], &picture));
    Bytes grey;
    for (size_t i = 0; i < picture.pixels.size(); i += 3) grey.push_back(picture.pixels[i]);
    return grey;
  };
  CHECK(shown({}) == Bytes{0, 3, 7, 11, 15, 19});
  CHECK(shown({1000, 5000}) == Bytes{0, 255, 191, 128, 64, 0});
  CHECK(shown({2000, 3000}) == Bytes{0, 255, 255, 0, 0, 0});
  options.depth = {300, 5000};
  for (const char* format : {"gray", "nv12", "mjpeg", "y4m"}) {
    CAPTURE(format);
    options.format = format;
    options.width = options.height = 4;
    CHECK(contains(test::failure_of([&] {
                     const test::Pipe pipe;
                     const StreamSource source(options, pipe.reader);
                   }),
                   "--depth-range is of frames of 16 bits"));
  }
}

TEST_CASE("a range of depths is two numbers of 16 bits, the nearer first") {
  for (const auto& [text, near, far] : {std::tuple{"300..5000", 300, 5000}, {"0..65535", 0, 65535}, {"7..8", 7, 8}}) {
    const DepthRange range = parse_depth_range(text);
    CHECK(range.near == near);
    CHECK(range.far == far);
  }
  for (const char* text : {"", "300", "300..", "..5000", "5000..300", "300..300", "-1..5", "0..65536", "0.3..5.0",
                           "a..b", "300..5000m", "300...5000", "300..5000..9", " 300..5000", "0..0", "300-5000"}) {
    CAPTURE(text);
    CHECK(contains(test::failure_of([&] { parse_depth_range(text); }), "--depth-range is NEAR..FAR"));
  }
}

}  // namespace
}  // namespace ocellus::app
