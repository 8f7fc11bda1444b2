// Frames from pipes and files: motion JPEG, Y4M and raw.
#include "apps/camera/picture_decode.h"
#include "apps/camera/stream_source.h"
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

TEST_CASE("raw frames come from a pipe as they are") {
  struct Kind {
    const char* name;
    int32_t format;
    int64_t bytes;
  };
  const Kind kinds[] = {
      {"nv12", OCELLUS_NV12, 1200},    {"yuyv422", OCELLUS_YUYV, 1600},   {"yuyv", OCELLUS_YUYV, 1600},
      {"yuv420p", OCELLUS_I420, 1200}, {"i420", OCELLUS_I420, 1200},      {"rgb24", OCELLUS_RGB8, 2400},
      {"bgr24", OCELLUS_BGR8, 2400},   {"bgr", OCELLUS_BGR8, 2400},       {"rgba", OCELLUS_RGBA8, 3200},
      {"bgra", OCELLUS_BGRA8, 3200},   {"gray", OCELLUS_GRAY8, 800},      {"yuv422p", OCELLUS_I422, 1600},
      {"i444", OCELLUS_I444, 2400},    {"gray16le", OCELLUS_GRAY16, 1600}};
  for (const Kind& kind : kinds) {
    CAPTURE(kind.name);
    test::Random random(3);
    const Bytes stream = random.bytes(5 * kind.bytes);
    std::vector<Frame> frames;
    const auto events = read_pipe(raw(kind.name, 40, 20), stream, &frames);
    REQUIRE(frames.size() == 5);
    CHECK(events.back().kind == SourceEvent::kEnd);
    Bytes joined;
    for (const Frame& frame : frames) {
      CHECK(frame.kind == FrameKind::kPixels);
      CHECK(frame.pixel_format == kind.format);
      CHECK(frame.width == 40);
      CHECK(frame.height == 20);
      CHECK(frame.captured_ns > 0);
      CHECK(frame.time_ns() == frame.captured_ns);
      joined = joined + frame.bytes;
    }
    CHECK(joined == stream);
  }
}

TEST_CASE("a last frame that is cut short is broken, and then the pipe has ended") {
  std::vector<Frame> frames;
  const auto events = read_pipe(raw("gray", 10, 10), Bytes(250, 7), &frames);
  REQUIRE(events.size() == 4);
  CHECK(frames.size() == 2);
  CHECK(events[2].kind == SourceEvent::kBroken);
  CHECK(contains(events[2].what, "cut short"));
  CHECK(events[3].kind == SourceEvent::kEnd);
  const Bytes jpeg = test::scene_jpeg(64, 48, 1);
  const Bytes half(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(jpeg.size() / 2));
  const auto cut = read_pipe({.name = "pipe"}, jpeg + half, nullptr);
  REQUIRE(cut.size() == 3);
  CHECK(cut[0].kind == SourceEvent::kFrame);
  CHECK(cut[1].kind == SourceEvent::kBroken);
  CHECK(cut[2].kind == SourceEvent::kEnd);
}

TEST_CASE("a pipe that stalls in the middle of a frame is a timeout, and the frame comes whole later") {
  test::Pipe pipe;
  StreamSource source(raw("gray", 100, 100), pipe.reader);
  Frame frame;
  for (uint8_t value = 1; value <= 3; ++value) {
    for (int part = 0; part < 10; ++part) {
      const auto begin = std::chrono::steady_clock::now();
      CHECK(source.next(&frame, milliseconds(5)).kind == SourceEvent::kTimeout);
      CHECK(std::chrono::steady_clock::now() - begin >= milliseconds(4));
      pipe.write(Bytes(1000, value));
    }
    CHECK(source.next(&frame, milliseconds(1000)).kind == SourceEvent::kFrame);
    CHECK(frame.bytes == Bytes(10000, value));
  }
  pipe.finish();
  CHECK(source.next(&frame, milliseconds(1000)).kind == SourceEvent::kEnd);
  CHECK(source.next(&frame, milliseconds(1000)).kind == SourceEvent::kEnd);
}

TEST_CASE("bytes that flow without making a frame do not hold up the caller") {
  test::Pipe pipe;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    const Bytes nothing(60'000, 0);
    pipe.write({'-', '-'});
    while (!stop) pipe.write(nothing);
    pipe.finish();
  });
  {
    StreamSource source({.name = "pipe", .format = "mjpeg"}, pipe.reader);
    Frame frame;
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      const SourceEvent event = source.next(&frame, milliseconds(50));
      CHECK((event.kind == SourceEvent::kTimeout || event.kind == SourceEvent::kBroken));
      CHECK(std::chrono::steady_clock::now() - begin < milliseconds(1500));
    }
    stop = true;
    CHECK(test::collect(source, nullptr).back().kind == SourceEvent::kEnd);
  }
  writer.join();
}

