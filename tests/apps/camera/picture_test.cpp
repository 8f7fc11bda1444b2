// JPEG repair, decoding, conversion, pictures for people and the change gate.
#include "apps/camera/change_gate.h"
#include "apps/camera/jpeg.h"
#include "apps/camera/jpeg_repair.h"
#include "apps/camera/picture_decode.h"
#include "apps/camera/pixel_convert.h"
#include "tests/apps/camera/support.h"

namespace ocellus::app {
namespace {

using test::Bytes;

constexpr size_t kTablesBytes = 420;  // marker, length and the standard's four tables

Frame encoded(const Bytes& bytes) {
  Frame frame;
  frame.bytes = bytes;
  CHECK(finish_encoded(&frame) == "");
  return frame;
}

Frame raw(int32_t format, int32_t width, int32_t height, uint8_t value = 100) {
  Frame frame;
  frame.kind = FrameKind::kPixels;
  frame.pixel_format = format;
  frame.width = width;
  frame.height = height;
  frame.bytes.assign(static_cast<size_t>(pixel_bytes(format, width, height)), value);
  return frame;
}

Frame scene(const std::string& format, uint64_t seed, int32_t width = 640, int32_t height = 480) {
  SyntheticSource source({.name = "synthetic", .format = format, .width = width, .height = height, .seed = seed});
  Frame frame;
  CHECK(source.next(&frame, test::milliseconds(1000)).kind == SourceEvent::kFrame);
  return frame;
}

double mean_difference(const Picture& a, const Picture& b) {
  REQUIRE(a.pixels.size() == b.pixels.size());
  double sum = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) sum += std::abs(int{a.pixels[i]} - int{b.pixels[i]});
  return sum / static_cast<double>(a.pixels.size());
}

TEST_CASE("a JPEG without its Huffman tables decodes to the same pixels once they are inserted") {
  for (const char* name : {"board_01.jpg", "board_04.jpg"}) {
    const Bytes whole = test::read_whole(test::kSamples + name), bare = test::strip_tables(whole);
    REQUIRE(bare.size() < whole.size());
    Frame as_it_came;
    as_it_came.bytes = bare;
    Picture expected, picture;
    REQUIRE(decode_rgb(encoded(whole), &expected));
    CHECK(decode_rgb(as_it_came, &picture));
    CHECK(picture.pixels == expected.pixels);
    const Frame repaired = encoded(bare);
    CHECK(repaired.bytes.size() == bare.size() + kTablesBytes);
    REQUIRE(decode_rgb(repaired, &picture));
    CHECK(picture.pixels == expected.pixels);
    CHECK(picture.width == 256);
  }
}

TEST_CASE("JPEG that has its tables and anything else stay as they are") {
  Bytes whole = test::read_whole(test::kSamples + "board_01.jpg");
  const Bytes before = whole;
  CHECK(!insert_huffman_tables(&whole));
  CHECK(whole == before);
  test::Random random(3);
  for (int64_t size = 0; size < 400; ++size) {
    Bytes noise = random.bytes(size);
    const Bytes kept = noise;
    CHECK(!insert_huffman_tables(&noise));
    CHECK(noise == kept);
  }
  const Bytes bare = test::strip_tables(before);
  for (size_t cut = 0; cut < 300; ++cut) {  // cut before the scan there is nowhere to insert
    Bytes part(bare.begin(), bare.begin() + static_cast<std::ptrdiff_t>(cut));
    const bool inserted = insert_huffman_tables(&part);
    CHECK(part.size() == cut + (inserted ? kTablesBytes : 0));
  }
}

TEST_CASE("sound JPEGs decode, whatever their size and however they were made") {
  Picture picture;
  for (const auto& [width, height] : {std::pair{16, 16}, {18, 34}, {64, 48}, {162, 118}, {640, 480}}) {
    for (uint64_t seed = 1; seed <= 8; ++seed)
      CHECK(decode_rgb(encoded(test::scene_jpeg(width, height, seed)), &picture));
  }
  Bytes padded = test::scene_jpeg(64, 48, 1);  // as some cameras fill up their buffers
  padded.insert(padded.end() - 2, 500, 0);
  CHECK(decode_rgb(encoded(padded), &picture));
}

#ifdef OCELLUS_HAS_JPEG  // stb_image tells of no damage inside the data
TEST_CASE("a camera's JPEG that lacks its end marker alone gets that") {
  const Bytes whole = test::scene_jpeg(64, 48, 1);
  const Bytes open(whole.begin(), whole.end() - 2), bare = test::strip_tables(open);
  CHECK(encoded(open).bytes == whole);
  Picture expected, picture;
  REQUIRE(decode_rgb(encoded(whole), &expected));
  REQUIRE(decode_rgb(encoded(bare), &picture));
  CHECK(picture.pixels == expected.pixels);
  Bytes ended = open;
  CHECK(append_end(&ended));
  CHECK(ended == whole);
  Frame cut;
  cut.bytes.assign(whole.begin(), whole.end() - 60);
  const Bytes before = cut.bytes;
  CHECK(!append_end(&cut.bytes));
  CHECK(cut.bytes == before);
  CHECK(test::contains(finish_encoded(&cut), "truncated"));
}

TEST_CASE("a simulated camera's damage is found in every frame") {
  SyntheticSource source(
      {.name = "synthetic", .format = "mjpeg", .width = 320, .height = 240, .faults = "damaged%1", .seed = 3});
  for (int i = 0; i < 60; ++i) {
    Frame frame;
    REQUIRE(source.next(&frame, test::milliseconds(1000)).kind == SourceEvent::kFrame);
    Picture picture;
    CHECK(!decode_rgb(frame, &picture));
  }
}

// What libjpeg-turbo 2.1.5 reports, and what a walk of our own over all codes has found, of 300 damages each to noisy
// frames of 640 x 480. JPEG has no checksum: damage that leaves another valid picture cannot be found.
//   damage           4:2:2       with restarts   own tables  progressive
//   cut              300, 300    300, 300        300, 300    290, 0
//   bytes lost       300, 300    298, 298        295, 296    277, 0
//   bytes zeroed     300, 300    300, 300        289, 298    276, 0
//   frames joined    297, 297    297, 269        298, 298    295, 0
//   restart changed              300, 0
//   8 bytes changed  281, 281    278, 278        32, 144     252, 0
//   1 byte changed   167, 167    163, 163        2, 18       120, 0
//   bytes inserted   159, 210    197, 231        259, 267    290, 0
// Cameras lose data and use the standard's tables, in their frames or left out, which makes no difference.
TEST_CASE("of lost data damage is always found, of changed bytes often, and any bytes may be looked at") {
  const Bytes next = test::scene_jpeg(320, 240, 2), tabled = test::scene_jpeg(320, 240, 1);
  for (const Bytes& whole : {tabled, test::strip_tables(tabled)}) {
    CAPTURE(whole.size());
    const int64_t data = std::ssize(whole) < std::ssize(tabled) ? 280 : 700, end = std::ssize(whole) - 2;
    test::Random random(8);
    const auto damaged = [&](int kind) {
      const int64_t at = random.integer(data, end - 40), until = std::min(end, at + random.integer(20, 900));
      const auto place = [](Bytes& bytes, int64_t of) { return bytes.begin() + static_cast<std::ptrdiff_t>(of); };
      Bytes changed = whole;
      switch (kind) {
        case 0: changed.erase(place(changed, at), place(changed, end)); break;    // cut
        case 1: changed.erase(place(changed, at), place(changed, until)); break;  // a packet lost
        case 2: std::fill(place(changed, at), place(changed, until), 0); break;   // or zeroed
        case 3:                                                                   // two frames joined
          changed.erase(place(changed, at), changed.end());
          changed.insert(changed.end(), next.end() - random.integer(100, std::ssize(next) - 700), next.end());
          break;
        default: changed[static_cast<size_t>(at)] ^= static_cast<uint8_t>(random.integer(1, 255));
      }
      return changed;
    };
    constexpr int kRounds = 200;
    int found[5] = {};
    Picture picture;
    for (int round = 0; round < kRounds; ++round) {
      for (int kind = 0; kind < 5; ++kind) {
        Frame frame;
        frame.bytes = damaged(kind);
        found[kind] += finish_encoded(&frame).empty() && decode_rgb(frame, &picture) ? 0 : 1;
        for (int i = 0; i < 4; ++i)  // headers, too
          frame.bytes[static_cast<size_t>(random.integer(2, std::ssize(frame.bytes) - 1))] =
              static_cast<uint8_t>(random.bits());
        (void)append_end(&frame.bytes);
      }
      Bytes noise = random.bytes(round);
      CHECK(!append_end(&noise));
    }
    MESSAGE("of ", kRounds, " damages found: cut ", found[0], ", lost ", found[1], ", zeroed ", found[2], ", joined ",
            found[3], ", one byte ", found[4]);
    CHECK(found[0] == kRounds);
    CHECK(found[1] >= kRounds * 97 / 100);
    CHECK(found[2] >= kRounds * 97 / 100);
    CHECK(found[3] >= kRounds * 85 / 100);  // a second frame much like the first
    CHECK(found[4] > kRounds / 4);
  }
}
#endif

TEST_CASE("damaged pictures are refused in a sentence and never crash") {
  const Bytes jpeg = test::scene_jpeg(160, 120, 1), png = test::read_whole(test::kSamples + "board_02.png");
  test::Random random(7);
  int64_t refused = 0;
  for (const Bytes* whole : {&jpeg, &png}) {
    for (int round = 0; round < 400; ++round) {
      Frame frame;
      frame.bytes = *whole;
      if (round % 2 == 0) {
        frame.bytes.resize(static_cast<size_t>(random.integer(0, static_cast<int64_t>(whole->size()) - 1)));
      } else {
        for (int i = 0; i < 8; ++i) {
          frame.bytes[static_cast<size_t>(random.integer(0, static_cast<int64_t>(whole->size()) - 1))] =
              static_cast<uint8_t>(random.bits());
        }
      }
      Picture picture;
      const std::string wrong = finish_encoded(&frame);
      if (!wrong.empty()) {
        ++refused;
        CHECK(wrong.back() == '.');
        CHECK(!decode_rgb(frame, &picture));
      } else if (decode_rgb(frame, &picture)) {
        CHECK(picture.width == frame.width);
        CHECK(picture.pixels.size() == 3u * static_cast<size_t>(frame.width) * static_cast<size_t>(frame.height));
      }
    }
  }
  CHECK(refused >= 390);
  Frame empty;
  CHECK(test::contains(finish_encoded(&empty), "no bytes"));
}

TEST_CASE("a PNG that claims to be huge is refused before it is decoded") {
  Bytes png = test::read_whole(test::kSamples + "board_02.png");
  for (const int side : {20'000, 65'501}) {
    for (const size_t end : {18, 22}) {  // of IHDR's width and height
      png[end] = static_cast<uint8_t>(side >> 8);
      png[end + 1] = static_cast<uint8_t>(side & 255);
    }
    Frame frame;
    frame.bytes = png;
    CHECK(finish_encoded(&frame) != "");
    Picture picture;
    CHECK(!decode_rgb(frame, &picture));
  }
}

TEST_CASE("raw formats show the same picture") {
  Picture expected, picture;
  REQUIRE(decode_rgb(scene("rgb24", 5), &expected));
  for (const char* format : {"nv12", "yuyv422", "mjpeg"}) {
    CAPTURE(format);
    REQUIRE(decode_rgb(scene(format, 5), &picture));
    CHECK(picture.width == 640);
    CHECK(mean_difference(picture, expected) < 1.5);  // chroma is shared by pixels on both sides of edges
  }
  Frame grey = raw(OCELLUS_GRAY8, 6, 4, 77);
  REQUIRE(decode_rgb(grey, &picture));
  CHECK(picture.pixels == Bytes(72, 77));
  Frame rgba = raw(OCELLUS_RGBA8, 5, 3, 9);
  for (size_t i = 3; i < rgba.bytes.size(); i += 4) rgba.bytes[i] = 255;
  REQUIRE(decode_rgb(rgba, &picture));
  CHECK(picture.pixels == Bytes(45, 9));
  for (size_t i = 3; i < rgba.bytes.size(); i += 4) rgba.bytes[i] = 0;
  REQUIRE(decode_rgb(rgba, &picture));
  CHECK(picture.pixels == Bytes(45, 255));  // as the model sees it: on white
  for (const int32_t format : {OCELLUS_BGR8, OCELLUS_BGRA8}) {
    Frame bgr = raw(format, 5, 3, 0);
    const size_t step = format == OCELLUS_BGR8 ? 3 : 4;
    for (size_t i = 3; step == 4 && i < bgr.bytes.size(); i += 4) bgr.bytes[i] = 255;
    for (size_t i = 0; i < bgr.bytes.size(); i += step) bgr.bytes[i] = 200;  // blue
    REQUIRE(decode_rgb(bgr, &picture));
    for (size_t i = 0; i < 45; ++i) CHECK(picture.pixels[i] == (i % 3 == 2 ? 200 : 0));
  }
}

TEST_CASE("luma of the full range and of the limited one are told apart") {
  Picture picture;
  Frame frame = raw(OCELLUS_NV12, 4, 4, 128);
  for (size_t i = 0; i < 16; ++i) frame.bytes[i] = 235;
  REQUIRE(decode_rgb(frame, &picture));
  CHECK(picture.pixels == Bytes(48, 255));
  frame.full_range = true;
  REQUIRE(decode_rgb(frame, &picture));
  CHECK(picture.pixels == Bytes(48, 235));
}

TEST_CASE("pictures for people are JPEG files of at most the size asked for") {
  for (const char* format : {"rgb24", "nv12", "yuyv422", "mjpeg"}) {
    CAPTURE(format);
    const Frame frame = scene(format, 6);
    Bytes jpeg;
    Picture picture, expected;
    REQUIRE(make_jpeg(frame, 0, &jpeg));
    REQUIRE(decode_rgb(encoded(jpeg), &picture));
    REQUIRE(decode_rgb(frame, &expected));
    CHECK(mean_difference(picture, expected) < 2);
    REQUIRE(make_jpeg(frame, 160, &jpeg));
    const Frame small = encoded(jpeg);
    CHECK(small.width == 160);
    CHECK(small.height == 120);
    CHECK(jpeg.size() < 8000);
  }
  const Frame tall = raw(OCELLUS_GRAY8, 10, 1000);
  Bytes jpeg;
  REQUIRE(make_jpeg(tall, 50, &jpeg));
  CHECK(encoded(jpeg).width == 1);
  Frame damaged = scene("mjpeg", 6);
  const Bytes whole = damaged.bytes;
  REQUIRE(make_jpeg(damaged, 0, &jpeg));
  CHECK(jpeg == whole);  // nothing to shrink, so copied
  damaged.bytes.resize(damaged.bytes.size() / 3);
  CHECK(!make_jpeg(damaged, 100, &jpeg));
  Frame short_frame = raw(OCELLUS_NV12, 8, 8);
  short_frame.bytes.pop_back();
  CHECK(!make_jpeg(short_frame, 0, &jpeg));
}

TEST_CASE("a transparent PNG is shown on white") {
  // 1 x 1 RGBA, half transparent black, written by hand: IHDR, IDAT of stored bytes, IEND.
  const Bytes png = {0x89, 'P',  'N',  'G', 13, 10,  26,  10,  0,    0,    0,    13,   'I',  'H', 'D',
                     'R',  0,    0,    0,   1,  0,   0,   0,   1,    8,    6,    0,    0,    0,   0x1F,
                     0x15, 0xC4, 0x89, 0,   0,  0,   16,  'I', 'D',  'A',  'T',  0x78, 0x01, 1,   5,
                     0,    0xFA, 0xFF, 0,   0,  0,   0,   128, 0x02, 0x85, 0x00, 0x81, 0,    0,   0,
                     0,    0,    0,    0,   0,  'I', 'E', 'N', 'D',  0xAE, 0x42, 0x60, 0x82};
  Picture picture;
  REQUIRE(decode_rgb(encoded(png), &picture));
  CHECK(picture.pixels == Bytes(3, 127));
}

TEST_CASE("the change gate passes frames that show something new and no others") {
  for (const char* format : {"rgb24", "nv12", "yuyv422", "mjpeg"}) {
    CAPTURE(format);
    ChangeGate gate(0.1);
    const Frame first = scene(format, 1), other = scene(format, 2);
    CHECK(gate.change(first) == 1);
    CHECK(gate.pass());
    CHECK(gate.change(first) == 0);
    CHECK(!gate.pass());
    CHECK(gate.change(other) > 0.1);
    CHECK(gate.change(first) == 0);  // still compared with the one that passed
    CHECK(gate.change(other) > 0.1);
    CHECK(gate.pass());
    CHECK(gate.change(first) > 0.1);
    CHECK(gate.change(scene(format, 2, 320, 240)) == 1);
    CHECK(gate.pass());
  }
}

TEST_CASE("the change gate sees a color that is as bright as the one before") {
  Frame frame = raw(OCELLUS_RGB8, 64, 48, 100);
  ChangeGate gate(0.1);
  gate.change(frame);
  CHECK(gate.pass());
  for (size_t i = 0; i < frame.bytes.size(); i += 3) {
    frame.bytes[i] = 160;
    frame.bytes[i + 1] = 70;
  }
  CHECK(gate.change(frame) == doctest::Approx(60 / 255.0));
}

TEST_CASE("the change gate measures the cell that changes most, in shares of full brightness") {
  ChangeGate gate(0.2);
  Frame frame = raw(OCELLUS_GRAY8, 320, 240, 100);
  gate.change(frame);
  CHECK(gate.pass());
  for (int y = 100; y < 120; ++y) {
    for (int x = 100; x < 120; ++x) frame.bytes[static_cast<size_t>(320 * y + x)] = 151;
  }
  CHECK(gate.change(frame) == doctest::Approx(0.2));
  CHECK(gate.pass());
  gate.set_threshold(0);
  CHECK(gate.change(frame) == 0);
  CHECK(gate.pass());
  // A frame that cannot be decoded has changed, and so has the one after it.
  Frame damaged;
  damaged.bytes = {0xFF, 0xD8, 0xFF, 0x00};
  CHECK(gate.change(damaged) == 1);
  CHECK(gate.pass());
  CHECK(gate.change(frame) == 1);
  // Pictures smaller than the cells.
  for (const int32_t side : {1, 2, 5, 31, 33}) {
    const Frame tiny = raw(OCELLUS_RGB8, side, side);
    gate.change(tiny);
    CHECK(gate.pass());
    CHECK(gate.change(tiny) == 0);
  }
}

}  // namespace
}  // namespace ocellus::app
