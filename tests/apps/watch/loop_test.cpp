// The parts of the loop of `ocellus watch` that need no model: counts, events, history, the choice of frames.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "apps/camera/synthetic_source.h"
#include "apps/watch/frame_intake.h"
#include "apps/watch/watch_history.h"

namespace ocellus::app {
namespace {

namespace fs = std::filesystem;

Record record_of(int64_t id) {
  Record record;
  record.id = id;
  record.captured_ns = monotonic_ns();
  return record;
}

TEST_CASE("a record counts the frames dropped since the record before, and a failed frame has no latency") {
  WatchCounts counts;
  Record failed = record_of(1);
  failed.error = "No such frame.";
  counts.add(5, &failed);
  CHECK(failed.dropped == 5);
  CHECK(counts.latency_state()["last"].is_null());
  Record answered = record_of(2);
  answered.total_ms = 20;
  counts.add(7, &answered);
  CHECK(answered.dropped == 2);
  CHECK(counts.latency_state()["p95"] == 20);
  CHECK(counts.records() == 2);
  CaptureStatus source;
  source.state = SourceState::kLost;
  source.captured = 9;
  source.dropped = 7;
  const auto frames = counts.frames_state(source);
  CHECK(frames["answered"] == 1);
  CHECK(frames["failed"] == 1);
  CHECK(frames["captured"] == 9);
  PrometheusText text;
  counts.add_metrics(source, &text);
  for (const char* line : {"ocellus_frames_total{state=\"dropped\"} 7\n", "ocellus_frames_total{state=\"failed\"} 1\n",
                           "ocellus_source_up 0\n", "ocellus_frame_latency_seconds_count 1\n"}) {
    CHECK_MESSAGE(text.text().find(line) != std::string::npos, line);
  }
}

struct Listener : WatchListener {
  void tell(const char* event, const nlohmann::ordered_json& data) override {
    events.push_back(event + (": " + data.value("text", "")));
  }
  std::vector<std::string> events;
};

TEST_CASE("a history notes once that it cannot be written, and once that it can be again") {
  const fs::path folder = fs::temp_directory_path() / ("ocellus_watch_loop_" + std::to_string(getpid()));
  Listener listener;
  WatchEvents events(/*quiet=*/true, /*json=*/false);
  events.set_listener(&listener);
  WatchHistory history(folder.string(), 1 << 20, &events);
  history.add(record_of(1), {});
  CHECK(listener.events.empty());
  fs::remove_all(folder);
  for (int64_t id : {2, 3}) history.add(record_of(id), {});
  REQUIRE(listener.events.size() == 1);
  CHECK(listener.events[0].find("note: nothing can be written to") == 0);
  CHECK_FALSE(history.state()["trouble"].get<std::string>().empty());
  fs::create_directory(folder);
  for (int64_t id : {4, 5}) history.add(record_of(id), {});
  REQUIRE(listener.events.size() == 2);
  CHECK(listener.events[1] == "note: The history is written to disk again.");
  CHECK(history.state()["trouble"] == "");
  events.set_listener(nullptr);
  events.note("warning", "Nothing is listening.");
  CHECK(listener.events.size() == 2);
  CHECK(WatchHistory("", 0, &events).state().is_null());
  fs::remove_all(folder);
}

// Three equal frames and one that differs.
struct FewFrames : FrameSource {
  SourceEvent next(Frame* frame, std::chrono::milliseconds) override {
    if (++count > 4) return {.kind = SourceEvent::kEnd};
    frame->kind = FrameKind::kPixels;
    frame->pixel_format = OCELLUS_GRAY8;
    frame->width = frame->height = 4;
    frame->sequence = count;
    frame->bytes.assign(16, count < 4 ? 0 : 255);
    return {.kind = SourceEvent::kFrame};
  }
  std::string describe() const override { return "few frames"; }
  int64_t count = 0;
};

TEST_CASE("a frame is answered only when it is due and has changed, and no frame while the watch is paused") {
  CaptureOptions options;
  options.lossless = true;
  options.open = [](const SourceOptions&) { return std::make_unique<FewFrames>(); };
  Capture capture(options);
  WatchControl control({});
  WatchCounts counts;
  FrameIntake intake({&capture, &control, &counts});
  WatchSettings settings;
  settings.change = 0.5;
  settings.paused = true;
  CHECK_FALSE(intake.take(settings));
  settings.paused = false;
  while (!intake.take(settings)) {
  }
  CHECK(intake.frame().sequence == 1);
  settings.every_s = 0.2;
  while (!intake.take(settings)) {
  }
  CHECK(intake.frame().sequence == 4);
  CHECK(intake.change() == 1);
  CHECK(counts.frames_state({})["unchanged"] == 2);
  const int64_t start_ns = monotonic_ns();
  control.ask("What changed?");
  CHECK_FALSE(intake.take(settings));  // not due, and the question ends the wait
  CHECK(control.next_question().has_value());
  CHECK(monotonic_ns() - start_ns < 30'000'000'000);
}

// JPEGs a second apart, the second one damaged.
struct DamagedFrames : FrameSource {
  SourceEvent next(Frame* frame, std::chrono::milliseconds) override {
    if (++count > 9) return {.kind = SourceEvent::kEnd};
    SyntheticSource({.name = "synthetic", .format = "mjpeg", .width = 64, .height = 48}).next(frame, {});
    if (count == 2) frame->bytes.resize(frame->bytes.size() * 7 / 8);
    frame->file_ns = count * 1'000'000'000;
    return {.kind = SourceEvent::kFrame};
  }
  std::string describe() const override { return "damaged frames"; }
  int64_t count = 0;
};

// Takes frames with clips of at most four.
struct ClipTaker {
  explicit ClipTaker(int32_t group)
      : recent({.frames = 4, .frames_per_second = 2}),
        capture(options_for(&recent)),
        intake({&capture, &control, &counts, &recent, group}) {}
  static CaptureOptions options_for(RecentFrames* recent) {
    CaptureOptions options;
    options.lossless = true;
    options.open = [](const SourceOptions&) { return std::make_unique<DamagedFrames>(); };
    options.on_frame = [recent](const Frame& frame) { recent->add(frame); };
    return options;
  }
  std::vector<int64_t> take() {
    while (!intake.take({})) {
    }
    std::vector<int64_t> numbers;
    for (const Frame* frame : intake.clip()) numbers.push_back(frame->sequence);
    CHECK(intake.clip().back() == &intake.frame());
    return numbers;
  }
  RecentFrames recent;
  Capture capture;
  WatchControl control{{}};
  WatchCounts counts;
  FrameIntake intake;
};

using Numbers = std::vector<int64_t>;

TEST_CASE("a clip ends with the frame taken, and has no damaged frame and none that could not be read") {
  ClipTaker taker(1);
  CHECK(taker.take() == Numbers{1});
  CHECK(taker.take() == Numbers{1, 2});  // who describes it finds the damage
  for (const Numbers& expected : {Numbers{3}, {3, 4}, {3, 4, 5}, {3, 4, 5, 6}, {4, 5, 6, 7}}) {
    CHECK(taker.take() == expected);
  }
  CHECK(taker.intake.frame_bytes() > 0);
  taker.intake.drop_clip();
  CHECK(taker.take() == Numbers{8});
  CHECK(FrameIntake({&taker.capture, &taker.control, &taker.counts}).clip().empty());
}

TEST_CASE("a clip of pairs has whole pairs, or a frame alone") {
  ClipTaker taker(2);
  for (const Numbers& expected : {Numbers{1}, {1, 2}, {3}, {3, 4}, {4, 5}, {3, 4, 5, 6}, {4, 5, 6, 7}}) {
    CHECK(taker.take() == expected);
  }
}

}  // namespace
}  // namespace ocellus::app