TEST_CASE("motion JPEG is known by its first bytes, even if they come one by one") {
  const Bytes jpeg = test::scene_jpeg(64, 48, 1), other = test::scene_jpeg(96, 64, 2);
  const Bytes header = to_bytes("--frame\r\nContent-Type: image/jpeg\r\n\r\n"), end = to_bytes("\r\n");
  for (const Bytes& stream : {jpeg + other, header + jpeg + end + header + test::strip_tables(other) + end}) {
    test::Pipe pipe;
    StreamSource source({.name = "pipe"}, pipe.reader);
    Frame frame;
    for (size_t i = 0; i < 20; ++i) {
      pipe.write({stream[i]});
      CHECK(source.next(&frame, milliseconds(0)).kind == SourceEvent::kTimeout);
    }
    pipe.write(Bytes(stream.begin() + 20, stream.end()));
    pipe.finish();
    std::vector<Frame> frames;
    test::collect(source, &frames);
    REQUIRE(frames.size() == 2);
    CHECK(frames[0].bytes == jpeg);
    CHECK(frames[1].width == 96);
    Picture picture;
    CHECK(decode_rgb(frames[1], &picture));
    CHECK(contains(source.describe(), "96 x 64 mjpeg from a pipe"));
  }
}

TEST_CASE("motion JPEG may begin anywhere") {
  const Bytes one = test::scene_jpeg(64, 48, 1), two = test::scene_jpeg(96, 64, 2);
  Bytes noise = test::Random(3).bytes(1'500'000);  // the middle of a large frame
  for (uint8_t& byte : noise) byte = byte == 0xFF ? 0 : byte;
  const std::string part = "--123\r\nContent-Type: image/jpeg\r\nContent-Length: 1373\r\n\r\n";
  const std::string head = "HTTP/1.0 200 OK\r\nContent-Type: multipart/x-mixed-replace;boundary=123\r\n\r\n";
  for (const Bytes& start : {to_bytes(head + part), to_bytes("\r\n\r\n\r\n" + part), to_bytes(part.substr(7)),
                             Bytes(one.begin() + 700, one.end()), noise, Bytes(40, 0)}) {
    CAPTURE(start.size());
    std::vector<Frame> frames;
    const auto events = read_pipe({.name = "pipe"}, start + one + to_bytes("\r\n" + part) + two, &frames);
    REQUIRE(frames.size() == 2);
    CHECK(frames[0].bytes == one);
    CHECK(frames[1].bytes == two);
    CHECK(events.back().kind == SourceEvent::kEnd);
    const test::TemporaryFolder folder;
    test::write_whole(folder.file("stream"), start + one + two);
    frames.clear();
    test::collect(*open_source({.name = folder.file("stream"), .paced = false}), &frames);
    CHECK(frames.size() == 2);
  }
  const auto refused = read_pipe({.name = "pipe"}, to_bytes("HTTP/1.1 401 Unauthorized\r\nServer: x\r\n\r\n"), nullptr);
  CHECK(contains(refused.back().what, "answers \"HTTP/1.1 401 Unauthorized\" instead of a stream"));
  CHECK(contains(read_pipe({.name = "pipe"}, Bytes(5'000'000, 7), nullptr).back().what, "neither motion JPEG nor Y4M"));
}

#ifdef OCELLUS_HAS_JPEG  // stb_image does not tell which frames lack their end marker alone
TEST_CASE("frames without end markers come from a pipe, the last one once it pauses") {
  const Bytes one = test::scene_jpeg(64, 48, 1), two = test::scene_jpeg(96, 64, 2);
  test::Pipe pipe;
  StreamSource source({.name = "pipe"}, pipe.reader);
  pipe.write(Bytes(one.begin(), one.end() - 2) + Bytes(two.begin(), two.end() - 2));
  Frame frame;
  REQUIRE(source.next(&frame, milliseconds(1000)).kind == SourceEvent::kFrame);
  CHECK(frame.bytes == one);
  SourceEvent event;
  CHECK(
      test::comes_true([&] { return (event = source.next(&frame, milliseconds(50))).kind != SourceEvent::kTimeout; }));
  CHECK(event.kind == SourceEvent::kFrame);
  CHECK(frame.bytes == two);
  pipe.finish();
  CHECK(source.next(&frame, milliseconds(1000)).kind == SourceEvent::kEnd);
}
#endif

