// Real-time flags: priority and CPUs of the threads, and locked memory.
#pragma once

#include <cstdint>

#include "runtime/ocellus.h"

namespace CLI {
class App;
}

namespace ocellus::app {

struct RealTimeOptions {
  int32_t thread_priority = 0;  // 0: unchanged
  uint64_t cpus[4] = {};        // none: unchanged
  bool lock_memory = false;
  bool prefault = false;
};

void add_real_time_flags(CLI::App* command, RealTimeOptions* options);

void set_real_time(const RealTimeOptions& options, ocellus_engine_config* config);

// The calling thread computes, too. choose_cpus: call it before a plan is made, which counts the usable CPUs.
// choose_priority: call it in each calling thread after the library has created its own. Threads started later inherit
// the CPUs but not the priority. Both throw a Failure.
void choose_cpus(const RealTimeOptions& options);
void raise_priority(const RealTimeOptions& options);

}  // namespace ocellus::app
