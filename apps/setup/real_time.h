// Flags for those who must answer in time: which threads run where and how, and memory that is always there.
#pragma once

#include <cstdint>

#include "runtime/ocellus.h"

namespace CLI {
class App;
}

namespace ocellus::app {

struct RealTimeOptions {
  int32_t thread_priority = 0;  // 0: left alone
  uint64_t cpus[4] = {};        // none: left alone
  bool lock_memory = false;
  bool prefault = false;
};

void add_real_time_options(CLI::App* command, RealTimeOptions* options);

void set_real_time(const RealTimeOptions& options, ocellus_engine_config* config);

// The thread that calls the library computes, too: before a plan is made, which counts the CPUs it may use, and for
// each such thread when the library's have been made. What it starts later keeps the CPUs but not the priority. Both
// throw a Failure.
void choose_cpus(const RealTimeOptions& options);
void raise_priority(const RealTimeOptions& options);

}  // namespace ocellus::app