TEST_CASE("what cannot be read is refused in a sentence") {
  const auto wrong = read_pipe({.name = "pipe"}, to_bytes("RIFF....AVI LIST and so on"), nullptr);
  REQUIRE(wrong.size() == 1);
  CHECK(wrong[0].kind == SourceEvent::kLost);
  CHECK(contains(wrong[0].what, "neither motion JPEG nor Y4M"));
  CHECK(read_pipe({.name = "pipe"}, {}, nullptr).back().kind == SourceEvent::kLost);
  CHECK(contains(read_pipe({.name = "pipe"}, {0xFF}, nullptr).back().what, "neither"));
  const auto refused = [](const SourceOptions& options) {
    return test::failure_of([&] {
      const test::Pipe pipe;
      const StreamSource source(options, pipe.reader);
    });
  };
  CHECK(contains(refused(raw("p010", 40, 20)), "p010"));
  CHECK(contains(refused(raw("nv12", 0, 0)), "need a width and a height"));
  CHECK(contains(refused(raw("nv12", 41, 20)), "even"));
  CHECK(contains(refused(raw("gray", 9000, 20)), "8192"));
  CHECK(refused(raw("nv12", -4, 20)) != "");
}

/// Planes of a picture whose luma, Cb and Cr are these everywhere.
Bytes planes(size_t luma, size_t chroma, uint8_t y, uint8_t cb, uint8_t cr) {
  return Bytes(luma, y) + Bytes(chroma, cb) + Bytes(chroma, cr);
}

TEST_CASE("Y4M comes in the pixel format that fits, with the colours that it names") {
  struct Kind {
    const char* header;
    int32_t format, width, height;
    size_t luma, chroma;
  };
  const Kind kinds[] = {
      {"YUV4MPEG2 W8 H6 F30:1 Ip A1:1\n", OCELLUS_I420, 8, 6, 48, 12},
      {"YUV4MPEG2 W8 H6 F30000:1001 Ip C420jpeg XYSCSS=420JPEG\n", OCELLUS_I420, 8, 6, 48, 12},
      {"YUV4MPEG2 H6 W8 C420mpeg2 I?\n", OCELLUS_I420, 8, 6, 48, 12},
      {"YUV4MPEG2 W8 H6 C420paldv\n", OCELLUS_I420, 8, 6, 48, 12},
      {"YUV4MPEG2 W9 H7 C420\n", OCELLUS_I420, 9, 7, 63, 20},
      {"YUV4MPEG2 W8 H6 C422\n", OCELLUS_I422, 8, 6, 48, 24},
      {"YUV4MPEG2 W9 H7 C422\n", OCELLUS_I422, 9, 7, 63, 35},
      {"YUV4MPEG2 W9 H7 C444\n", OCELLUS_I444, 9, 7, 63, 63},
      {"YUV4MPEG2 W9 H7 Cmono\n", OCELLUS_GRAY8, 9, 7, 63, 0},
  };
  for (const Kind& kind : kinds) {
    CAPTURE(kind.header);
    const Bytes first = planes(kind.luma, kind.chroma, 81, 90, 240),
                second = planes(kind.luma, kind.chroma, 145, 54, 34);
    std::vector<Frame> frames;
    const auto events =
        read_pipe({.name = "pipe"}, to_bytes(kind.header) + y4m_frame(first) + y4m_frame(second, " Ip"), &frames);
    REQUIRE(frames.size() == 2);
    CHECK(events.size() == 3);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(frames[i].pixel_format == kind.format);
      CHECK(frames[i].width == kind.width);
      CHECK(frames[i].height == kind.height);
      Picture picture;
      REQUIRE(decode_rgb(frames[i], &picture));
      // BT.601's red and green, or their luma.
      const bool grey = kind.format == OCELLUS_GRAY8;
      const int expected[2][3] = {{254, 0, 0}, {0, 255, 1}};
      for (size_t pixel = 0; pixel < picture.pixels.size(); ++pixel) {
        const int value = grey ? (i == 0 ? 81 : 145) : expected[i][pixel % 3];
        REQUIRE(std::abs(picture.pixels[pixel] - value) <= 1);
      }
    }
  }
}

