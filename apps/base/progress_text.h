// Progress of work as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ocellus::app {

// "40 s", "12 min", "3 h 20 min"
std::string format_duration(double seconds);

struct ProgressFacts {
  std::string task = {};  // "loading SmolVLM-256M"
  std::string noun = {};  // things that are counted: "question"; "byte" is written in KiB, MiB or GiB
  std::string note = {};  // the newest result, "accuracy 0.917"; empty: none
  int64_t first = 0;      // done by an earlier run
  int64_t done = 0;       // with those of the earlier run, at most `total`
  int64_t total = 0;      // 0: unknown
  double seconds = 0;     // since this run began

  int percent() const {
    return total > 0 ? static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total)) : 0;
  }
};

// A line for a terminal, of `columns` columns at most: "loading SmolVLM-256M  40 % [#########...............] 100.0 of
// 250.0 MiB, 50.0 MiB/s, 3 s left"; of an unknown total, the task alone. Where it is narrow, the rate is left out
// first, then the note, the bar, the amount and the time.
std::string progress_bar(const ProgressFacts& facts, size_t columns);

// The same for a log, "loading SmolVLM-256M: 40 %, 100.0 of 250.0 MiB, 50.0 MiB/s, 3 s left".
std::string progress_line(const ProgressFacts& facts);

}  // namespace ocellus::app
