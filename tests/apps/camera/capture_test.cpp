// The thread that keeps the newest frame: what it counts, what it survives and how it stops.
#include "apps/camera/capture.h"

#include <future>

#include "apps/camera/pacer.h"
#include "tests/apps/camera/support.h"
#include "tests/apps/camera/timing.h"

namespace ocellus::app {
namespace {

using test::comes_true;
using test::contains;
using test::EventList;
using test::milliseconds;

CaptureOptions scene(const std::string& faults, double rate = 500, const std::string& format = "") {
  CaptureOptions options;
  options.source = {
      .name = "synthetic", .format = format, .width = 64, .height = 48, .frames_per_second = rate, .faults = faults};
  options.stall_after = milliseconds(60);
  options.first_retry = milliseconds(5);
  options.last_retry = milliseconds(50);
  return options;
}

/// Gives the events that the test puts in; what is in `block` blocks like a system call that does not come back.
class ScriptedSource : public FrameSource {
 public:
  struct Shared {
    std::mutex lock;
    std::condition_variable changed;
    std::deque<SourceEvent> events;
    bool block = false, blocked = false, gone = false;
    int reopened = 0;
    double rate = 0;
    bool reopens = true;
  };
  explicit ScriptedSource(Shared* shared) : shared_(shared) {}
  ~ScriptedSource() override {
    const std::lock_guard<std::mutex> guard(shared_->lock);
    shared_->gone = true;
    shared_->changed.notify_all();
  }
  SourceEvent next(Frame* frame, milliseconds wait) override {
    std::unique_lock<std::mutex> guard(shared_->lock);
    while (shared_->block) {
      shared_->blocked = true;
      shared_->changed.notify_all();
      shared_->changed.wait(guard);
    }
    if (!shared_->changed.wait_for(guard, wait, [&] { return !shared_->events.empty() || shared_->block; })) return {};
    if (shared_->events.empty()) return {};
    const SourceEvent event = shared_->events.front();
    shared_->events.pop_front();
    frame->kind = FrameKind::kPixels;
    frame->pixel_format = OCELLUS_GRAY8;
    frame->width = frame->height = 4;
    frame->bytes.assign(16, static_cast<uint8_t>(++count_));
    frame->captured_ns = monotonic_ns();
    return event;
  }
  std::string describe() const override { return "scripted"; }
  bool can_reopen() const override { return shared_->reopens; }
  void reopen() override {
    const std::lock_guard<std::mutex> guard(shared_->lock);
    ++shared_->reopened;
  }
  double frames_per_second() const override { return shared_->rate; }

