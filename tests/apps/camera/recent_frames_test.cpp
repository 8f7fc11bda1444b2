// The frames that clips of a camera are made of: which of them are kept, and the times that a clip has.
#include "apps/camera/recent_frames.h"

#include "apps/camera/clip_frames.h"
#include "tests/apps/camera/support.h"

namespace ocellus::app {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

Frame frame_at(int64_t sequence, double second, int32_t width = 4) {
  Frame frame;
  frame.kind = FrameKind::kPixels;
  frame.pixel_format = OCELLUS_GRAY8;
  frame.width = width;
  frame.height = 4;
  frame.sequence = sequence;
  frame.captured_ns = 7 * kSecond + static_cast<int64_t>(second * 1e9);
  frame.bytes.assign(static_cast<size_t>(4 * width), static_cast<uint8_t>(sequence));
  return frame;
}

/// A camera of this rate, whose last frame is the newest.
struct Camera {
  Camera(const ClipPace& pace, double rate, int64_t count) : recent(pace) {
    for (int64_t i = 1; i <= count; ++i) take(frame_at(i, static_cast<double>(i) / rate));
  }
  void take(const Frame& frame) {
    newest = frame;
    recent.add(frame);
  }
  std::vector<int64_t> before_newest() {
    std::vector<int64_t> numbers;
    const size_t count = recent.copy_before(newest, &earlier);
    for (size_t i = 0; i < count; ++i) {
      CHECK(earlier[i].bytes[0] == static_cast<uint8_t>(earlier[i].sequence));
      numbers.push_back(earlier[i].sequence);
    }
    return numbers;
  }
  RecentFrames recent;
  Frame newest;
  std::vector<Frame> earlier;
};

using Numbers = std::vector<int64_t>;
constexpr ClipPace kFour = {.frames = 4, .frames_per_second = 2};

TEST_CASE("frames of a slow source are all in its clips, those of a fast one at the rate of clips") {
  CHECK(Camera({.frames = 3, .frames_per_second = 2}, 1, 6).before_newest() == Numbers{4, 5});
  CHECK(Camera({.frames = 3, .frames_per_second = 2}, 2, 6).before_newest() == Numbers{4, 5});
  CHECK(Camera({.frames = 3, .frames_per_second = 2}, 10, 21).before_newest() == Numbers{11, 16});
  CHECK(Camera({.frames = 3, .frames_per_second = 2}, 10, 23).before_newest() == Numbers{11, 16});  // 21 is too late
  CHECK(Camera({.frames = 3, .frames_per_second = 2}, 10, 24).before_newest() == Numbers{16, 21});
  CHECK(Camera({.frames = 2, .frames_per_second = 30}, 30, 24).before_newest() == Numbers{23});
}

TEST_CASE("uneven times of a camera do not halve its rate") {
  Camera camera({.frames = 4, .frames_per_second = 2}, 2, 1);
  for (int64_t i = 2; i <= 8; ++i) camera.take(frame_at(i, 0.5 * static_cast<double>(i) + (i % 2 == 0 ? 0.02 : -0.02)));
  CHECK(camera.before_newest() == Numbers{5, 6, 7});
}

TEST_CASE("a clip has frames of one size, and none that came after its last one") {
  Camera camera(kFour, 2, 6);
  camera.take(frame_at(7, 3.5, 8));
  CHECK(camera.before_newest().empty());
  camera.take(frame_at(8, 4, 8));
  CHECK(camera.before_newest() == Numbers{7});
  const Frame taken = camera.newest;
  camera.take(frame_at(9, 4.5, 8));
  camera.newest = taken;
  CHECK(camera.before_newest() == Numbers{7});
  CHECK(Camera(kFour, 2, 1).before_newest().empty());
  CHECK(Camera(kFour, 2, 3).before_newest() == Numbers{1, 2});
}

TEST_CASE("frames up to one that cannot be read are dropped, and so are all when a source's time begins again") {
  Camera camera(kFour, 2, 8);
  camera.recent.forget_until(6);
  CHECK(camera.before_newest() == Numbers{7});
  camera.take(frame_at(9, 0));
  CHECK(camera.before_newest().empty());
  camera.take(frame_at(10, 0.5));
  CHECK(camera.before_newest() == Numbers{9});
}

TEST_CASE("the memory of frames is used again") {
  Camera camera(kFour, 2, 12);
  camera.before_newest();
  const int64_t bytes = camera.recent.bytes();
  CHECK(bytes == 5 * 16);
  std::vector<const uint8_t*> before;
  for (const Frame& frame : camera.earlier) before.push_back(frame.bytes.data());
  for (int64_t i = 13; i < 40; ++i) {
    camera.take(frame_at(i, 0.5 * static_cast<double>(i)));
    camera.before_newest();
  }
  CHECK(camera.recent.bytes() == bytes);
  for (size_t i = 0; i < before.size(); ++i) CHECK(camera.earlier[i].bytes.data() == before[i]);
}

ClipFrames clip_of(const std::vector<Frame>& frames) {
  std::vector<const Frame*> addresses;
  for (const Frame& frame : frames) addresses.push_back(&frame);
  return make_clip(addresses);
}

TEST_CASE("the times of a clip begin with its first frame, and one late frame does not change its pace") {
  const ClipFrames even = clip_of({frame_at(1, 3), frame_at(2, 3.48), frame_at(3, 3.99), frame_at(4, 4.3)});
  CHECK(even.seconds[0] == 0);
  CHECK(even.seconds[3] == doctest::Approx(1.3));
  CHECK(even.duration == 4 * 0.5);
  const ClipFrames stalled = clip_of({frame_at(1, 3), frame_at(2, 3.5), frame_at(3, 63)});
  CHECK(stalled.seconds[2] == doctest::Approx(60));
  CHECK(stalled.duration == stalled.seconds[2]);
  CHECK(clip_of({frame_at(1, 3)}).duration == 0);
  CHECK(clip_of({frame_at(1, 3), frame_at(2, 2.9)}).seconds[1] == 0);
  std::vector<Frame> rare;
  for (int i = 0; i < 4; ++i) rare.push_back(frame_at(i, 25000.0 * i));
  CHECK(clip_of(rare).duration == 75000);  // and not a day or more
  CHECK(fit_one_clip(rare[0], rare[3]));
  CHECK_FALSE(fit_one_clip(rare[0], frame_at(5, 86401)));
  CHECK_FALSE(fit_one_clip(rare[1], rare[0]));
}

TEST_CASE("frames of a file have its own times, however late they were read") {
  Frame first = frame_at(1, 3), second = frame_at(2, 9);
  first.file_ns = kSecond / 2;
  second.file_ns = kSecond;
  CHECK(clip_of({first, second}).seconds[1] == 0.5);
}

}  // namespace
}  // namespace ocellus::app
