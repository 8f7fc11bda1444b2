// Several engines in one process, and threads that give them work, cancel it, open and close sessions and engines, and
// use one image library from here and from a second process. Every answer that ocellus.h promises to be equal bit by
// bit is compared. Prints one JSON object; ends with 1 if anything was wrong. For an hour under ThreadSanitizer see
// tests/RELIABILITY.md.
//
//   race_stress [--seconds N] [--seed N]        everything at once
//   race_stress [--seconds N] [--seed N] --alone  one desk after the other: work after stops, by call
//
// --desk NAME: that one only.
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/stress/race_desk.h"
#include "tests/stress/race_library.h"
#include "tests/support/family_goldens.h"

extern char** environ;

namespace {

using namespace ocellus;
using namespace ocellus::test;

struct Options {
  int64_t seconds = 10;
  uint64_t seed = 1;
  bool alone = false;
  std::string desk;     // empty: all
  std::string visited;  // a library's folder: this is the second process
};

bool parse(int count, char** arguments, Options* options) {
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--alone")
      options->alone = true;
    else if (i + 1 == count)
      return false;
    else if (name == "--seconds")
      options->seconds = std::atoll(arguments[++i]);
    else if (name == "--seed")
      options->seed = static_cast<uint64_t>(std::atoll(arguments[++i]));
    else if (name == "--desk")
      options->desk = arguments[++i];
    else if (name == "--visit")
      options->visited = arguments[++i];
    else
      return false;
  }
  return options->seconds > 0;
}

