// Runs a target on made-up inputs in processes that are watched.
#pragma once

#include <cstdint>
#include <string>

#include "tests/fuzz/fuzz_target.h"

namespace ocellus::fuzz {

struct RunPlan {
  uint64_t seed = 1;
  int64_t runs = 1000;  // of all jobs together
  int64_t seconds = 0;  // after which no run begins; 0: no limit
  int jobs = 1;
  int64_t run_ms = 10000;           // that a run may take, however slow the sanitizers and busy the machine
  std::string faults_folder = ".";  // takes inputs at which something went wrong
};

struct RunCounts {
  int64_t executions = 0;
  int64_t accepted = 0;
  int64_t crashes = 0;
  int64_t timeouts = 0;
  int64_t over_memory = 0;
  int64_t worst_ns = 0;          // the longest run
  int64_t worst_heap_bytes = 0;  // the most that a run had allocated at once; -1 where nothing counts them
  double seconds = 0;

  int64_t faults() const { return crashes + timeouts + over_memory; }
};

/// A target that has gone wrong so often is given up.
inline constexpr int64_t kMaxFaults = 16;

RunCounts run_target(const Target& target, const RunPlan& plan);

/// The input of a run. The first runs have the seeds as they are.
Bytes make_input(const Target& target, const std::vector<Bytes>& seeds, uint64_t seed, int64_t run);

/// Runs the target on a heap block of exactly the input's size, so that reading one byte too far is seen.
bool run_exactly(const Target& target, const Bytes& input);

}  // namespace ocellus::fuzz
