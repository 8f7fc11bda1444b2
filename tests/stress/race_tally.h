// What a thread of the race stress has done and seen.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ocellus::test {

/// Each thread has its own, and they are merged once all have ended: a shared counter would order the threads, and hide
/// races from ThreadSanitizer.
struct Tally {
  std::map<std::string, int64_t> done;                  // operations by kind
  std::map<std::string, std::vector<double>> stop_ms;   // by call: of work from a cancellation to its end
  std::map<std::string, std::vector<double>> whole_ms;  // by call: of work where nothing stopped it
  int64_t wrong = 0;
  std::vector<std::string> first_wrong;  // some of what was wrong

  void fail(const std::string& what) {
    if (wrong++ < 5) first_wrong.push_back(what);
  }
  void merge(const Tally& other) {
    for (const auto& [kind, count] : other.done) done[kind] += count;
    for (const auto& [call, values] : other.stop_ms)
      stop_ms[call].insert(stop_ms[call].end(), values.begin(), values.end());
    for (const auto& [call, values] : other.whole_ms)
      whole_ms[call].insert(whole_ms[call].end(), values.begin(), values.end());
    first_wrong.insert(first_wrong.end(), other.first_wrong.begin(), other.first_wrong.end());
    wrong += other.wrong;
  }
};

}  // namespace ocellus::test