TEST_CASE("Y4M planes keep their places") {
  Bytes planes_420(9 * 5 + 2 * 5 * 3);
  for (size_t i = 0; i < planes_420.size(); ++i) planes_420[i] = static_cast<uint8_t>(i);
  std::vector<Frame> frames;
  read_pipe({.name = "pipe"}, to_bytes("YUV4MPEG2 W9 H5 XCOLORRANGE=FULL\n") + y4m_frame(planes_420), &frames);
  REQUIRE(frames.size() == 1);
  CHECK(frames[0].full_range);
  CHECK(frames[0].width == 9);
  CHECK(frames[0].height == 5);
  CHECK(frames[0].bytes == planes_420);
  const ocellus_frame view = frames[0].view();
  CHECK(*view.plane[1] == 45);
  CHECK(*view.plane[2] == 60);
  CHECK(view.stride_bytes[2] == 5);
}

TEST_CASE("what luma and chroma mean is what the user says, else the stream, else BT.601 of 16..235") {
  struct Choice {
    const char* color;
    const char* header;
    int32_t matrix;
    bool full_range;
  };
  const Choice choices[] = {{"", "", OCELLUS_BT601, false},
                            {"", " XCOLORRANGE=FULL", OCELLUS_BT601, true},
                            {"bt709", "", OCELLUS_BT709, false},
                            {"bt709", " XCOLORRANGE=FULL", OCELLUS_BT709, true},
                            {"bt709-full", " XCOLORRANGE=LIMITED", OCELLUS_BT709, true},
                            {"bt601-full", "", OCELLUS_BT601, true}};
  for (const Choice& choice : choices) {
    CAPTURE(choice.color);
    CAPTURE(choice.header);
    std::vector<Frame> frames;
    const std::string header = "YUV4MPEG2 W4 H2" + std::string(choice.header);
    read_pipe({.name = "pipe", .color = choice.color}, to_bytes((header + "\n").c_str()) + y4m_frame(Bytes(12, 90)),
              &frames);
    read_pipe({.name = "pipe", .format = "i420", .color = choice.color, .width = 4, .height = 2}, Bytes(12, 90),
              &frames);
    // BT.709 has more green and less blue in what is not grey; 4:4:4 becomes RGB when it is read.
    read_pipe({.name = "pipe", .color = choice.color},
              to_bytes((header + " C444\n").c_str()) + y4m_frame(Bytes(24, 90)), &frames);
    REQUIRE(frames.size() == 3);
    CHECK(frames[0].color_matrix == choice.matrix);
    CHECK(frames[0].full_range == choice.full_range);
    CHECK(frames[1].color_matrix == choice.matrix);
    CHECK(frames[1].full_range == (std::string(choice.color).find("full") != std::string::npos));
    Picture picture, converted;
    REQUIRE(decode_rgb(frames[0], &picture));
    REQUIRE(decode_rgb(frames[2], &converted));
    CHECK(picture.pixels == converted.pixels);
    const double red = choice.matrix == OCELLUS_BT709 ? 1.5748 : 1.402;
    const double expected =
        choice.full_range ? 90 + red * (90 - 128) : 255.0 / 219 * (90 - 16) + red * 255 / 224 * (90 - 128);
    CHECK(std::abs(picture.pixels[0] - expected) < 0.51);
  }
  CHECK(contains(test::failure_of([] { parse_color("bt2020"); }), "bt2020"));
}

TEST_CASE("a Y4M file whose rate is unknown, zero or beyond all sources is shown at the usual rate") {
  const test::TemporaryFolder folder;
  for (const char* rate : {"", "F0:0", "F0:1", "F1:2147483647", "F1:1001", "F2147483647:1"}) {
    CAPTURE(rate);
    const std::string path = folder.file("f");
    test::write_whole(path, to_bytes(std::string("YUV4MPEG2 W4 H2 Cmono ") + rate + "\n") + y4m_frame(Bytes(8, 9)));
    const auto source = open_source({.name = path});
    CHECK(source->frames_per_second() == 30);
    std::vector<Frame> frames;
    CHECK(test::collect(*source, &frames).back().kind == SourceEvent::kEnd);
    CHECK(frames.size() == 1);
  }
}

