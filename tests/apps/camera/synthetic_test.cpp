// The made-up scene: its truth, its pixels and the faults it shows.
#include <set>

#include "apps/camera/picture_decode.h"
#include "apps/camera/synthetic_source.h"
#include "tests/apps/camera/support.h"
#include "tests/support/goldens.h"

namespace ocellus::app {
namespace {

using test::contains;
using test::milliseconds;

SourceOptions scene(const std::string& faults = "", const std::string& format = "") {
  return {
      .name = "synthetic", .format = format, .width = 64, .height = 48, .frames_per_second = 2000, .faults = faults};
}

/// Returns the first `most` events.
std::vector<SourceEvent> play(const SourceOptions& options, size_t most, std::vector<Frame>* frames = nullptr) {
  SyntheticSource source(options);
  return test::collect(source, frames, most);
}

std::string kinds_of(const std::vector<SourceEvent>& events) {
  std::string text;
  for (const SourceEvent& event : events) text += "f-bxe"[event.kind];
  return text;
}

TEST_CASE("the same seed tells the same story, another one another") {
  const auto story = [&](uint64_t seed) {
    Scene told(seed);
    std::vector<std::string> captions;
    for (int i = 0; i < 400; ++i) {
      told.advance(i);
      captions.push_back(told.caption());
    }
    return captions;
  };
  CHECK(story(5) == story(5));
  CHECK(story(5) != story(6));
  const auto captions = story(7);
  CHECK(std::set<std::string>(captions.begin(), captions.end()).size() > 80);
}

TEST_CASE("scenes hold one to four shapes in different cells, which stay inside them, and all kinds occur") {
  std::set<int> shapes, colors, cells;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Scene told(seed);
    for (int i = 0; i < 300; ++i) {
      told.advance(0.7 * i);
      const auto& objects = told.objects();
      REQUIRE(objects.size() >= 1);
      REQUIRE(objects.size() <= 4);
      for (size_t k = 0; k < objects.size(); ++k) {
        const SceneObject& object = objects[k];
        if (k > 0) CHECK(objects[k - 1].cell < object.cell);
        const double cell = kBoardSide / 3, left = object.cell % 3 * cell, top = object.cell / 3 * cell;
        CHECK(object.x - object.radius > left);
        CHECK(object.x + object.radius < left + cell);
        CHECK(object.y - object.radius > top);
        CHECK(object.y + object.radius < top + cell);
        shapes.insert(static_cast<int>(object.shape));
        colors.insert(object.color);
        cells.insert(object.cell);
      }
    }
    CHECK(told.changes() > 30);
  }
  CHECK(shapes.size() == 8);
  CHECK(colors.size() == 10);
  CHECK(cells.size() == 9);
}

TEST_CASE("the truth names what the pixels show") {
  SourceOptions options = scene();
  options.width = 640;
  options.height = 480;
  for (options.seed = 0; options.seed < 12; ++options.seed) {
    SyntheticSource source(options);
    Frame frame;
    REQUIRE(source.next(&frame, milliseconds(1000)).kind == SourceEvent::kFrame);
    CHECK(frame.truth == source.scene().caption());
    size_t checked = 0;
    for (const SceneObject& object : source.scene().objects()) {
      if (object.shape == SceneShape::kRing) continue;  // empty in its middle
      const auto x = static_cast<size_t>(object.x / kBoardSide * 640),
                 y = static_cast<size_t>(object.y / kBoardSide * 480);
      const uint8_t* pixel = frame.bytes.data() + 3 * (640 * y + x);
      const SceneColor color = scene_color(object.color);
      for (size_t c = 0; c < 3; ++c) CHECK(pixel[c] == color[c]);
      ++checked;
    }
    const SceneColor corner = source.scene().background();
    CHECK(std::equal(corner.begin(), corner.end(), frame.bytes.begin()));
    CHECK(checked + 2 >= source.scene().objects().size());
  }
}

TEST_CASE("faults come at their frames") {
  const auto faulted = [](const std::string& faults, size_t most, const std::string& format = "") {
    return play(scene(faults, format), most);
  };
  CHECK(kinds_of(faulted("broken@3", 6)) == "ffbfff");
  CHECK(kinds_of(faulted("broken@3:2,broken%7", 10)) == "ffbbffbfff");
  CHECK(kinds_of(faulted("truncated@2,end@5", 10)) == "fbffe");
  CHECK(kinds_of(faulted("truncated@2,end@5", 10, "mjpeg")) == "fbffe");
  CHECK(kinds_of(faulted("damaged@2,end@4", 10, "mjpeg")) == "fffe");
  CHECK(kinds_of(faulted("unplug@4", 10)) == "fffx");
  CHECK(kinds_of(faulted("broken@1,loop@4", 12)) == "bfffbfffbfff");
  CHECK(kinds_of(faulted("broken@2,loop", 106)) == "fb" + std::string(50, 'f') + "fb" + std::string(50, 'f') + "fb");

  const auto truncated = faulted("truncated@1", 1, "mjpeg");
  CHECK(contains(truncated[0].what, "truncated"));
  const auto skipped = faulted("skip@3:5", 4);
  CHECK(skipped[2].skipped == 5);
  CHECK(skipped[3].skipped == 0);

  std::vector<Frame> frames;
  play(scene("resize@3:32x16,loop@6"), 12, &frames);
  for (size_t i = 0; i < 12; ++i) CHECK(frames[i].width == (i % 6 < 2 ? 64 : 32));
  frames.clear();
  play(scene("resize%2:32x16"), 8, &frames);
  const int32_t widths[] = {64, 32, 32, 64, 64, 32, 32, 64};
  for (size_t i = 0; i < 8; ++i) CHECK(frames[i].width == widths[i]);
}

TEST_CASE("a stall takes its time, once") {
  SyntheticSource source(scene("stall@3:0.2s"));
  Frame frame;
  CHECK(test::collect(source, nullptr, 2).size() == 2);
  const auto begin = std::chrono::steady_clock::now();
  int timeouts = 0;
  while (source.next(&frame, milliseconds(20)).kind == SourceEvent::kTimeout) ++timeouts;
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(took >= milliseconds(190));
  CHECK(timeouts >= 2);
  CHECK(test::collect(source, nullptr, 20).size() == 20);
}

TEST_CASE("an unplugged camera comes back after its time, and a failing driver after its errors") {
  SyntheticSource source(scene("unplug@2:0.1s,errors@4:3"));
  std::vector<Frame> frames;
  CHECK(kinds_of(test::collect(source, &frames, 5)) == "fx");
  Frame frame;
  CHECK(source.next(&frame, milliseconds(10)).kind == SourceEvent::kLost);
  CHECK(contains(test::failure_of([&] { source.reopen(); }), "unplugged"));
  std::this_thread::sleep_for(milliseconds(110));
  source.reopen();
  CHECK(kinds_of(test::collect(source, &frames, 5)) == "fx");
  for (int i = 0; i < 2; ++i) {
    source.reopen();
    CHECK(kinds_of(test::collect(source, &frames, 5)) == "x");
  }
  source.reopen();
  CHECK(kinds_of(test::collect(source, &frames, 5)) == "fffff");
}

TEST_CASE("a damaged JPEG passes for a frame until it is decoded") {
  std::vector<Frame> frames;
  play(scene("damaged@1,end@3", "mjpeg"), 3, &frames);
  REQUIRE(frames.size() == 2);
  CHECK(frames[0].truth.empty());
  CHECK(!frames[1].truth.empty());
  CHECK(finish_encoded(&frames[0]) == "");
  Picture damaged, sound;
  REQUIRE(decode_rgb(frames[1], &sound));
  if (decode_rgb(frames[0], &damaged)) CHECK(damaged.pixels != sound.pixels);
}

TEST_CASE("text that is no list of faults is refused in a sentence, and so are impossible options") {
  const char* wrong[] = {"stall",
                         "stall@",
                         "stall@0",
                         "stall@-1",
                         "stall@x",
                         "stall@5:3",
                         "stall@5:-1s",
                         "stall@5:nans",
                         "stall@5:1e99s",
                         "broken@5:0",
                         "broken@5:1s",
                         "resize@5",
                         "resize@5:320",
                         "resize@5:1x1",
                         "resize@5:33x32",
                         "resize@5:9000x32",
                         "explode@5",
                         "",
                         "truncated@5:1",
                         "loop@0",
                         "loop@2,broken@5",
                         "broken@5,,",
                         "broken@5:99999999999",
                         "broken@99999999999999999999"};
  for (const char* faults : wrong) {
    if (*faults == '\0') continue;
    CAPTURE(faults);
    const std::string sentence = test::failure_of([&] { SyntheticSource source(scene(faults)); });
    CHECK(!sentence.empty());
    CHECK(sentence.back() == '.');
  }
  SourceOptions odd = scene();
  odd.width = 333;
  CHECK(contains(test::failure_of([&] { SyntheticSource source(odd); }), "even number"));
  CHECK(contains(test::failure_of([&] { SyntheticSource source(scene("", "h264")); }), "h264"));
  SourceOptions fast = scene();
  fast.frames_per_second = 1e6;
  CHECK(test::failure_of([&] { SyntheticSource source(fast); }) != "");
}

TEST_CASE("frames come at the rate asked for") {
  SourceOptions options = scene();
  options.frames_per_second = 100;
  SyntheticSource source(options);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(test::collect(source, nullptr, 31).size() == 31);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  CHECK(seconds >= 0.29);
}

/// Asks the bundled model for captions.
class Captioner {
 public:
  Captioner() {
    const test::ModelPair pair = test::bundled_pair();
    REQUIRE(ocellus_model_open(pair.model.c_str(), pair.mmproj.c_str(), &model_) == OCELLUS_OK);
    ocellus_engine_config config;
    ocellus_engine_config_init(&config);
    config.limits.max_image_pixels = 640 * 480;
    REQUIRE(ocellus_engine_create(model_, &config, &engine_) == OCELLUS_OK);
    REQUIRE(ocellus_session_open(engine_, &session_) == OCELLUS_OK);
  }
  ~Captioner() {
    ocellus_session_close(session_);
    ocellus_engine_destroy(engine_);
    ocellus_model_close(model_);
  }
  Captioner(const Captioner&) = delete;
  Captioner& operator=(const Captioner&) = delete;