struct Folder {
  Folder() {
    path = (std::filesystem::temp_directory_path() / "ocellus-race-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("no folder for a library");
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

Library open_library(const std::string& path) {
  Result<Library> library = Library::open(path.c_str(), int64_t{8} << 20);
  if (!library) throw std::runtime_error(Status::sentence());
  return std::move(*library);
}

/// All that runs in a process.
class Race {
 public:
  Race(const Options& options, const std::string& folder)
      : options_(options), library_(open_library(folder)), other_(open_library(folder)) {
    if (!library_.create_shared("ann")) throw std::runtime_error(Status::sentence());
    for (const DeskPlan& plan : kDeskPlans) {
      if (!options.visited.empty() && !plan.is_visited) continue;
      if (!options.desk.empty() && options.desk != plan.name) continue;
      desks_.emplace_back(plan, model(plan.family), &library_).find_expected();
    }
  }

  /// Everything at once.
  void run(Tally* total) {
    const Clock::time_point end = Clock::now() + std::chrono::seconds(options_.seconds);
    for (Desk& desk : desks_) desk.open();
    std::deque<Tally> tallies;
    std::vector<std::thread> threads;
    uint64_t seed = options_.seed * 1000;
    const auto start = [&](auto body) {
      threads.emplace_back([body, tally = &tallies.emplace_back(), own = ++seed] { body(own, tally); });
    };
    for (Desk& desk : desks_)
      for (int32_t i = 0; i < desk.plan().users; ++i)
        start([&](uint64_t own, Tally* tally) { guard(tally, [&] { desk.work(own, end, tally); }); });
    for (const Library* library : {&library_, &other_})
      start([library, end](uint64_t own, Tally* tally) { keep_library(*library, own, end, tally); });
    start([&](uint64_t own, Tally* tally) { question_models(all_models(), own, end, tally); });
    start([&](uint64_t, Tally*) { cancel_until(end); });
    for (std::thread& thread : threads) thread.join();
    for (const Tally& tally : tallies) total->merge(tally);
  }

  /// One desk with one user after the other, so that a stop waits for nothing but its own work.
  void run_alone(Tally* total) {
    for (Desk& desk : desks_) {
      const auto end = Clock::now() + std::chrono::milliseconds(options_.seconds * 1000 / std::ssize(desks_));
      desk.open_alone();
      std::thread canceller([&] {
        for (; Clock::now() < end; std::this_thread::sleep_for(std::chrono::microseconds(50))) desk.cancel_due();
      });
      Tally tally;
      guard(&tally, [&] { desk.work(options_.seed, end, &tally); });
      canceller.join();
      Tally named;
      named.merge(tally);
      for (auto* times : {&named.stop_ms, &named.whole_ms}) {
        std::map<std::string, std::vector<double>> by_desk;
        for (auto& [call, values] : *times) by_desk[std::string(desk.plan().name) + ": " + call] = std::move(values);
        *times = std::move(by_desk);
      }
      total->merge(named);
    }
  }

 private:
  template <class Body>
  static void guard(Tally* tally, Body body) {
    try {
      body();
    } catch (const std::exception& error) {
      tally->fail(error.what());
    }
  }

  const Model& model(const std::string& family) {
    const auto found = models_.find(family);
    if (found != models_.end()) return found->second;
    const ModelPair pair = family.empty() ? bundled_pair() : family_pair(family);
    Result<Model> opened = Model::open(pair.model.c_str(), pair.mmproj.c_str());
    if (!opened) throw std::runtime_error(Status::sentence());
    return models_.emplace(family, std::move(*opened)).first->second;
  }

  std::vector<const Model*> all_models() const {
    std::vector<const Model*> all;
    for (const auto& [family, model] : models_) all.push_back(&model);
    return all;
  }

  void cancel_until(Clock::time_point end) {
    for (; Clock::now() < end; std::this_thread::sleep_for(std::chrono::microseconds(300)))
      for (Desk& desk : desks_) desk.cancel_due();
  }

  const Options& options_;
  Library library_, other_;  // two handles of one folder
  std::map<std::string, Model> models_;
  std::deque<Desk> desks_;
};

/// The same program once more, at the same library.
pid_t start_visitor(const Options& options, const std::string& folder) {
  std::string seconds = std::to_string(options.seconds), seed = std::to_string(options.seed + 1), path = folder;
  char program[] = "/proc/self/exe", first[] = "--seconds", second[] = "--seed", third[] = "--visit";
  char* arguments[] = {program, first, seconds.data(), second, seed.data(), third, path.data(), nullptr};
  pid_t child = -1;
  if (posix_spawn(&child, program, nullptr, nullptr, arguments, environ) != 0)
    throw std::runtime_error("no second process");
  return child;
}

void wait_for_visitor(pid_t child, Tally* tally) {
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    tally->fail("the second process failed: status " + std::to_string(status));
}

void print_times(const char* name, std::map<std::string, std::vector<double>> times) {
  std::printf(", \"%s\": {", name);
  const char* comma = "";
  for (auto& [call, values] : times) {
    std::sort(values.begin(), values.end());
    const auto at = [&values = values](double share) {
      return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
    };
    std::printf("%s\"%s\": {\"count\": %zu, \"p50\": %.2f, \"p99\": %.2f, \"most\": %.2f}", comma, call.c_str(),
                values.size(), at(0.5), at(0.99), values.back());
    comma = ", ";
  }
  std::printf("}");
}

void print(const Options& options, const Tally& tally) {
  std::printf("{\"process\": \"%s\", \"seed\": %llu, \"seconds\": %lld, \"wrong\": %lld, \"operations\": {",
              options.visited.empty() ? "first" : "second", static_cast<unsigned long long>(options.seed),
              static_cast<long long>(options.seconds), static_cast<long long>(tally.wrong));
  const char* comma = "";
  for (const auto& [kind, count] : tally.done) {
    std::printf("%s\"%s\": %lld", comma, kind.c_str(), static_cast<long long>(count));
    comma = ", ";
  }
  std::printf("}");
  if (options.alone) print_times("whole_ms", tally.whole_ms);
  if (options.alone) print_times("stop_ms", tally.stop_ms);
  std::printf("}\n");
  std::fflush(stdout);
  for (const std::string& what : tally.first_wrong) std::fprintf(stderr, "race_stress: %s\n", what.c_str());
}

int run(const Options& options) {
  Tally tally;
  if (!options.visited.empty()) {
    Race(options, options.visited).run(&tally);
  } else {
    const Folder folder;
    const pid_t visitor = options.alone ? -1 : start_visitor(options, folder.path);
    {
      Race race(options, folder.path);
      options.alone ? race.run_alone(&tally) : race.run(&tally);
    }
    if (visitor > 0) wait_for_visitor(visitor, &tally);
  }
  print(options, tally);
  return tally.wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  if (!parse(count, arguments, &options)) {
    std::fprintf(stderr, "usage: race_stress [--seconds N] [--seed N] [--alone] [--desk NAME]\n");
    return 2;
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "race_stress: %s\n", error.what());
    return 1;
  }
}
