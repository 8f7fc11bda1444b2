// Frames out of a stream of JPEG files, whatever stands between them and however it is cut.
#include "apps/camera/jpeg_splitter.h"
#include "tests/apps/camera/support.h"

namespace ocellus::app {
namespace {

using test::Bytes;
using test::operator+;

/// The bytes that a damaged length may claim for a segment must arrive before the damage shows.
const Bytes kMore(66'000, 0);

struct Split {
  std::vector<Bytes> frames;
  std::vector<std::string> broken;
  bool cut_at_end = false;
  size_t most_held = 0;
};

/// Pushes the stream in pieces of at most `most` bytes.
Split split(const Bytes& stream, size_t most, uint64_t seed = 1) {
  test::Random random(seed);
  JpegSplitter splitter;
  Split result;
  Bytes frame;
  for (size_t at = 0; at < stream.size();) {
    const size_t piece =
        std::min<size_t>(stream.size() - at, static_cast<size_t>(random.integer(1, static_cast<int64_t>(most))));
    splitter.push(stream.data() + at, piece);
    at += piece;
    for (bool on = true; on;) {
      std::string what;
      switch (splitter.next(&frame, &what)) {
        case JpegSplitter::kNeedMore: on = false; break;
        case JpegSplitter::kFrame: result.frames.push_back(frame); break;
        case JpegSplitter::kBroken: result.broken.push_back(what); break;
      }
    }
    result.most_held = std::max(result.most_held, splitter.held_bytes());
  }
  result.cut_at_end = splitter.finish();
  return result;
}

std::vector<Bytes> three_frames() {
  return {test::scene_jpeg(64, 48, 1), test::scene_jpeg(160, 120, 2),
          test::read_whole(test::kSamples + "board_01.jpg")};
}

/// Inserts an APP1 segment with a whole JPEG after the first marker.
Bytes with_thumbnail(const Bytes& jpeg, const Bytes& thumbnail) {
  const size_t length = thumbnail.size() + 2;
  REQUIRE(length < 65536);
  Bytes out = {0xFF, 0xD8, 0xFF, 0xE1, static_cast<uint8_t>(length >> 8), static_cast<uint8_t>(length & 255)};
  out = out + thumbnail;
  out.insert(out.end(), jpeg.begin() + 2, jpeg.end());
  return out;
}

TEST_CASE("frames come out whole, however the stream is cut") {
  const std::vector<Bytes> frames = three_frames();
  const Bytes stream = frames[0] + frames[1] + frames[2] + frames[1];
  for (const size_t most : {1, 2, 3, 7, 100, 5000, 1 << 20}) {
    CAPTURE(most);
    const Split result = split(stream, most, most);
    REQUIRE(result.frames.size() == 4);
    for (size_t i = 0; i < 4; ++i) CHECK(result.frames[i] == frames[i == 3 ? 1 : i]);
    CHECK(result.broken.empty());
    CHECK(!result.cut_at_end);
  }
}

TEST_CASE("what stands between frames is skipped") {
  const std::vector<Bytes> frames = three_frames();
  const Bytes header = test::to_bytes("\r\n--boundary\r\nContent-Type: image/jpeg\r\nContent-Length: 123\r\n\r\n");
  const Bytes zeros(500, 0), markers = {0xFF, 0xFF, 0xFF, 0xD9, 0xFF, 0x00, 0xFF, 0xD8, 0x00, 0xFF};
  const Split result = split(header + frames[0] + header + zeros + frames[1] + markers + frames[2] + header, 37);
  REQUIRE(result.frames.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(result.frames[i] == frames[i]);
  CHECK(result.broken.empty());
  CHECK(!result.cut_at_end);
}

TEST_CASE("much that is no JPEG is reported once and the frame behind it is found") {
  test::Random random(5);
  Bytes noise = random.bytes(300'000);
  for (uint8_t& byte : noise) byte = byte == 0xFF ? 0 : byte;
  const Bytes frame = test::scene_jpeg(64, 48, 1);
  const Split result = split(noise + frame, 4096);
  REQUIRE(result.frames.size() == 1);
  CHECK(result.frames[0] == frame);
  REQUIRE(result.broken.size() == 1);
  CHECK(test::contains(result.broken[0], "no JPEG"));
  CHECK(result.most_held < 10'000);
}

TEST_CASE("a thumbnail inside of a segment ends no frame") {
  const Bytes thumbnail = test::scene_jpeg(32, 32, 3);
  const Bytes frame = with_thumbnail(test::scene_jpeg(160, 120, 4), thumbnail);
  for (const size_t most : {1, 50, 100'000}) {
    const Split result = split(frame + frame, most);
    REQUIRE(result.frames.size() == 2);
    CHECK(result.frames[0] == frame);
    CHECK(result.frames[1] == frame);
    CHECK(result.broken.empty());
  }
}

TEST_CASE("a frame cut short anywhere costs no other frame") {
  const std::vector<Bytes> frames = three_frames();
  test::Random random(9);
  int64_t complete = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    // Every place of the headers, then anywhere.
    const size_t cut = round < 200 ? static_cast<size_t>(round) + 1
                                   : static_cast<size_t>(random.integer(2, static_cast<int64_t>(frames[1].size()) - 3));
    const Bytes cut_short(frames[1].begin(), frames[1].begin() + static_cast<std::ptrdiff_t>(cut));
    const Split result =
        split(frames[0] + cut_short + frames[2] + frames[0] + kMore, 999, static_cast<uint64_t>(round));
    CHECK(result.frames.front() == frames[0]);
    CHECK(result.frames.back() == frames[0]);
    // If the cut is in a table and the next frame continues at one of its own markers, both form one picture.
    complete += result.frames.size() == 3 && result.frames[1].size() >= frames[2].size() / 2 &&
                std::equal(frames[2].rbegin(), frames[2].rbegin() + static_cast<std::ptrdiff_t>(frames[2].size() / 2),
                           result.frames[1].rbegin());
    CHECK(result.broken.size() <= 3);
  }
  CHECK(complete == 300);
}

TEST_CASE("the end of the stream inside of a frame is known") {
  const Bytes frame = test::scene_jpeg(64, 48, 1);
  for (size_t cut = 3; cut < frame.size(); cut += 97) {
    const Split result = split(frame + Bytes(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(cut)), 64);
    CHECK(result.frames.size() == 1);
    CHECK(result.cut_at_end);
  }
}

#ifdef OCELLUS_HAS_JPEG  // stb_image does not tell which frames lack their end marker alone
Bytes without_end(const Bytes& jpeg) { return {jpeg.begin(), jpeg.end() - 2}; }

TEST_CASE("frames without end markers come whole, whatever stands between them") {
  const std::vector<Bytes> frames = three_frames();
  const Bytes head =
      test::to_bytes("\r\n--b\r\nContent-Type: image/jpeg\r\nContent-Length: 1234567\r\nX-Timestamp: 1234.567\r\n\r\n");
  for (const Bytes& between : {Bytes(), head, Bytes(9, 0), test::to_bytes("\n--b\n\n")}) {
    for (const size_t most : {1, 64, 1 << 20}) {
      CAPTURE(most);
      const Split result = split(without_end(frames[0]) + between + without_end(frames[1]) + between +
                                     without_end(frames[2]) + between + frames[0],
                                 most);
      REQUIRE(result.frames.size() == 4);
      for (size_t i = 0; i < 4; ++i) {
        const Bytes& frame = result.frames[i];
        const Bytes& whole = frames[i == 3 ? 0 : i];
        CHECK(std::equal(whole.begin(), whole.end() - 2, frame.begin()));
        CHECK(frame.back() == 0xD9);
        if (between.size() != 9) CHECK(frame == whole);
      }
      CHECK(result.broken.empty());
    }
  }
  const Bytes bare = test::strip_tables(without_end(frames[0]));
  const Split result = split(bare + frames[1], 100);
  REQUIRE(result.frames.size() == 2);
  CHECK(result.frames[0].size() > frames[0].size() - 10);
}

TEST_CASE("the last frame without an end marker is there once nothing follows, and a cut one is not") {
  const Bytes whole = test::scene_jpeg(64, 48, 1), open = without_end(whole);
  JpegSplitter splitter;
  std::string what;
  Bytes frame;
  for (size_t at = 0; at < open.size(); at += 50) {
    const size_t count = std::min<size_t>(50, open.size() - at);
    splitter.push(open.data() + at, count);
    CHECK(splitter.next(&frame, &what) == JpegSplitter::kNeedMore);
    CHECK(splitter.pause() == (at + count == open.size()));
  }
  CHECK(splitter.next(&frame, &what) == JpegSplitter::kFrame);
  CHECK(frame == whole);
  CHECK(!splitter.pause());
  CHECK(!splitter.finish());
}
#endif

TEST_CASE("a frame over 32 MiB is broken and skipped, and memory stays bounded") {
  const Bytes frame = test::scene_jpeg(64, 48, 1);
  Bytes endless(frame.begin(), frame.end() - 2);  // no end-of-image marker
  endless.resize(size_t{40} << 20, 0x55);
  const Split result = split(endless + frame, 1 << 20);
  REQUIRE(result.frames.size() == 1);
  CHECK(result.frames[0] == frame);
  REQUIRE(!result.broken.empty());
  CHECK(test::contains(result.broken[0], "32 MiB"));
  CHECK(result.most_held <= (size_t{34} << 20));
}

TEST_CASE("any bytes leave the splitter able to find the next frames") {
  const Bytes frame = test::scene_jpeg(64, 48, 1);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    Bytes noise = random.bytes(random.integer(1, 5000));
    for (uint8_t& byte : noise) {
      if (byte < 60) byte = 0xFF;
      if (byte >= 60 && byte < 80) byte = 0xD8;
    }
    const Split result = split(noise + frame + frame + frame + kMore, 3000, seed);
    REQUIRE(result.frames.size() >= 2);  // the noise's last bytes may make another picture of the first
    CHECK(result.frames[result.frames.size() - 2] == frame);
    CHECK(result.frames.back() == frame);
  }
}

}  // namespace
}  // namespace ocellus::app
