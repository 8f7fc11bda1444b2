// The parts of `ocellus watch` that need neither a model nor a camera.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "apps/prometheus.h"
#include "apps/trimmed_text.h"
#include "apps/watch/history_folder.h"
#include "apps/watch/temporal_question.h"
#include "apps/watch/watch_control.h"
#include "apps/watch/watch_log.h"

namespace ocellus::app {
namespace {

namespace fs = std::filesystem;

Record make_record(int64_t id) {
  Record record;
  record.id = id;
  record.captured_ns = monotonic_ns();
  record.text = "A \"red\" ring\nat the top.";
  return record;
}

struct Folder {
  fs::path path = fs::temp_directory_path() / ("ocellus_watch_parts_" + std::to_string(getpid()));
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
  std::vector<std::string> lines(const char* name) const {
    std::vector<std::string> found;
    std::ifstream file(path / name);
    for (std::string line; std::getline(file, line);) found.push_back(line);
    return found;
  }
  int64_t bytes() const {
    int64_t sum = 0;
    for (const auto& entry : fs::directory_iterator(path)) sum += static_cast<int64_t>(entry.file_size());
    return sum;
  }
};

TEST_CASE("questions about time are recognised, others are not") {
  const auto appear = parse_temporal_question("When did the red circle appear?");
  REQUIRE(appear.has_value());
  CHECK(appear->kind == TemporalQuestion::kAppear);
  CHECK(appear->thing == "a red circle");
  const auto leave = parse_temporal_question("when did an orange star disappear");
  REQUIRE(leave.has_value());
  CHECK(leave->kind == TemporalQuestion::kDisappear);
  CHECK(leave->thing == "an orange star");
  CHECK(parse_temporal_question("What changed?")->kind == TemporalQuestion::kChange);
  CHECK(parse_temporal_question(" What has changed since then? ")->kind == TemporalQuestion::kChange);
  for (const char* other : {"", "?", "When did appear?", "How many circles are there?", "When is lunch?",
                            "Which images show a ring?", "appear"}) {
    CHECK_FALSE(parse_temporal_question(other).has_value());
  }
}

TEST_CASE("the latest moment counts, and its absence is told") {
  using Kind = TemporalQuestion::Kind;
  CHECK(find_moment(Kind::kAppear, {false, false, true, true}) == 2);
  CHECK(find_moment(Kind::kAppear, {true, false, true, false, true}) == 4);
  CHECK(find_moment(Kind::kDisappear, {true, true, false}) == 2);
  CHECK(find_moment(Kind::kAppear, {true, true}) == -1);
  CHECK(find_moment(Kind::kAppear, {}) == -1);
  CHECK(describe_no_moment(Kind::kAppear, {false, false}) == "It is in none of the frames in memory.");
  CHECK(describe_no_moment(Kind::kAppear, {true, true}) == "It is there already in the oldest frame in memory.");
  CHECK(describe_no_moment(Kind::kDisappear, {false, true}) == "It is still there.");
}

TEST_CASE("two captions are compared part by part") {
  CHECK(describe_change("A small blue star at the top and a red ring on the left, on a navy background.",
                        "A red ring on the left and a green cross in the center, on a navy background.") ==
        "New: a green cross in the center. Gone: a small blue star at the top.");
  CHECK(describe_change("A ring.", "A ring.") == "Nothing that the captions tell.");
  CHECK(describe_change("", "A ring.") == "New: a ring.");
  CHECK(describe_change("A ring and a ring.", "A ring.") == "Gone: a ring.");
}

TEST_CASE("numbers of images are found in answers, those out of range are not") {
  CHECK(find_image_numbers("Images 2, 5 and 7.", 8) == std::vector<int>{2, 5, 7});
  CHECK(find_image_numbers("It is in image 3, not in image 3.", 8) == std::vector<int>{3});
  CHECK(find_image_numbers("Image 9.", 8).empty());
  CHECK(find_image_numbers("Image 99999999999999999999.", 8).empty());
  CHECK(find_image_numbers("There are 3 circles.", 8).empty());
  CHECK(find_image_numbers("", 8).empty());
}

TEST_CASE("an answer says yes only if it begins so") {
  CHECK(says_yes("Yes."));
  CHECK(says_yes(" yes, it is"));
  CHECK_FALSE(says_yes("No."));
  CHECK_FALSE(says_yes("The answer is yes"));
  CHECK_FALSE(says_yes(""));
}

TEST_CASE("white space at the ends of an answer is not shown, in between it is") {
  TrimmedText text;
  CHECK(text.add("  \n") == "");
  CHECK(text.add(" A") == "A");
  CHECK(text.add(" ") == "");
  CHECK(text.add("ring") == " ring");
  CHECK(text.add("\n\n") == "");
  CHECK(text.text() == "A ring");
}

TEST_CASE("the log keeps the newest records and forgets the oldest with their pictures") {
  WatchLog log;
  const auto most = static_cast<int64_t>(WatchLog::kMostRecords);
  for (int64_t id = 1; id <= most + 10; ++id) log.add(make_record(id), {static_cast<uint8_t>(id), 2, 3});
  CHECK(log.thumbnail(10).empty());
  CHECK(log.thumbnail(11).size() == 3);
  CHECK(log.thumbnail(most + 11).empty());
  CHECK(log.thumbnail(-1).empty());
  const std::vector<Record> newest = log.records(0, 3);
  REQUIRE(newest.size() == 3);
  CHECK(newest[0].id == most + 10);
  CHECK(newest[0].has_thumbnail);
  CHECK(log.records(newest[2].id, 2)[0].id == most + 7);
  CHECK(log.records(11, 5).empty());
  Record found;
  CHECK(log.find(12, &found));
  CHECK(found.id == 12);
  CHECK_FALSE(log.find(1, &found));
}

TEST_CASE("questions wait in order, and no more than the most") {
  WatchControl control({});
  for (size_t i = 0; i < WatchControl::kMostWaiting; ++i) CHECK(control.ask("q" + std::to_string(i)) == i + 1);
  CHECK_FALSE(control.ask("one too many").has_value());
  CHECK(control.next_question()->text == "q0");
  CHECK(control.ask("now there is room").has_value());
}

TEST_CASE("who waits for a change wakes when a question comes") {
  WatchControl control({});
  const int64_t start = monotonic_ns();
  std::thread person([&control] { control.ask("now"); });
  while (!control.next_question()) control.wait_for_change(std::chrono::milliseconds(60000));
  person.join();
  CHECK(monotonic_ns() - start < 30'000'000'000);
}

TEST_CASE("the history folder holds lines and pictures, and keeps to its quota over runs") {
  const Folder folder;
  const std::vector<uint8_t> picture(20000, 7);
  for (int run = 0; run < 3; ++run) {
    HistoryFolder history(folder.path.string(), 1 << 20);
    for (int64_t id = 1; id <= 200; ++id) CHECK(history.add(make_record(id), picture) == "");
    CHECK(history.bytes() <= 1 << 20);
    CHECK(folder.bytes() == history.bytes());
  }
  const std::vector<std::string> lines = folder.lines("captions.jsonl");
  REQUIRE_FALSE(lines.empty());
  const auto last = nlohmann::json::parse(lines.back());
  CHECK(last["id"] == 200);
  CHECK(last["text"] == "A \"red\" ring\nat the top.");
  CHECK(fs::file_size(folder.path / last["thumbnail"].get<std::string>()) == picture.size());
}

TEST_CASE("a history that cannot be written says so, leaves no half files and goes on when it can again") {
  const Folder folder;
  HistoryFolder history(folder.path.string(), 1 << 20);
  CHECK(history.add(make_record(1), {1, 2, 3}) == "");
  fs::remove_all(folder.path);
  const std::string trouble = history.add(make_record(2), {1, 2, 3});
  CHECK(trouble.find("nothing can be written to") == 0);
  fs::create_directory(folder.path);
  CHECK(history.add(make_record(3), {1, 2, 3}) == "");
  CHECK(folder.lines("captions.jsonl").size() == 1);
}

TEST_CASE("a full disk leaves whole lines only") {
  // /dev/full gives ENOSPC to every write: as the file of the lines it is a full disk.
  const Folder folder;
  HistoryFolder history(folder.path.string(), 1 << 20);
  REQUIRE(symlink("/dev/full", (folder.path / "captions.jsonl").c_str()) == 0);
  CHECK(history.add(make_record(1), {}).find("No space left on device") != std::string::npos);
  fs::remove(folder.path / "captions.jsonl");
  CHECK(history.add(make_record(2), {}) == "");
  CHECK(folder.lines("captions.jsonl").size() == 1);
}

TEST_CASE("histograms count values at most their bound, and text follows Prometheus' format") {
  Histogram histogram;
  for (const double seconds : {0.0005, 0.001, 0.3, 100.0}) histogram.add(seconds);
  PrometheusText text;
  text.add_histogram("ocellus_test_seconds", "A test.", histogram);
  text.add_counter("ocellus_test_total", "Counted.", 2, "state=\"a\"");
  text.add_counter("ocellus_test_total", "Counted.", 3, "state=\"b\"");
  CHECK(text.text().find("ocellus_test_seconds_bucket{le=\"0.001\"} 2\n") != std::string::npos);
  CHECK(text.text().find("ocellus_test_seconds_bucket{le=\"0.5\"} 3\n") != std::string::npos);
  CHECK(text.text().find("ocellus_test_seconds_bucket{le=\"+Inf\"} 4\n") != std::string::npos);
  CHECK(text.text().find("ocellus_test_seconds_count 4\n") != std::string::npos);
  CHECK(text.text().find("ocellus_test_total{state=\"a\"} 2\nocellus_test_total{state=\"b\"} 3\n") !=
        std::string::npos);
}

}  // namespace
}  // namespace ocellus::app
