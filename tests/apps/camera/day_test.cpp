// The scripted day: its events, its file of the truth and its frames.
#include <sys/stat.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/camera/day_script.h"
#include "tests/apps/camera/support.h"

namespace ocellus::app {
namespace {

using test::contains;

constexpr int64_t kHour_ms = 3'600'000;

SourceOptions day(const std::string& truth = "") {
  return {.name = "synthetic",
          .width = 16,
          .height = 16,
          .seed = 3,
          .scene = "day",
          .speed = 0,
          .date = "2026-11-27",
          .truth_path = truth};
}

std::vector<nlohmann::json> read_lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

using Texts = std::set<std::string>;

// "small red circle at the top left"
std::string describe(const SceneObject& object) {
  return std::string(size_name(object)) + " " + thing_name(object) + " " + place_name(object);
}

// What only the first board shows.
Texts only_on(const Board& board, const Board& other) {
  Texts texts;
  for (const SceneObject& object : board.objects) texts.insert(describe(object));
  for (const SceneObject& object : other.objects) texts.erase(describe(object));
  return texts;
}

TEST_CASE("the same seed tells the same day, another one another, each with a night and busy hours") {
  const auto tell = [](uint64_t seed) {
    std::vector<std::string> story;
    for (const DayEvent& event : make_day(seed).events) {
      story.push_back(std::to_string(event.at_ms) + event.after.caption());
    }
    return story;
  };
  CHECK(tell(1) == tell(1));
  CHECK(tell(1) != tell(2));
  std::map<int64_t, double> counts;  // by hour, of an average day
  constexpr int kDays = 40;
  for (uint64_t seed = 0; seed < kDays; ++seed) {
    const DayScript script = make_day(seed);
    CHECK(script.events.size() > 220);
    CHECK(script.events.size() < 380);
    int64_t last_ms = 0;
    for (const DayEvent& event : script.events) {
      CHECK(event.at_ms >= last_ms + 20'000);
      counts[event.at_ms / kHour_ms] += 1.0 / kDays;
      last_ms = event.at_ms;
    }
    CHECK(last_ms < kDay_ms);
  }
  for (int64_t hour = 0; hour < 24; ++hour) {
    const bool is_busy = hour == 8 || hour == 17;
    const double usual = hour < 6 ? 2.4 : is_busy ? 30 : hour < 22 ? 15 : 5;
    CAPTURE(hour);
    CHECK(counts[hour] > 0.7 * usual);
    CHECK(counts[hour] < 1.3 * usual);
  }
}

TEST_CASE("boards of a day hold up to four different things that can be seen, and each event changes one") {
  std::map<DayEventKind, int> kinds;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const DayScript script = make_day(seed);
    const Board* before = &script.first;
    for (const DayEvent& event : script.events) {
      const Board& after = event.after;
      REQUIRE(after.objects.size() >= 1);
      REQUIRE(after.objects.size() <= kMaxObjects);
      Texts things;
      for (const SceneObject& object : after.objects) {
        things.insert(thing_name(object));
        CHECK(after.shows(object.color));
      }
      CHECK(things.size() == after.objects.size());
      const Texts left = only_on(*before, after), come = only_on(after, *before), object = {describe(event.object)};
      const bool appears = event.kind == DayEventKind::kAppear, moves = event.kind == DayEventKind::kMove,
                 disappears = event.kind == DayEventKind::kDisappear;
      CHECK((after.background != before->background) == (event.kind == DayEventKind::kBackground));
      CHECK(come == (moves || appears ? object : Texts()));
      CHECK(left.size() == (moves || disappears));
      if (disappears) CHECK(left == object);
      ++kinds[event.kind];
      before = &after;
    }
  }
  CHECK(kinds.size() == 4);
}

TEST_CASE("the frames of a day show its truth at their own times, until it ends") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("truth.jsonl");
  test::write_whole(path, test::to_bytes("{\"day\":\"2026-01-01\"}"));
  SyntheticSource source(day(path));
  CHECK(contains(source.describe(), "day 2026-11-27, a frame every 10 s of it"));
  const auto lines = read_lines(path);
  const DayScript script = make_day(3);
  REQUIRE(lines.size() == script.events.size() + 1);
  const int64_t midnight_ms = lines[0]["midnight_ms"];
  CHECK(lines[0]["day"] == "2026-11-27");
  CHECK(lines[0]["seed"] == 3);
  for (size_t i = 0; i < script.events.size(); ++i) {
    const DayEvent& event = script.events[i];
    const auto text = [&](const char* key) { return lines[i + 1][key].get<std::string>(); };
    const bool is_background = text("event") == "background";
    CHECK(is_background == (event.kind == DayEventKind::kBackground));
    CHECK(text("size") + " " + text("thing") + " " + text("place") == (is_background ? "  " : describe(event.object)));
    CHECK(lines[i + 1]["at_ms"] == midnight_ms + event.at_ms);
    CHECK(std::stoll(text("time")) == event.at_ms / kHour_ms);
    CHECK(std::stoll(text("time").substr(6)) == event.at_ms / 1000 % 60);
  }
  std::vector<Frame> frames;
  const auto events = test::collect(source, &frames, 10'000);
  REQUIRE(frames.size() == 8640);
  CHECK(events.back().kind == SourceEvent::kEnd);
  size_t line = 0;
  for (size_t i = 0; i < frames.size(); ++i) {
    const Frame& frame = frames[i];
    REQUIRE(frame.wall_ms == midnight_ms + 10'000 * static_cast<int64_t>(i));
    REQUIRE(frame.sequence == static_cast<int64_t>(i) + 1);
    const size_t last = line;
    while (line + 1 < lines.size() && lines[line + 1]["at_ms"] <= frame.wall_ms) ++line;
    REQUIRE(frame.truth == lines[line]["caption"].get<std::string>());
    if (i > 0 && line == last) REQUIRE(frame.bytes == frames[i - 1].bytes);  // things stand still
  }
  CHECK(line + 1 == lines.size());
}

TEST_CASE("a day is played at its speed, and faults come in it") {
  SourceOptions options = day();
  options.speed = 500;  // 50 frames a second
  options.faults = "broken@3,skip@5:100";
  SyntheticSource source(options);
  CHECK(source.frames_per_second() == doctest::Approx(50));
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Frame> frames;
  CHECK(test::count_kind(test::collect(source, &frames, 11), SourceEvent::kBroken) == 1);
  CHECK(std::chrono::steady_clock::now() - begin >= test::milliseconds(190));
  REQUIRE(frames.size() == 10);
  CHECK(frames[3].wall_ms - frames[0].wall_ms == 1'040'000);
  options.faults = "skip@2:8640";
  SyntheticSource skipping(options);
  CHECK(test::collect(skipping, nullptr).size() == 2);
}

TEST_CASE("days that cannot be are refused in a sentence") {
  const auto refusal = [](const std::function<void(SourceOptions*)>& change) {
    SourceOptions options = day();
    change(&options);
    return test::failure_of([&] { open_source(options); });
  };
  CHECK(refusal([](SourceOptions*) {}).empty());
  CHECK(contains(refusal([](SourceOptions* o) { o->scene = "week"; }), "not \"week\"."));
  CHECK(contains(refusal([](SourceOptions* o) { o->scene = "shapes"; }), "\"day\"."));
  CHECK(contains(refusal([](SourceOptions* o) { o->name = "browser"; }), "--scene"));
  for (const double speed : {-1.0, 1e-9, 1e9, std::nan("")}) {
    CHECK(contains(refusal([&](SourceOptions* o) { o->speed = speed; }), "its speed"));
  }
  for (const char* date : {"2026-02-30", "27.11.2026", "2026-11-27 ", " 2026-11-27", "2026-1-1", "1950-01-01", "x"}) {
    CHECK(contains(refusal([&](SourceOptions* o) { o->date = date; }), "\"" + std::string(date) + "\"."));
  }
  const test::TemporaryFolder folder;
  CHECK(contains(refusal([&](SourceOptions* o) { o->truth_path = folder.path(); }), "not a regular file"));
  CHECK(contains(refusal([&](SourceOptions* o) { o->truth_path = folder.file("none/truth"); }), "No such file"));
  test::write_whole(folder.file("mine"), test::to_bytes("my own words"));
  CHECK(contains(refusal([&](SourceOptions* o) { o->truth_path = folder.file("mine"); }), "no truth of a day"));
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  CHECK(contains(refusal([&](SourceOptions* o) { o->truth_path = folder.file("pipe"); }), "not a regular file"));
  SourceOptions today = day();
  today.date.clear();
  SyntheticSource source(today);
  Frame frame;
  REQUIRE(source.next(&frame, test::milliseconds(1000)).kind == SourceEvent::kFrame);
  const int64_t age_ms = int64_t{std::time(nullptr)} * 1000 - frame.wall_ms;
  CHECK(age_ms >= 0);
  CHECK(age_ms <= kDay_ms + kHour_ms);
}

}  // namespace
}  // namespace ocellus::app
