#include "apps/setup/trace_file.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "apps/base/failure.h"

namespace ocellus::app {
namespace {

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "ocellus-trace-XXXXXX").string();
  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

/// A trace file and what it complained of.
struct Traced {
  Folder folder;
  std::string path = folder.path + "/trace.json";
  std::vector<std::string> complaints;
  TraceFile file{path, [this](const std::string& sentence) { complaints.push_back(sentence); }};

  nlohmann::json events() const { return nlohmann::json::parse(std::ifstream(path)); }
};

int64_t count_ranges(const nlohmann::json& events) {
  return std::count_if(events.begin(), events.end(), [](const auto& event) { return event["ph"] == "X"; });
}

TEST_CASE("a trace that is closed at once is an empty array") {
  Traced trace;
  trace.file.open();
  trace.file.close();
  CHECK(trace.events() == nlohmann::json::array());
  CHECK(trace.complaints.empty());
}

TEST_CASE("ranges keep their nanoseconds, and names are quoted") {
  Traced trace;
  trace.file.open();
  trace.file.add("a \"name\" \\ with \n signs", 1'000'000'000'123, 1'000'000'001'456);
  trace.file.open();  // again: nothing is lost
  TraceFile::receive(&trace.file, "second", 1'000'000'000'123, 1'000'000'000'123);
  trace.file.close();
  trace.file.add("too late", 0, 1);
  const nlohmann::json events = trace.events();
  REQUIRE(events.size() == 3);
  CHECK(events[0]["ph"] == "M");
  CHECK(events[0]["tid"] == events[1]["tid"]);
  CHECK(events[1]["name"] == "a \"name\" \\ with ? signs");
  CHECK(events[1]["dur"].get<double>() == 1.333);
  CHECK(events[2]["dur"].get<double>() == 0);
  CHECK(events[1]["ts"] == events[2]["ts"]);
}

TEST_CASE("ranges of several threads arrive, or are counted as left out") {
  constexpr int kThreads = 4, kRanges = 50000;
  Traced trace;
  trace.file.open();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kRanges; ++i) trace.file.add("work", i, i + 1);
    });
  for (std::thread& thread : threads) thread.join();
  trace.file.close();
  const nlohmann::json events = trace.events();
  const int64_t written = count_ranges(events);
  // Each thread of which something was written is named once. All of a thread's ranges may have been left out.
  std::multiset<int64_t> named;
  std::set<int64_t> seen;
  for (const auto& event : events) {
    const auto thread = event["tid"].get<int64_t>();
    if (event["ph"] == "M")
      named.insert(thread);
    else
      seen.insert(thread);
  }
  CHECK(named == std::multiset<int64_t>(seen.begin(), seen.end()));
  CHECK(std::ssize(seen) <= kThreads);
  int64_t left_out = 0;
  if (!trace.complaints.empty()) {
    REQUIRE(trace.complaints.size() == 1);
    left_out = std::stoll(trace.complaints[0].substr(trace.complaints[0].find(" lacks ") + 7));
  }
  CHECK(written + left_out == int64_t{kThreads} * kRanges);
}

TEST_CASE("a disk that is full is told of once, whatever comes afterwards") {
  std::vector<std::string> complaints;
  {
    TraceFile file("/dev/full", [&](const std::string& sentence) { complaints.push_back(sentence); });
    file.open();
    for (int i = 0; i < 1000; ++i) file.add("work", i, i + 1);
  }
  REQUIRE(complaints.size() == 1);
  CHECK(complaints[0].find("/dev/full cannot be written any more (No space left on device)") != std::string::npos);
}

TEST_CASE("a place that cannot be written to is refused before anything is done") {
  const Folder folder;
  TraceFile file(folder.path + "/missing/trace.json", [](const std::string&) {});
  CHECK_THROWS_AS(file.open(), Failure);
}

TEST_CASE("only a trace is replaced by a trace") {
  const Folder folder;
  const std::string path = folder.path + "/file";
  const auto write = [&](const std::string& text) { std::ofstream(path, std::ios::binary) << text; };
  const auto text = [&] {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  for (const std::string theirs : {"GGUF", "[\n1]\n", "[", "\xFF\xD8\xFF"}) {
    write(theirs);
    TraceFile file(path, [](const std::string&) {});
    CHECK_THROWS_AS(file.open(), Failure);
    CHECK(text() == theirs);
  }
  write("");
  for (const int32_t ranges : {0, 1, 0, 0}) {  // over an empty file, and over traces without events and with some
    TraceFile file(path, [](const std::string&) {});
    file.open();
    for (int32_t i = 0; i < ranges; ++i) TraceFile::receive(&file, "work", 1, 2);
    file.close();
    CHECK(nlohmann::json::parse(text()).size() == static_cast<size_t>(2 * ranges));
  }
}

}  // namespace
}  // namespace ocellus::app
