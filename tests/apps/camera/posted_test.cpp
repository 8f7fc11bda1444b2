// Frames that others hand in: the newest one only, from one sender at a time, told when they are no good or stay away.
#include <fstream>

#include "apps/base/failure.h"
#include "apps/camera/capture.h"
#include "apps/camera/jpeg.h"
#include "apps/camera/posted_source.h"
#include "tests/apps/camera/support.h"

namespace ocellus::app {
namespace {

using test::comes_true;
using test::contains;
using test::EventList;
using test::milliseconds;

std::string make_file(int32_t width, int32_t height) {
  Frame grey;
  grey.kind = FrameKind::kPixels;
  grey.pixel_format = OCELLUS_GRAY8;
  grey.width = width;
  grey.height = height;
  grey.bytes.assign(static_cast<size_t>(width) * static_cast<size_t>(height), 90);
  std::vector<uint8_t> jpeg;
  REQUIRE(make_jpeg(grey, std::max(width, height), &jpeg));
  return {jpeg.begin(), jpeg.end()};
}

SourceOptions browser() { return {.name = "browser", .inbox = std::make_shared<FrameInbox>()}; }

TEST_CASE("of posted frames the newest is read, with its moment of capture, and the others are counted") {
  const SourceOptions options = browser();
  const auto source = open_source(options);
  Frame frame;
  CHECK(source->next(&frame, milliseconds(1)).kind == SourceEvent::kTimeout);
  for (const int32_t width : {32, 48, 64}) CHECK(options.inbox->put("a", make_file(width, 32), 1000 + width));
  const SourceEvent event = source->next(&frame, milliseconds(1000));
  CHECK(event.kind == SourceEvent::kFrame);
  CHECK(event.skipped == 2);
  CHECK(frame.width == 64);
  CHECK(frame.height == 32);
  CHECK(frame.captured_ns == 1064);
  CHECK(source->describe() == "64 x 32 JPEG of a browser's camera");
  CHECK(source->next(&frame, milliseconds(1)).kind == SourceEvent::kTimeout);
}

TEST_CASE("posted bytes that are no JPEG, are cut short or are too large are broken frames") {
  SourceOptions options = browser();
  options.most_posted_pixels = 64 * 48;
  const auto source = open_source(options);
  const std::string whole = make_file(64, 48);
  Frame frame;
  for (const std::string& bytes : {std::string(), std::string("GIF89a"), whole.substr(0, 100), make_file(64, 49)}) {
    CHECK(options.inbox->put("a", bytes, 1));
    const SourceEvent event = source->next(&frame, milliseconds(1000));
    CHECK(event.kind == SourceEvent::kBroken);
    CHECK(event.what.back() == '.');
  }
  CHECK(options.inbox->put("a", whole, 1));
  CHECK(source->next(&frame, milliseconds(1000)).kind == SourceEvent::kFrame);
}

TEST_CASE("one sender at a time: another may send once the first is silent") {
  constexpr int64_t kSilenceNs = 500'000'000;
  FrameInbox inbox(kSilenceNs);
  CHECK(inbox.put("a", "x", 1));
  CHECK_FALSE(inbox.put("b", "x", 1));
  CHECK(inbox.put("a", "x", 1));
  CHECK(comes_true([&] { return inbox.put("b", "x", 1); }));
  CHECK_FALSE(inbox.put("a", "x", 1));
}

TEST_CASE("a sender that stays away is a stall, and told when it is back") {
  EventList events;
  CaptureOptions options;
  options.source = browser();
  options.stall_after = milliseconds(60);
  options.reopen_after = milliseconds(100);
  options.on_event = events.listener();
  Capture capture(options);
  CHECK(comes_true([&] { return capture.status().state == SourceState::kStalled; }));
  CHECK(events.has("No frame has come for"));
  const std::string file = make_file(64, 48);
  CHECK(comes_true([&] {
    options.source.inbox->put("a", file, monotonic_ns());
    return capture.status().state == SourceState::kRunning;
  }));
  CHECK(events.has("Frames arrive again"));
  Frame frame;
  CHECK(capture.take(&frame, milliseconds(1000)));
  CHECK(capture.status().losses == 0);
}

TEST_CASE("a browser's camera needs a page, and chooses its own format") {
  const auto refusal = [](const SourceOptions& options) {
    try {
      open_source(options);
    } catch (const Failure& failure) {
      CHECK(failure.exit_code() == kExitUsage);
      return std::string(failure.what());
    }
    return std::string();
  };
  CHECK(contains(refusal({.name = "browser"}), "--http 127.0.0.1:8080"));
  for (SourceOptions options : {SourceOptions{.format = "nv12"}, {.width = 64, .height = 48}, {.loop = true}}) {
    options.name = "browser";
    options.inbox = std::make_shared<FrameInbox>();
    CHECK(contains(refusal(options), "omit --format"));
  }
}

}  // namespace
}  // namespace ocellus::app
