// Facts about this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ocellus::app {

std::string processor_name();

// Vector instruction sets of interest, as named by /proc/cpuinfo or the kernel.
std::vector<std::string> vector_features();

// Number of cores this process may run on.
int32_t usable_cores();

struct SystemMemory {
  int64_t total_bytes = 0;
  int64_t available_bytes = 0;
};
SystemMemory system_memory();

// Returns the bytes per second at which the threads together read memory of this size, the best of a few times.
double measure_read_rate(int64_t bytes, int32_t threads);

// Maximum resident memory of this process so far.
int64_t peak_resident_bytes();

}  // namespace ocellus::app
