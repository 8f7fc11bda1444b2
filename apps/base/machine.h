// What this machine offers to the program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ocellus::app {

std::string processor_name();

// Vector instructions worth knowing about, as /proc/cpuinfo or the kernel names them.
std::vector<std::string> vector_features();

// Cores this process may run on.
int32_t usable_cores();

struct SystemMemory {
  int64_t total_bytes = 0;
  int64_t available_bytes = 0;
};
SystemMemory system_memory();

// The most memory of this process that was resident at any time.
int64_t peak_resident_bytes();

}  // namespace ocellus::app
