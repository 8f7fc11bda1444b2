// Pictures of a directory.
#include <sys/stat.h>

#include "apps/camera/directory_source.h"
#include "apps/camera/picture_decode.h"
#include "tests/apps/camera/support.h"
#include "tests/support/webp_files.h"

namespace ocellus::app {
namespace {

using test::Bytes;
using test::contains;

SourceOptions quick(const std::string& path, bool loop = false) {
  return {.name = path, .frames_per_second = 1000, .loop = loop};
}

TEST_CASE("names come in the order in which people count") {
  const char* ordered[] = {"a.jpg",
                           "frame1.jpg",
                           "frame01.jpg",
                           "frame2.jpg",
                           "frame9.jpg",
                           "frame10.jpg",
                           "frame10b.jpg",
                           "frame99999999999999999999.jpg",
                           "frame100000000000000000000.jpg",
                           "g.jpg"};
  for (size_t i = 0; i < std::size(ordered); ++i) {
    for (size_t j = 0; j < std::size(ordered); ++j) {
      if (i == 1 && j == 2) continue;  // the same number: either way, but always the same
      if (i == 2 && j == 1) continue;
      CHECK(comes_before(ordered[i], ordered[j]) == (i < j));
    }
  }
  CHECK(comes_before("frame1.jpg", "frame01.jpg") != comes_before("frame01.jpg", "frame1.jpg"));
}

TEST_CASE("a directory's pictures come in natural order, and files that are none are reported and skipped") {
  const test::TemporaryFolder folder;
  const Bytes png = test::read_whole(test::kSamples + "board_02.png");
  const Bytes jpeg = test::scene_jpeg(64, 48, 1);
  test::write_whole(folder.file("p10.png"), png);
  test::write_whole(folder.file("p9.JPG"), test::strip_tables(jpeg));
  test::write_whole(folder.file("p2.jpeg"), jpeg);
  test::write_whole(folder.file("p3.jpg"), test::to_bytes("this is text"));
  test::write_whole(folder.file("p4.jpg"), Bytes(jpeg.begin(), jpeg.begin() + 500));
  test::write_whole(folder.file("p5.png"), {});
  test::write_whole(folder.file("notes.txt"), test::to_bytes("not looked at"));
  test::write_whole(folder.file(".hidden.jpg"), jpeg);
  REQUIRE(::mkfifo(folder.file("p6.jpg").c_str(), 0600) == 0);
  std::filesystem::create_directory(folder.file("p7.jpg"));
  std::filesystem::create_symlink(folder.file("gone"), folder.file("p8.jpg"));
  const auto source = open_source(quick(folder.path()));
  std::vector<Frame> frames;
  const auto events = test::collect(*source, &frames);
  REQUIRE(frames.size() == 3);
  CHECK(frames[0].bytes == jpeg);
  CHECK(frames[1].bytes.size() > test::strip_tables(jpeg).size());
  CHECK(frames[1].width == 64);
  CHECK(frames[2].bytes == png);
  CHECK(frames[2].width == 256);
  CHECK(test::count_kind(events, SourceEvent::kBroken) == 6);
  CHECK(events.back().kind == SourceEvent::kEnd);
  for (size_t i = 1; i < 7; ++i) {
    CHECK(events[i].kind == SourceEvent::kBroken);
    CHECK_MESSAGE(contains(events[i].what, "p" + std::to_string(i + 2) + "."), events[i].what);
  }
}

TEST_CASE("pictures that come while a directory is shown are shown, too, and then it ends") {
  const test::TemporaryFolder folder;
  test::write_whole(folder.file("b.jpg"), test::scene_jpeg(64, 48, 1));
  const auto source = open_source(quick(folder.path()));
  Frame frame;
  CHECK(source->next(&frame, test::milliseconds(100)).kind == SourceEvent::kFrame);
  test::write_whole(folder.file("a.jpg"), test::scene_jpeg(32, 32, 1));  // earlier by name, but new
  CHECK(source->next(&frame, test::milliseconds(100)).kind == SourceEvent::kFrame);
  CHECK(frame.width == 32);
  CHECK(source->next(&frame, test::milliseconds(100)).kind == SourceEvent::kEnd);
}

TEST_CASE("a looped directory starts again, shows what has changed, and is lost and found") {
  const test::TemporaryFolder folder;
  for (const char* name : {"1.jpg", "2.jpg"}) test::write_whole(folder.file(name), test::scene_jpeg(64, 48, 1));
  const auto source = open_source(quick(folder.path(), true));
  std::vector<Frame> frames;
  test::collect(*source, &frames, 6);
  CHECK(frames.size() == 6);
  test::write_whole(folder.file("0.jpg"), test::scene_jpeg(32, 32, 1));
  frames.clear();
  test::collect(*source, &frames, 3);
  REQUIRE(frames.size() == 3);
  CHECK(frames[0].width == 32);
  std::filesystem::rename(folder.path(), folder.path() + "-away");
  const auto events = test::collect(*source, nullptr, 10);
  CHECK(events.back().kind == SourceEvent::kLost);
  CHECK(source->can_reopen());
  CHECK(test::failure_of([&] { source->reopen(); }) != "");
  std::filesystem::rename(folder.path() + "-away", folder.path());
  source->reopen();
  CHECK(test::collect(*source, nullptr, 1).back().kind == SourceEvent::kFrame);
}

TEST_CASE("a looped directory with nothing usable takes its time and does not end") {
  const test::TemporaryFolder folder;
  test::write_whole(folder.file("1.jpg"), test::to_bytes("no picture"));
  const auto source = open_source({.name = folder.path(), .frames_per_second = 50, .loop = true});
  const auto begin = std::chrono::steady_clock::now();
  const auto events = test::collect(*source, nullptr, 10);
  CHECK(test::count_kind(events, SourceEvent::kBroken) == 10);
  CHECK(std::chrono::steady_clock::now() - begin > test::milliseconds(100));
}

#ifdef OCELLUS_HAS_WEBP
TEST_CASE("a WebP is a picture of a directory like others, and one is a directory of one") {
  const test::TemporaryFolder folder;
  const Bytes rgba(size_t{4} * 30 * 20, 77), webp = ocellus::testing::lossless_webp(rgba, 30, 20, false);
  test::write_whole(folder.file("1.webp"), webp);
  test::write_whole(folder.file("2.WEBP"), Bytes(webp.begin(), webp.end() - 1));
  const auto source = open_source(quick(folder.path()));
  std::vector<Frame> frames;
  const auto events = test::collect(*source, &frames);
  REQUIRE(frames.size() == 1);
  CHECK(test::count_kind(events, SourceEvent::kBroken) == 1);
  CHECK(frames[0].bytes == webp);
  Picture picture;
  REQUIRE(decode_rgb(frames[0], &picture));
  CHECK(picture.width == 30);
  CHECK(picture.pixels == Bytes(size_t{3} * 30 * 20, 77));
  const auto single = open_source(quick(folder.file("1.webp")));
  CHECK(test::collect(*single, nullptr).size() == 2);
}
#endif

TEST_CASE("a directory is paced at one picture a second, and one PNG is a directory of one") {
  const test::TemporaryFolder folder;
  test::write_whole(folder.file("1.png"), test::read_whole(test::kSamples + "board_02.png"));
  test::write_whole(folder.file("2.jpg"), test::scene_jpeg(64, 48, 1));
  const auto source = open_source({.name = folder.path()});
  CHECK(source->frames_per_second() == 1);
  Frame frame;
  CHECK(source->next(&frame, test::milliseconds(0)).kind == SourceEvent::kFrame);
  const int64_t first_ns = frame.time_ns();
  CHECK(source->next(&frame, test::milliseconds(50)).kind == SourceEvent::kTimeout);
  CHECK(source->next(&frame, test::milliseconds(1500)).kind == SourceEvent::kFrame);
  CHECK(frame.time_ns() - first_ns == 1'000'000'000);
  const auto single = open_source(quick(folder.file("1.png")));
  CHECK(test::collect(*single, nullptr).size() == 2);
  const auto again = open_source(quick(folder.file("1.png"), true));
  CHECK(test::collect(*again, nullptr, 5).size() == 5);
  CHECK(contains(test::failure_of([] {
                   const test::TemporaryFolder empty;
                   open_source(quick(empty.path()));
                 }),
                 "holds no pictures"));
}

}  // namespace
}  // namespace ocellus::app
