// V4L2 cameras against a driver that a test commands.
#include "apps/camera/pacer.h"
#include "apps/camera/picture_decode.h"
#include "apps/camera/v4l2_source.h"
#include "tests/apps/camera/fake_driver.h"
#include "tests/apps/camera/timing.h"

namespace ocellus::app {
namespace {

using test::Bytes;
using test::FakeDriver;
using test::milliseconds;

SourceOptions camera(const std::string& format = "") { return {.name = "/dev/video9", .format = format}; }

/// Returns a YUYV frame whose rows are followed by padding of 0xEE.
Bytes yuyv(uint32_t width, uint32_t height, uint32_t padding, uint8_t value) {
  Bytes bytes;
  for (uint32_t row = 0; row < height; ++row) {
    bytes.insert(bytes.end(), 2 * width, static_cast<uint8_t>(value + row));
    bytes.insert(bytes.end(), padding, 0xEE);
  }
  return bytes;
}

SourceEvent next_of(V4l2Source& source, Frame* frame) { return source.next(frame, milliseconds(50)); }

TEST_CASE("a camera's format is the one asked for, else uncompressed for small and MJPEG for large pictures") {
  struct Choice {
    std::vector<uint32_t> offered;
    uint32_t width, height;
    const char* asked;
    uint32_t chosen;
  };
  const Choice choices[] = {
      {{V4L2_PIX_FMT_MJPEG, V4L2_PIX_FMT_YUYV}, 640, 480, "", V4L2_PIX_FMT_YUYV},
      {{V4L2_PIX_FMT_YUYV, V4L2_PIX_FMT_MJPEG}, 1280, 720, "", V4L2_PIX_FMT_MJPEG},
      {{V4L2_PIX_FMT_YUYV, V4L2_PIX_FMT_NV12}, 1280, 720, "", V4L2_PIX_FMT_NV12},
      {{V4L2_PIX_FMT_YUYV, V4L2_PIX_FMT_NV12}, 640, 480, "", V4L2_PIX_FMT_NV12},
      {{V4L2_PIX_FMT_YUYV, V4L2_PIX_FMT_MJPEG}, 640, 480, "mjpeg", V4L2_PIX_FMT_MJPEG},
      {{V4L2_PIX_FMT_YUYV, V4L2_PIX_FMT_MJPEG}, 1280, 720, "yuyv422", V4L2_PIX_FMT_YUYV},
      {{V4L2_PIX_FMT_YUYV}, 1280, 720, "nv12", V4L2_PIX_FMT_YUYV},
      {{V4L2_PIX_FMT_H264, V4L2_PIX_FMT_JPEG}, 640, 480, "", V4L2_PIX_FMT_JPEG},
      {{V4L2_PIX_FMT_GREY, V4L2_PIX_FMT_MJPEG}, 640, 480, "", V4L2_PIX_FMT_MJPEG},
      {{V4L2_PIX_FMT_GREY}, 640, 480, "", V4L2_PIX_FMT_GREY},
      {{V4L2_PIX_FMT_BGR24, V4L2_PIX_FMT_YUV420}, 640, 480, "", V4L2_PIX_FMT_YUV420},
      {{V4L2_PIX_FMT_BGR24, V4L2_PIX_FMT_YUV420}, 640, 480, "bgr", V4L2_PIX_FMT_BGR24},
      {{V4L2_PIX_FMT_ABGR32, V4L2_PIX_FMT_RGB24}, 640, 480, "bgra", V4L2_PIX_FMT_ABGR32},
      {{V4L2_PIX_FMT_Z16, V4L2_PIX_FMT_GREY}, 640, 480, "", V4L2_PIX_FMT_GREY},
      {{V4L2_PIX_FMT_Z16, V4L2_PIX_FMT_MJPEG}, 640, 480, "", V4L2_PIX_FMT_MJPEG},
      {{V4L2_PIX_FMT_Z16}, 640, 480, "", V4L2_PIX_FMT_Z16},
      {{V4L2_PIX_FMT_Y16, V4L2_PIX_FMT_YUYV}, 640, 480, "gray16le", V4L2_PIX_FMT_Y16},
  };
  for (const Choice& choice : choices) {
    FakeDriver driver;
    driver.formats = choice.offered;
    driver.width = choice.width;
    driver.height = choice.height;
    driver.buffer_bytes = 4 << 20;
    const V4l2Source source(camera(choice.asked), driver.system());
    CHECK(driver.format.fmt.pix.pixelformat == choice.chosen);
    CHECK(driver.streaming);
    CHECK(test::contains(source.describe(), std::to_string(choice.width) + " x "));
    CHECK(test::contains(source.describe(), "30 frames a second"));
  }
}

TEST_CASE("a depth camera's frames of 16 bits are shown by the range that is given, which asks for them") {
  FakeDriver driver;
  driver.formats = {V4L2_PIX_FMT_MJPEG, V4L2_PIX_FMT_YUYV, V4L2_PIX_FMT_Z16};
  driver.width = 2;
  driver.height = 2;
  driver.padding = 4;
  SourceOptions options = camera();
  options.depth = {1000, 3000};
  V4l2Source source(options, driver.system());
  CHECK(driver.format.fmt.pix.pixelformat == V4L2_PIX_FMT_Z16);
  CHECK(test::contains(source.describe(), "gray16le"));
  driver.script.push_back({{0, 0, 0xE8, 3, 9, 9, 9, 9, 0xD0, 7, 0xB8, 0x0B, 9, 9, 9, 9}, 1, 0, 0, 0});
  Frame frame;
  REQUIRE(next_of(source, &frame).kind == SourceEvent::kFrame);
  CHECK(frame.bytes == Bytes{0, 0, 0xE8, 3, 0xD0, 7, 0xB8, 0x0B});
  Picture picture;
  REQUIRE(decode_rgb(frame, &picture));
  CHECK(picture.pixels == Bytes{0, 0, 0, 255, 255, 255, 128, 128, 128, 0, 0, 0});

  FakeDriver colours;
  const std::string sentence = test::failure_of([&] { V4l2Source none(options, colours.system()); });
  CHECK_MESSAGE(test::contains(sentence, "none of the formats Z16 and Y16"), sentence);
  options.format = "nv12";
  CHECK(test::contains(test::failure_of([&] { V4l2Source none(options, colours.system()); }), "nv12 has none"));
  SourceOptions strided = camera();
  strided.stride = "64";
  CHECK(test::contains(test::failure_of([&] { V4l2Source none(strided, colours.system()); }), "--stride"));
}

TEST_CASE("cameras that cannot be used are refused in a sentence, and closed") {
  struct Refusal {
    const char* part;
    std::function<void(FakeDriver&)> prepare;
  };
  const Refusal refusals[] = {
      {"cannot be opened", [](FakeDriver& d) { d.present = false; }},
      {"takes no pictures", [](FakeDriver& d) { d.capabilities = V4L2_CAP_STREAMING; }},
      {"multi-planar", [](FakeDriver& d) { d.capabilities = V4L2_CAP_STREAMING | V4L2_CAP_VIDEO_CAPTURE_MPLANE; }},
      {"does not stream", [](FakeDriver& d) { d.capabilities = V4L2_CAP_VIDEO_CAPTURE; }},
      {"only H264", [](FakeDriver& d) { d.formats = {V4L2_PIX_FMT_H264}; }},
      {"none of the formats", [](FakeDriver& d) { d.formats.clear(); }},
      {"too little memory", [](FakeDriver& d) { d.most_buffers = 1; }},
      {"none of the formats", [](FakeDriver& d) { d.formats = {V4L2_PIX_FMT_NV12}, d.height = 47; }},
  };
  for (const Refusal& refusal : refusals) {
    FakeDriver driver;
    refusal.prepare(driver);
    const std::string sentence = test::failure_of([&] { V4l2Source source(camera(), driver.system()); });
    CAPTURE(sentence);
    CHECK(test::contains(sentence, refusal.part));
    CHECK(test::contains(sentence, "/dev/video9: "));
    CHECK(driver.opens == driver.closes);
    CHECK(driver.mapped == 0);
  }
  FakeDriver driver;
  CHECK(test::contains(test::failure_of([&] { V4l2Source source(camera("h264"), driver.system()); }), "h264"));
  SourceOptions lopsided = camera();
  lopsided.width = 640;
  CHECK(test::failure_of([&] { V4l2Source source(lopsided, driver.system()); }) != "");
  CHECK(driver.opens == 0);
}

TEST_CASE("rows come without their padding, and gaps in the driver's count are skipped frames") {
  FakeDriver driver;
  driver.padding = 12;
  V4l2Source source(camera("yuyv422"), driver.system());
  const uint32_t sequences[] = {5, 6, 9, 10, 10, 4'294'967'295u, 2};
  const int64_t skipped[] = {0, 0, 2, 0, 0, 0, 2};  // a count that leaps backwards or by millions says nothing
  for (int i = 0; i < 7; ++i) {
    CAPTURE(i);
    driver.script.push_back({yuyv(64, 48, 12, static_cast<uint8_t>(i)), sequences[i], 0, 0, 0});
    Frame frame;
    const SourceEvent event = next_of(source, &frame);
    REQUIRE(event.kind == SourceEvent::kFrame);
    CHECK(event.skipped == skipped[i]);
    CHECK(frame.bytes == yuyv(64, 48, 0, static_cast<uint8_t>(i)));
    CHECK(frame.width == 64);
    CHECK(frame.pixel_format == OCELLUS_YUYV);
    CHECK(frame.sequence == i + 1);
    CHECK(!frame.full_range);
  }
  Frame frame;
  CHECK(next_of(source, &frame).kind == SourceEvent::kTimeout);
}

TEST_CASE("NV12 rows come without their padding, in the range that the driver names") {
  FakeDriver driver;
  driver.formats = {V4L2_PIX_FMT_NV12};
  driver.padding = 16;
  driver.colorspace = V4L2_COLORSPACE_JPEG;
  V4l2Source source(camera(), driver.system());
  Bytes padded;
  for (uint8_t row = 0; row < 72; ++row) {
    padded.insert(padded.end(), 64, row);
    if (row < 71) padded.insert(padded.end(), 16, 0xEE);  // none after the last row
  }
  driver.script.push_back({padded, 0, 0, 0, 0});
  Frame frame;
  REQUIRE(next_of(source, &frame).kind == SourceEvent::kFrame);
  REQUIRE(frame.bytes.size() == 64 * 72);
  for (size_t i = 0; i < frame.bytes.size(); ++i) REQUIRE(frame.bytes[i] == i / 64);
  CHECK(frame.full_range);
}

TEST_CASE("I420's three planes come without their padding") {
  FakeDriver driver;
  driver.formats = {V4L2_PIX_FMT_YUV420};
  driver.padding = 16;
  V4l2Source source(camera(), driver.system());
  Bytes padded, expected;
  for (uint8_t row = 0; row < 96; ++row) {
    const size_t kept = row < 48 ? 64 : 32;
    padded.insert(padded.end(), kept, row);
    padded.insert(padded.end(), kept / 4, 0xEE);
    expected.insert(expected.end(), kept, row);
  }
  driver.script.push_back({padded, 0, 0, 0, 0});
  driver.script.push_back({Bytes(padded.begin(), padded.end() - 9), 1, 0, 0, 0});
  Frame frame;
  REQUIRE(next_of(source, &frame).kind == SourceEvent::kFrame);
  CHECK(frame.pixel_format == OCELLUS_I420);
  CHECK(frame.bytes == expected);
  CHECK(next_of(source, &frame).kind == SourceEvent::kBroken);
}

TEST_CASE("what luma and chroma mean is what the driver says, unless the user knows better") {
  struct Choice {
    uint32_t colorspace, encoding;
    const char* asked;
    int32_t matrix;
    bool full_range;
  };
  const Choice choices[] = {
      {V4L2_COLORSPACE_SRGB, V4L2_YCBCR_ENC_DEFAULT, "", OCELLUS_BT601, false},
      {V4L2_COLORSPACE_SMPTE170M, V4L2_YCBCR_ENC_DEFAULT, "", OCELLUS_BT601, false},
      {V4L2_COLORSPACE_REC709, V4L2_YCBCR_ENC_DEFAULT, "", OCELLUS_BT709, false},
      {V4L2_COLORSPACE_REC709, V4L2_YCBCR_ENC_601, "", OCELLUS_BT601, false},
      {V4L2_COLORSPACE_JPEG, V4L2_YCBCR_ENC_DEFAULT, "", OCELLUS_BT601, true},
      {V4L2_COLORSPACE_REC709, V4L2_YCBCR_ENC_DEFAULT, "bt601", OCELLUS_BT601, false},
      {V4L2_COLORSPACE_SRGB, V4L2_YCBCR_ENC_DEFAULT, "bt709-full", OCELLUS_BT709, true},
  };
  for (const Choice& choice : choices) {
    FakeDriver driver;
    driver.colorspace = choice.colorspace;
    driver.encoding = choice.encoding;
    SourceOptions options = camera("yuyv422");
    options.color = choice.asked;
    V4l2Source source(options, driver.system());
    driver.script.push_back({yuyv(64, 48, 0, 1), 0, 0, 0, 0});
    Frame frame;
    REQUIRE(next_of(source, &frame).kind == SourceEvent::kFrame);
    CHECK(frame.color_matrix == choice.matrix);
    CHECK(frame.full_range == choice.full_range);
  }
}

TEST_CASE("frames that the driver marks, short ones and sizes beyond the buffer are broken, and the source goes on") {
  FakeDriver driver;
  V4l2Source source(camera("yuyv422"), driver.system());
  const Bytes whole = yuyv(64, 48, 0, 1);
  const Bytes half(whole.begin(), whole.begin() + 3000);
  driver.script = {{whole, 0, V4L2_BUF_FLAG_ERROR, 0, 0},
                   {half, 1, 0, 0, 0},
                   {whole, 2, 0, 1 << 20, 0},
                   {Bytes(), 3, 0, 0, 0},
                   {whole, 5, 0, 0, 0}};
  const char* parts[] = {"marks a frame", "3000 of its 6144", "1048576 bytes in a buffer of 65536", "0 of its 6144"};
  Frame frame;
  for (const char* part : parts) {
    const SourceEvent event = next_of(source, &frame);
    CHECK(event.kind == SourceEvent::kBroken);
    CHECK_MESSAGE(test::contains(event.what, part), event.what);
  }
  const SourceEvent event = next_of(source, &frame);
  CHECK(event.kind == SourceEvent::kFrame);
  CHECK(event.skipped == 1);
  CHECK(frame.bytes == whole);
}

TEST_CASE("motion JPEG without Huffman tables is repaired and its damage is found") {
  FakeDriver driver;
  V4l2Source source(camera("mjpeg"), driver.system());
  const Bytes jpeg = test::scene_jpeg(64, 48, 3), bare = test::strip_tables(jpeg);
  Bytes padded = bare;
  padded.resize(bare.size() + 333, 0);  // some cameras send more than the picture
  const Bytes half(bare.begin(), bare.begin() + static_cast<std::ptrdiff_t>(bare.size() / 2));
  driver.script = {{bare, 0, 0, 0, 0}, {half, 1, 0, 0, 0}, {padded, 2, 0, 0, 0}, {Bytes(100, 7), 3, 0, 0, 0}};
  Frame frame;
  for (const SourceEvent::Kind kind :
       {SourceEvent::kFrame, SourceEvent::kBroken, SourceEvent::kFrame, SourceEvent::kBroken}) {
    CHECK(next_of(source, &frame).kind == kind);
    if (kind != SourceEvent::kFrame) continue;
    CHECK(frame.kind == FrameKind::kEncoded);
    CHECK(frame.width == 64);
    CHECK(frame.bytes.size() >= bare.size() + 420);
  }
}

TEST_CASE("the driver's time stamps are used where they can be believed") {
  FakeDriver driver;
  V4l2Source source(camera("yuyv422"), driver.system());
  const int64_t now = monotonic_ns();
  for (const int64_t stamp : {now - 30'000'000, now + 5'000'000'000, now - 60'000'000'000, int64_t{0}}) {
    driver.script.push_back({yuyv(64, 48, 0, 1), 0, 0, 0, stamp});
    Frame frame;
    REQUIRE(next_of(source, &frame).kind == SourceEvent::kFrame);
    if (stamp == now - 30'000'000) {
      CHECK(frame.captured_ns == stamp / 1000 * 1000);
    } else {
      CHECK(frame.captured_ns >= now);
      CHECK(frame.captured_ns <= monotonic_ns());
    }
  }
}

TEST_CASE("errors and unplugging lose the camera, which can be opened again in another size") {
  for (const int error : {EIO, ENODEV, EINVAL, 0}) {
    CAPTURE(error);
    FakeDriver driver;
    V4l2Source source(camera("yuyv422"), driver.system());
    Frame frame;
    driver.script.push_back({yuyv(64, 48, 0, 1), 7, 0, 0, 0});
    CHECK(next_of(source, &frame).kind == SourceEvent::kFrame);
    driver.dequeue_error = error;
    if (error == 0) driver.present = false;
    const SourceEvent lost = next_of(source, &frame);
    CHECK(lost.kind == SourceEvent::kLost);
    CHECK(!lost.what.empty());
    CHECK(next_of(source, &frame).kind == SourceEvent::kLost);
    CHECK(driver.opens == driver.closes);
    if (error == 0) CHECK(test::failure_of([&] { source.reopen(); }) != "");
    driver.dequeue_error = 0;
    driver.present = true;
    driver.width = 32;
    source.reopen();
    driver.script.push_back({yuyv(32, 48, 0, 2), 100, 0, 0, 0});
    const SourceEvent event = next_of(source, &frame);
    CHECK(event.kind == SourceEvent::kFrame);
    CHECK(event.skipped == 0);  // the count begins anew
    CHECK(frame.width == 32);
  }
}

TEST_CASE("a change of the camera's input loses the camera, so that it is opened in its new form") {
  FakeDriver driver;
  V4l2Source source(camera(), driver.system());
  driver.source_change = true;
  Frame frame;
  CHECK(next_of(source, &frame).kind == SourceEvent::kLost);
}

TEST_CASE("a camera that is unplugged and plugged in again goes on by itself") {
  FakeDriver driver;
  driver.endless = true;
  driver.endless_frame = yuyv(64, 48, 0, 1);
  test::EventList events;
  {
    CaptureOptions options;
    options.source = camera("yuyv422");
    options.first_retry = milliseconds(5);
    options.last_retry = milliseconds(20);
    options.on_event = events.listener();
    options.open = [&](const SourceOptions& source) { return std::make_unique<V4l2Source>(source, driver.system()); };
    Capture capture(options);
    CHECK(test::comes_true([&] { return capture.status().captured > 20; }));
    const auto change = [&](const std::function<void()>& action) {
      const std::lock_guard<std::mutex> guard(driver.lock);
      action();
    };
    change([&] { driver.present = false; });
    CHECK(test::comes_true([&] { return capture.status().state == SourceState::kLost; }));
    CHECK(test::comes_true([&] { return test::contains(capture.status().trouble, "cannot be opened"); }));
    change([&] {
      driver.present = true;
      driver.width = 32;
      driver.endless_frame = yuyv(32, 48, 0, 1);
    });
    CHECK(test::comes_true([&] { return capture.status().width == 32; }));
    CHECK(capture.status().state == SourceState::kRunning);
    CHECK(capture.status().trouble.empty());
    CHECK(capture.status().losses == 1);
    CHECK(capture.status().size_changes == 1);
    change([&] { driver.dequeue_error = EIO; });  // errors for ever: it is tried again and again, but not all the time
    CHECK(test::comes_true([&] { return capture.status().losses >= 5; }));
    CHECK(test::growth_per_10_ms([&] { return capture.status().losses; }, milliseconds(200)) < 0.7);
    change([&] { driver.dequeue_error = 0; });
    const int64_t captured = capture.status().captured;
    CHECK(test::comes_true([&] { return capture.status().captured > captured; }));
  }
  CHECK(driver.opens == driver.closes);
  CHECK(driver.mapped == 0);
  CHECK(events.has("was disconnected"));
  CHECK(events.has("is back"));
  CHECK(events.has("size has changed from 64 x 48 to 32 x 48"));
}

}  // namespace
}  // namespace ocellus::app
