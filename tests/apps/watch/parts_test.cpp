// The parts of `ocellus watch` that need neither a model nor a camera.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "apps/base/failure.h"
#include "apps/base/prometheus.h"
#include "apps/base/trimmed_text.h"
#include "apps/day/temporal_question.h"
#include "apps/watch/history_folder.h"
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

constexpr int64_t kLeastQuota = 1 << 20;
constexpr char kPicture[] = "20260102T030405Z-000000001.jpg";

struct Folder {
  static inline int made = 0;
  fs::path path =
      fs::temp_directory_path() / ("ocellus_watch_parts_" + std::to_string(getpid()) + "_" + std::to_string(++made));
  Folder() = default;
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }
  std::vector<std::string> lines(const char* name) const {
    std::vector<std::string> found;
    std::ifstream file(path / name);
    for (std::string line; std::getline(file, line);) found.push_back(line);
    return found;
  }
  int64_t bytes() const {
    int64_t sum = 0;
    for (const auto& entry : fs::directory_iterator(path)) {
      struct stat facts = {};
      REQUIRE(lstat(entry.path().c_str(), &facts) == 0);
      sum += int64_t{facts.st_blocks} * 512;
    }
    return sum;
  }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directory(path);
    std::ofstream(path / name) << text;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  mode_t mode(const std::string& name) const {
    struct stat facts = {};
    REQUIRE(lstat((path / name).c_str(), &facts) == 0);
    return facts.st_mode & 07777;
  }
  // Returns why the folder is not accepted as a history; "" if it is.
  std::string refusal() const {
    try {
      HistoryFolder(path.string(), kLeastQuota);
    } catch (const Failure& failure) {
      CHECK(failure.exit_code() == kExitUsage);
      return failure.what();
    }
    return "";
  }
  // Creates the history of an earlier version, which had no mark.
  void leave_unmarked_history(int64_t pictures) const {
    HistoryFolder history(path.string(), kLeastQuota);
    for (int64_t id = 1; id <= pictures; ++id) CHECK(history.add(make_record(id), {1, 2, 3}) == "");
    fs::remove(path / kHistoryMark);
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
        "New: a green cross in the center. Disappeared: a small blue star at the top.");
  CHECK(describe_change("A ring.", "A ring.") == "Nothing in the captions.");
  CHECK(describe_change("", "A ring.") == "New: a ring.");
  CHECK(describe_change("A ring and a ring.", "A ring.") == "Disappeared: a ring.");
}

TEST_CASE("numbers of images are found in answers, those out of range are not") {
  CHECK(find_image_numbers("Images 2, 5 and 7.", 8) == std::vector<int>{2, 5, 7});
  CHECK(find_image_numbers("It is in image 3, not in image 3.", 8) == std::vector<int>{3});
  CHECK(find_image_numbers("Image 9.", 8).empty());
  CHECK(find_image_numbers("Image 99999999999999999999.", 8).empty());
  CHECK(find_image_numbers("There are 3 circles.", 8).empty());
  CHECK(find_image_numbers("", 8).empty());
}

TEST_CASE("times are found in answers where they are written as models read them") {
  CHECK(find_seconds("It appears at 3.5 seconds and is gone at <12.0 seconds>.") == std::vector<double>{3.5, 12.0});
  CHECK(find_seconds("At 0.2 seconds.") == std::vector<double>{0.2});
  for (const char* other : {"", " second", "3 seconds", "It lasts 3 seconds.", ".5 seconds", "3.55 seconds",
                            "x.5 seconds", "99999999.9 seconds", "the second 3.5"}) {
    CAPTURE(other);
    CHECK(find_seconds(other).empty());
  }
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
  const auto most = static_cast<int64_t>(WatchLog::kMaxRecords);
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
  for (size_t i = 0; i < WatchControl::kMaxWaiting; ++i) CHECK(control.ask("q" + std::to_string(i)) == i + 1);
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
  // A bound on files' sizes ends a write in the middle, as a full disk does.
  const Folder folder;
  HistoryFolder history(folder.path.string(), 1 << 20);
  CHECK(history.add(make_record(1), {}) == "");
  const std::string whole = folder.read("captions.jsonl");
  const auto ignored = signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small = {whole.size() + 20, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string trouble = history.add(make_record(2), {});
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, ignored);
  CHECK(trouble.find("File too large") != std::string::npos);
  CHECK(folder.read("captions.jsonl") == whole);
  CHECK(history.add(make_record(3), {}) == "");
  CHECK(folder.lines("captions.jsonl").size() == 2);
}

TEST_CASE("a folder that holds anything but a history is refused and left as it is") {
  for (const char* name :
       {"holiday.jpg", kPicture, ".unfinished", "captions.jsonl", "captions.old.jsonl", "lost+found/x"}) {
    CAPTURE(name);
    const Folder folder;
    fs::create_directories((folder.path / name).parent_path());
    folder.write(name, "precious");
    fs::permissions(folder.path, fs::perms(0755));
    const std::string refusal = folder.refusal();
    CHECK(refusal.find("--history " + folder.path.string() + ": it holds ") == 0);
    CHECK(refusal.find("name a new or empty folder.") != std::string::npos);
    CHECK(folder.read(name) == "precious");
    CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 1);
    CHECK(folder.mode("") == 0755);
  }
}