 private:
  Shared* shared_;
  int count_ = 0;
};

CaptureOptions scripted(ScriptedSource::Shared* shared) {
  CaptureOptions options = scene("");
  options.open = [shared](const SourceOptions&) { return std::make_unique<ScriptedSource>(shared); };
  return options;
}

void give(ScriptedSource::Shared* shared, const std::vector<SourceEvent>& events) {
  const std::lock_guard<std::mutex> guard(shared->lock);
  shared->events.insert(shared->events.end(), events.begin(), events.end());
  shared->changed.notify_all();
}

TEST_CASE("only the newest frame is kept, and every frame is taken, dropped or waits") {
  ScriptedSource::Shared shared;
  Capture capture(scripted(&shared));
  give(&shared, std::vector<SourceEvent>(10, {.kind = SourceEvent::kFrame}));
  REQUIRE(comes_true([&] { return capture.status().captured == 10; }));
  Frame frame;
  CHECK(capture.take(&frame, milliseconds(0)));
  CHECK(frame.sequence == 10);
  CHECK(frame.bytes == test::Bytes(16, 10));
  CHECK(capture.status().dropped == 9);
  CHECK(!capture.take(&frame, milliseconds(10)));
  CHECK(frame.sequence == 10);  // untouched
  give(&shared, {{.kind = SourceEvent::kFrame, .skipped = 3}});
  CHECK(capture.take(&frame, milliseconds(1000)));
  CHECK(frame.sequence == 11);
  CHECK(capture.status().skipped == 3);
  CHECK(capture.status().dropped == 9);
}

TEST_CASE("frames are counted right while somebody takes them as fast as he can") {
  CaptureOptions options = scene("end@3001", 100'000);
  std::atomic<int64_t> seen{0};
  options.on_frame = [&](const Frame& frame) { seen += frame.sequence > 0; };
  Capture capture(options);
  Frame frame;
  int64_t taken = 0, last = 0;
  while (capture.status().state != SourceState::kEnded || taken == 0 || last < 3000) {
    if (!capture.take(&frame, milliseconds(100))) continue;
    CHECK(frame.sequence > last);
    last = frame.sequence;
    ++taken;
  }
  CHECK(last == 3000);
  CHECK(capture.status().captured == 3000);
  CHECK(capture.status().dropped == 3000 - taken);
  CHECK(seen == 3000);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(!capture.take(&frame, milliseconds(5000)));  // there will be none: no waiting
  CHECK(std::chrono::steady_clock::now() - begin < milliseconds(1000));
}

TEST_CASE("every fault of the made-up camera is counted, shown and survived") {
  EventList events;
  CaptureOptions options = scene(
      "stall@20:0.15s,broken@30:3,truncated@40,damaged@45,resize@50:32x16,unplug@60:0.1s,errors@70:4,skip@80:7,"
      "resize@90:64x48",
      500, "mjpeg");
  options.on_event = events.listener();
  Capture capture(options);
  std::vector<SourceState> states;
  std::string trouble;
  REQUIRE(comes_true([&] {
    const CaptureStatus status = capture.status();
    if (states.empty() || states.back() != status.state) states.push_back(status.state);
    if (!status.trouble.empty()) trouble = status.trouble;
    return status.captured >= 120;
  }));
  const CaptureStatus status = capture.status();
  CHECK(status.stalls == 1);
  CHECK(status.broken == 4);
  CHECK(status.losses == 5);
  CHECK(status.skipped == 7);
  CHECK(status.size_changes == 2);
  CHECK(status.state == SourceState::kRunning);
  CHECK(status.trouble.empty());
  CHECK(status.width == 64);
  CHECK(contains(status.format, "64 x 48 mjpeg"));
  CHECK(std::count(states.begin(), states.end(), SourceState::kStalled) == 1);
  CHECK(std::count(states.begin(), states.end(), SourceState::kLost) >= 1);
  for (const char* part : {"No frame has come for 0.1 s", "Frames arrive again", "marks a frame as broken", "truncated",
                           "size has changed from 64 x 48 to 32 x 16", "unplugged", "input/output error", "is back"}) {
    CHECK_MESSAGE(events.has(part), part);
  }
}

TEST_CASE("a camera that fails for ever is opened again ever more slowly, and shows why") {
  Capture capture(scene("errors@10:1000000"));
  REQUIRE(comes_true([&] { return capture.status().losses >= 6; }));
  // Each after 50 ms.
  CHECK(test::growth_per_10_ms([&] { return capture.status().losses; }, milliseconds(300)) < 0.3);
  const int64_t before = capture.status().losses;
  CHECK(comes_true([&] { return capture.status().losses >= before + 3; }));
  CHECK(capture.status().captured == 9);
  Frame frame;
  CHECK(capture.take(&frame, milliseconds(0)));
  CHECK(!capture.take(&frame, milliseconds(10)));
}

TEST_CASE("frames that are broken for ever do not keep the machine busy, and count as a stall") {
  ScriptedSource::Shared shared;
  EventList events;
  CaptureOptions options = scripted(&shared);
  options.on_event = events.listener();
  Capture capture(options);
  give(&shared, std::vector<SourceEvent>(5000, {.kind = SourceEvent::kBroken, .what = "It is damaged."}));
  REQUIRE(comes_true([&] {
    const CaptureStatus status = capture.status();
    return status.state == SourceState::kStalled && status.broken > 40;  // the first ones come at once
  }));
  CHECK(test::growth_per_10_ms([&] { return capture.status().broken; }, milliseconds(200)) < 2);
  CHECK(capture.status().stalls == 1);
  CHECK(events.has("It is damaged."));
}

TEST_CASE("a slow source is not taken for a stalled one, and a silent one is opened again") {
  ScriptedSource::Shared shared;
  shared.rate = 2;  // a frame is missed after 1.25 s
  CaptureOptions options = scripted(&shared);
  options.reopen_after = milliseconds(1500);
  Capture capture(options);
  give(&shared, {{.kind = SourceEvent::kFrame}});
  std::this_thread::sleep_for(milliseconds(250));
  CHECK(capture.status().state == SourceState::kRunning);
  CHECK(comes_true([&] { return capture.status().state == SourceState::kStalled; }));
  CHECK(comes_true([&] {
    const std::lock_guard<std::mutex> guard(shared.lock);
    return shared.reopened == 1;
  }));
  CHECK(capture.status().losses == 1);
}

TEST_CASE("a source that cannot come back ends, and says why; its last frame can still be taken") {
  ScriptedSource::Shared shared;
  shared.reopens = false;
  Capture capture(scripted(&shared));
  give(&shared, {{.kind = SourceEvent::kFrame}, {.kind = SourceEvent::kLost, .what = "The pipe broke."}});
  REQUIRE(comes_true([&] { return capture.status().state == SourceState::kEnded; }));
  CHECK(capture.status().trouble == "The pipe broke.");
  Frame frame;
  CHECK(capture.take(&frame, milliseconds(0)));
  CHECK(!capture.take(&frame, milliseconds(5000)));
}

TEST_CASE("a source that cannot be opened is refused by the constructor") {
  CaptureOptions options = scene("nonsense");
  CHECK(contains(test::failure_of([&] { Capture capture(options); }), "nonsense"));
}

TEST_CASE("stopping takes at most a tenth of a second, whatever the source does") {
  for (const char* faults : {"", "stall@1:600s", "unplug@1:600s", "broken@1:1000000", "end@1"}) {
    CAPTURE(faults);
    CHECK(test::best_ms([&] {
            const auto capture = std::make_shared<std::unique_ptr<Capture>>(new Capture(scene(faults)));
            std::this_thread::sleep_for(milliseconds(60));
            return [=] { capture->reset(); };
          }) <= 100);
  }
}

TEST_CASE("a source that hangs is left behind, and calls nothing any more when it comes to") {
  ScriptedSource::Shared shared;
  std::atomic<int> calls{0};
  CaptureOptions options = scripted(&shared);
  options.on_frame = [&](const Frame&) { ++calls; };
  options.on_event = [&](const std::string&) { ++calls; };
  auto capture = std::make_unique<Capture>(options);
  give(&shared, {{.kind = SourceEvent::kFrame}});
  REQUIRE(comes_true([&] { return calls == 1; }));
  {
    std::unique_lock<std::mutex> guard(shared.lock);
    shared.block = true;
    shared.changed.notify_all();
    shared.changed.wait(guard, [&] { return shared.blocked; });
  }
  const auto begin = std::chrono::steady_clock::now();
  capture.reset();
  CHECK(std::chrono::steady_clock::now() - begin < milliseconds(1000));
  std::unique_lock<std::mutex> guard(shared.lock);
  CHECK(!shared.gone);
  shared.events.push_back({.kind = SourceEvent::kFrame});
  shared.block = false;
  shared.changed.notify_all();
  shared.changed.wait(guard, [&] { return shared.gone; });
  CHECK(calls == 1);
}

TEST_CASE("frames a second follow what comes") {
  Capture capture(scene("stall@60:600s", 100));
  CHECK(comes_true([&] { return capture.status().captured == 59; }));
  CHECK(capture.status().frames_per_second > 30);
  CHECK(capture.status().frames_per_second < 130);
  CHECK(comes_true([&] { return capture.status().frames_per_second < 20; }));
}

TEST_CASE("states have names") {
  CHECK(std::string(source_state_name(SourceState::kRunning)) == "running");
  CHECK(std::string(source_state_name(SourceState::kStalled)) == "stalled");
  CHECK(std::string(source_state_name(SourceState::kLost)) == "lost");
  CHECK(std::string(source_state_name(SourceState::kEnded)) == "ended");
}

/// Resident memory of the process.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST_SUITE("long") {
  TEST_CASE("memory stays flat over ten thousand frames with faults") {
    for (const char* format : {"rgb24", "mjpeg"}) {
      CAPTURE(format);
      CaptureOptions options =
          scene("broken%97,truncated%131,damaged%57,resize%211:32x16,skip%83:2,errors%997:2,unplug%2003:0.02s", 20'000,
                format);
      options.first_retry = milliseconds(1);
      options.last_retry = milliseconds(4);
      Capture capture(options);
      Frame frame;
      const auto run_to = [&](int64_t captured) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (capture.status().captured < captured && std::chrono::steady_clock::now() < end) {
          capture.take(&frame, milliseconds(20));
        }
        REQUIRE(capture.status().captured >= captured);
        return resident_bytes();
      };
      const int64_t warm = run_to(1000), after = run_to(10'000);
      CHECK(after - warm < 512 << 10);
      CHECK(capture.status().losses >= 10);
      CHECK(capture.status().broken > 100);
    }
  }
}

}  // namespace
}  // namespace ocellus::app