TEST_CASE("Y4M that is not understood is refused, and a frame that does not begin as it should is skipped") {
  const std::pair<const char*, const char*> headers[] = {
      {"YUV4MPEG2 W8 H6 It\n", "interlaced"},
      {"YUV4MPEG2 W8 H6 Im\n", "interlaced"},
      {"YUV4MPEG2 W8 H6 C420p10\n", "420p10"},
      {"YUV4MPEG2 W8 H6 C444alpha\n", "444alpha"},
      {"YUV4MPEG2 W8\n", "no size"},
      {"YUV4MPEG2 W8 H0\n", "\"0\""},
      {"YUV4MPEG2 W99999 H8\n", "99999"},
      {"YUV4MPEG2 W-8 H8\n", "-8"},
      {"YUV4MPEG2 W8 H6 F30\n", "frame rate"},
      {"YUV4MPEG2 W8x H6\n", "8x"},
      {"YUV4MPEG2 W8 H99999999999999999999\n", "9"},
      {"YUV4MPEG2 C\n", "\"\""},
  };
  for (const auto& [header, part] : headers) {
    CAPTURE(header);
    const auto events = read_pipe({.name = "pipe"}, to_bytes(header), nullptr);
    CHECK(events.back().kind == SourceEvent::kLost);
    CHECK_MESSAGE(contains(events.back().what, part), events.back().what);
  }
  const Bytes endless = to_bytes("YUV4MPEG2 W8 H6 ") + Bytes(5000, 'X');
  CHECK(contains(read_pipe({.name = "pipe"}, endless, nullptr).back().what, "no end"));

  const Bytes header = to_bytes("YUV4MPEG2 W4 H2 Cmono\n"), good = y4m_frame(Bytes(8, 1));
  std::vector<Frame> frames;
  const auto events = read_pipe({.name = "pipe"}, header + good + to_bytes("noise\nF FRAM ") + good + good, &frames);
  CHECK(frames.size() == 3);
  CHECK(test::count_kind(events, SourceEvent::kBroken) == 1);
  CHECK(events.back().kind == SourceEvent::kEnd);
}

TEST_CASE("a file is paced at its own rate or the one asked for, and starts again only if told to") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("clip.y4m");
  Bytes file = to_bytes("YUV4MPEG2 W4 H2 F50:1 Cmono\n");
  for (uint8_t i = 0; i < 10; ++i) file = file + y4m_frame(Bytes(8, i));
  test::write_whole(path, file);
  for (const double asked : {0.0, 200.0}) {
    const auto source = open_source({.name = path, .frames_per_second = asked});
    CHECK(source->frames_per_second() == (asked == 0 ? 50 : 200));
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Frame> frames;
    const auto events = test::collect(*source, &frames);
    CHECK(frames.size() == 10);
    CHECK(events.size() == 11);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    CHECK(seconds >= (asked == 0 ? 0.17 : 0.04));
  }
  const auto looped = open_source({.name = path, .frames_per_second = 2000, .loop = true});
  std::vector<Frame> frames;
  test::collect(*looped, &frames, 35);
  REQUIRE(frames.size() == 35);
  for (size_t i = 0; i < 35; ++i) CHECK(frames[i].bytes == Bytes(8, static_cast<uint8_t>(i % 10)));
  for (size_t i = 1; i < 35; ++i) CHECK(frames[i].time_ns() - frames[i - 1].time_ns() == 500'000);
}

TEST_CASE("a file that cannot be read is refused at once") {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const Bytes& bytes) {
    test::write_whole(folder.file("f"), bytes);
    return test::failure_of([&] { open_source({.name = folder.file("f")}); });
  };
  CHECK(contains(refusal({}), "there are no bytes"));
  CHECK(contains(refusal(to_bytes("hello, world")), "neither motion JPEG nor Y4M"));
  CHECK(contains(refusal(to_bytes("YUV4MPEG2 W8 H6 It\n")), "interlaced"));
  CHECK(contains(refusal(to_bytes("YUV4MPEG2 W8 H6")), "ends in its header"));
  CHECK(contains(test::failure_of([&] { open_source({.name = folder.file("absent")}); }), "No such file"));
  CHECK(contains(test::failure_of([] { open_source({.name = "/dev/null"}); }), "no camera"));
  CHECK(test::failure_of([&] { open_source({.name = "synthetic", .frames_per_second = -1}); }) != "");
  // Without one whole frame there is nothing to begin again with.
  test::write_whole(folder.file("f"), to_bytes("YUV4MPEG2 W8 H6\nFRAME\n12345"));
  const auto source = open_source({.name = folder.file("f"), .frames_per_second = 1000, .loop = true});
  const auto events = test::collect(*source, nullptr);
  REQUIRE(events.size() == 2);
  CHECK(events[0].kind == SourceEvent::kBroken);
  CHECK(events[1].kind == SourceEvent::kEnd);
}

}  // namespace
}  // namespace ocellus::app