TEST_CASE("in its own folder a history neither counts nor removes what is not of its form") {
  const Folder folder;
  CHECK(folder.refusal() == "");
  const std::string much(400'000, 'x');
  const std::vector<std::string> foreign = {"holiday.jpg",
                                            "19990101T000000Z-1.jpg",
                                            "a" + std::string(kPicture),
                                            std::string(kPicture) + ".jpg",
                                            "IMG_0001.unfinished",
                                            ".unfinished",
                                            "20260102T03040xZ-000000001.jpg"};
  for (const std::string& name : foreign) folder.write(name, much);
  fs::create_directory(folder.path / kPicture);
  fs::create_symlink(folder.path / "holiday.jpg", folder.path / "19990101T000000Z-000000001.jpg");
  folder.write("19990101T000000Z-000000002.jpg", "ours");
  folder.write("19990101T000000Z-000000003.jpg.unfinished", "ours");
  HistoryFolder history(folder.path.string(), kLeastQuota);
  CHECK(history.bytes() <= 3 * 4096);
  for (int64_t id = 1; id <= 60; ++id) CHECK(history.add(make_record(id), std::vector<uint8_t>(20000, 7)) == "");
  for (const std::string& name : foreign) CHECK(folder.read(name) == much);
  CHECK(fs::is_directory(folder.path / kPicture));
  CHECK(fs::is_symlink(folder.path / "19990101T000000Z-000000001.jpg"));
  CHECK_FALSE(fs::exists(folder.path / "19990101T000000Z-000000002.jpg"));
  CHECK_FALSE(fs::exists(folder.path / "19990101T000000Z-000000003.jpg.unfinished"));
}

TEST_CASE("a folder of an earlier version is taken if nobody has put anything into it") {
  const Folder folder;
  folder.leave_unmarked_history(3);
  folder.write(".unfinished", "half");
  fs::permissions(folder.path, fs::perms(0755));
  {
    HistoryFolder history(folder.path.string(), kLeastQuota);
    CHECK(history.add(make_record(4), {1, 2, 3}) == "");
    CHECK(folder.lines("captions.jsonl").size() == 4);
    CHECK(folder.mode("") == 0700);
  }
  fs::remove(folder.path / kHistoryMark);
  folder.write("holiday.jpg", "precious");
  CHECK(folder.refusal().find("it holds holiday.jpg") != std::string::npos);
  fs::remove(folder.path / "holiday.jpg");
  fs::create_directory(folder.path / kPicture);
  CHECK(folder.refusal().find(kPicture) != std::string::npos);
}

TEST_CASE("links and folders in the place of a history's own files are refused, and nothing goes through them") {
  for (const char* name : {kHistoryMark, "captions.jsonl", "captions.old.jsonl"}) {
    for (const bool is_link : {true, false}) {
      CAPTURE(name);
      const Folder folder, other;
      CHECK(folder.refusal() == "");
      other.write("precious", "precious");
      fs::remove(folder.path / name);
      if (is_link) {
        fs::create_symlink(other.path / "precious", folder.path / name);
      } else {
        fs::create_directory(folder.path / name);
      }
      CHECK(folder.refusal().find(std::string("its ") + name + " is no regular file.") != std::string::npos);
      CHECK(other.read("precious") == "precious");
    }
  }
  const Folder folder, other;
  HistoryFolder history(folder.path.string(), kLeastQuota);
  other.write("precious", "precious");
  fs::create_symlink(other.path / "precious", folder.path / "captions.jsonl");
  CHECK(history.add(make_record(1), {1, 2, 3}).find("nothing can be written to") == 0);
  CHECK(other.read("precious") == "precious");
}

TEST_CASE("a folder is one watch's at a time") {
  const Folder folder;
  {
    HistoryFolder history(folder.path.string(), kLeastQuota);
    CHECK(folder.refusal().find("another watch keeps its history there.") != std::string::npos);
    CHECK(history.add(make_record(1), {1, 2, 3}) == "");
  }
  CHECK(folder.refusal() == "");
}

TEST_CASE("a folder that takes the place of a history's own is refused in the same way") {
  const Folder folder;
  HistoryFolder history(folder.path.string(), kLeastQuota);
  CHECK(history.add(make_record(1), {1, 2, 3}) == "");
  fs::remove_all(folder.path);
  folder.write("holiday.jpg", "precious");
  CHECK(history.add(make_record(2), {1, 2, 3}).find("it holds holiday.jpg") != std::string::npos);
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 1);
}

TEST_CASE("a history is its owner's only, whatever the umask") {
  for (const mode_t mask : {0, 0777}) {
    const Folder folder;
    const mode_t before = umask(mask);
    {
      HistoryFolder history(folder.path.string(), kLeastQuota);
      CHECK(history.add(make_record(1), {1, 2, 3}) == "");
    }
    umask(before);
    CHECK(folder.mode("") == 0700);
    int files = 0;
    for (const auto& entry : fs::directory_iterator(folder.path)) {
      CHECK(folder.mode(entry.path().filename()) == 0600);
      ++files;
    }
    CHECK(files == 3);
  }
}

TEST_CASE("the quota counts whole blocks, so that many small pictures do not take more of the disk") {
  const Folder folder;
  HistoryFolder history(folder.path.string(), kLeastQuota);
  for (int64_t id = 1; id <= 400; ++id) CHECK(history.add(make_record(id), {1, 2, 3}) == "");
  CHECK(folder.bytes() <= kLeastQuota);
  CHECK(folder.bytes() == history.bytes());
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) > 100);
}

TEST_CASE("two runs within a second give no two pictures one name") {
  const Folder folder;
  for (int run = 0; run < 3; ++run) {
    HistoryFolder history(folder.path.string(), kLeastQuota);
    CHECK(history.add(make_record(1), {1, 2, 3}) == "");
  }
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 5);
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