  std::string caption(const Frame& frame) {
    const ocellus_frame view = frame.view();
    const std::string prompt = "Caption this image.";
    std::string text;
    ocellus_generate_params params;
    ocellus_generate_params_init(&params);
    params.user = &text;
    params.on_text = [](void* user, const char* piece, int32_t bytes) {
      static_cast<std::string*>(user)->append(piece, static_cast<size_t>(bytes));
      return 0;
    };
    REQUIRE(ocellus_session_reset(session_) == OCELLUS_OK);
    REQUIRE(ocellus_session_begin_turn(session_) == OCELLUS_OK);
    const auto added =
        frame.kind == FrameKind::kPixels
            ? ocellus_session_add_image(session_, &view)
            : ocellus_session_add_encoded_image(session_, frame.bytes.data(), static_cast<int64_t>(frame.bytes.size()));
    REQUIRE(added == OCELLUS_OK);
    REQUIRE(ocellus_session_add_text(session_, prompt.c_str(), static_cast<int64_t>(prompt.size()), 0) == OCELLUS_OK);
    REQUIRE(ocellus_session_end_turn(session_) == OCELLUS_OK);
    REQUIRE(ocellus_session_generate(session_, &params, nullptr) == OCELLUS_OK);
    const size_t begin = text.find_first_not_of(" \n"), end = text.find_last_not_of(" \n");
    return begin == std::string::npos ? "" : text.substr(begin, end + 1 - begin);
  }

 private:
  ocellus_model* model_ = nullptr;
  ocellus_engine* engine_ = nullptr;
  ocellus_session* session_ = nullptr;
};

TEST_SUITE("long") {
  TEST_CASE("the bundled model says what made-up scenes show, in every format") {
    Captioner captioner;
    int right = 0, asked = 0;
    for (const char* format : {"rgb24", "nv12", "yuyv422", "mjpeg"}) {
      for (uint64_t seed = 0; seed < 6; ++seed) {
        SyntheticSource source({.name = "synthetic",
                                .format = format,
                                .faults = "skip@1:" + std::to_string(200 * seed + 1),
                                .seed = seed});
        Frame frame;
        REQUIRE(source.next(&frame, milliseconds(1000)).kind == SourceEvent::kFrame);
        const std::string caption = captioner.caption(frame);
        ++asked;
        right += caption == frame.truth;
        if (caption != frame.truth) MESSAGE(format << ": " << frame.truth << " / " << caption);
      }
    }
    CHECK(asked == 24);
    CHECK(right >= 22);
  }
}

}  // namespace
}  // namespace ocellus::app
