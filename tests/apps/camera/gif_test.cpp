// Animated GIFs as a source, and still ones as pictures.
#include "apps/camera/picture_decode.h"
#include "tests/apps/camera/support.h"
#include "tests/support/gif_files.h"

namespace ocellus::app {
namespace {

using test::Bytes;
using testing::GifPart;

const Bytes kPalette = {255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9};

Bytes animation(int hundredths) {
  std::vector<GifPart> parts;
  for (uint8_t color = 0; color < 3; ++color)
    parts.push_back({.left = color, .width = 2, .indices = {color, color}, .hundredths = hundredths});
  return testing::make_gif(4, 1, kPalette, parts);
}

TEST_CASE("the frames of an animated GIF come whole, at its mean rate, and again if told to") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("x");
  test::write_whole(path, animation(25));
  const auto source = open_source({.name = path, .paced = false});
  CHECK(source->frames_per_second() == 4);
  CHECK(source->describe() == "4 x 1 GIF of 3 frames, 4 a second");
  std::vector<Frame> frames;
  const auto events = test::collect(*source, &frames);
  REQUIRE(frames.size() == 3);
  CHECK(events.back().kind == SourceEvent::kEnd);
  CHECK(frames[0].bytes == Bytes{255, 0, 0, 255, 0, 0, 255, 255, 255, 255, 255, 255});
  CHECK(frames[2].bytes == Bytes{255, 0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 255});
  CHECK(frames[2].kind == FrameKind::kPixels);
  CHECK(frames[2].file_ns == 750'000'000);
  frames.clear();
  test::collect(*open_source({.name = path, .paced = false, .loop = true}), &frames, 7);
  REQUIRE(frames.size() == 7);
  CHECK(frames[3].bytes == Bytes{255, 0, 0, 255, 0, 0, 255, 255, 255, 255, 255, 255});
  test::write_whole(path, animation(0));  // as fast as may be
  CHECK(open_source({.name = path})->frames_per_second() == 10);
}

TEST_CASE("a frame with damaged data ends an animation") {
  const test::TemporaryFolder folder;
  Bytes file = animation(10);
  GifPart part{.width = 4, .indices = {1}};
  file = testing::make_gif(4, 1, kPalette, {part, part});
  test::write_whole(folder.file("x"), file);
  const auto events = test::collect(*open_source({.name = folder.file("x"), .paced = false}), nullptr);
  REQUIRE(events.size() == 2);
  CHECK(events[0].kind == SourceEvent::kBroken);
  CHECK(test::contains(events[0].what, "end before its picture"));
  CHECK(events[1].kind == SourceEvent::kEnd);
}

TEST_CASE("still pictures of all formats are pictures of a directory, or one picture") {
  const test::TemporaryFolder folder;
  test::write_whole(folder.file("a.gif"), testing::make_gif(2, 1, kPalette, {{.width = 2, .indices = {1, 2}}}));
  test::write_whole(folder.file("b.bmp"),
                    test::read_whole(std::string(OCELLUS_SOURCE_DIR) + "/tests/data/images/picture.bmp"));
  std::vector<Frame> frames;
  test::collect(*open_source({.name = folder.path(), .paced = false}), &frames);
  REQUIRE(frames.size() == 2);
  CHECK(frames[0].width == 2);
  Picture picture;
  REQUIRE(decode_rgb(frames[0], &picture));
  CHECK(picture.pixels == Bytes{0, 255, 0, 0, 0, 255});
  CHECK(decode_rgb(frames[1], &picture));
  frames.clear();
  test::collect(*open_source({.name = folder.file("b.bmp"), .paced = false}), &frames);
  CHECK(frames.size() == 1);
}

}  // namespace
}  // namespace ocellus::app
