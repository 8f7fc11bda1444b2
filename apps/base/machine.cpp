#include "apps/base/machine.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <thread>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace ocellus::app {
namespace {

// Returns the value of the first "key : value" line of a file below /proc; empty if there is none.
std::string proc_value(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const size_t colon = line.find(':');
    const size_t begin = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return "";
}

int64_t memory_bytes(const std::string& key) {
  return std::atoll(proc_value("/proc/meminfo", key).c_str()) * 1024;  // the file has kB
}

// As wide as a cache line: loads, and not additions, are what takes time.
using Line = uint64_t __attribute__((vector_size(64)));
constexpr int64_t kStreams = 8;  // a core reads several places at once faster than one

// Reads all lines some times; the volatile sum keeps the reads from being left out.
void read_lines(const Line* lines, int64_t count, int64_t passes) {
  const int64_t each = count / kStreams;
  Line sums[kStreams] = {};
  for (int64_t pass = 0; pass < passes; ++pass)
    for (int64_t i = 0; i < each; ++i)
      for (int64_t stream = 0; stream < kStreams; ++stream) sums[stream] += lines[stream * each + i];
  for (const Line& sum : sums) {
    [[maybe_unused]] volatile uint64_t result = sum[0];
  }
}

// Calls work(thread) on as many threads and returns the seconds that all of them took.
template <class Work>
double time_threads(int32_t threads, const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  for (int32_t i = 0; i < threads; ++i) workers.emplace_back([&work, i] { work(i); });
  for (std::thread& worker : workers) worker.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::string processor_name() {
  for (const char* key : {"model name", "Model", "Hardware", "CPU implementer"}) {
    const std::string name = proc_value("/proc/cpuinfo", key);
    if (!name.empty()) return name;
  }
  return "unknown";
}

std::vector<std::string> vector_features() {
  std::vector<std::string> features;
#if defined(__x86_64__)
  const auto add = [&features](const char* name, bool present) {
    if (present) features.emplace_back(name);
  };
  add("sse4.2", __builtin_cpu_supports("sse4.2"));
  add("avx", __builtin_cpu_supports("avx"));
  add("fma", __builtin_cpu_supports("fma"));
  add("avx2", __builtin_cpu_supports("avx2"));
  add("avx512f", __builtin_cpu_supports("avx512f"));
  add("avx512bw", __builtin_cpu_supports("avx512bw"));
  add("avx512vnni", __builtin_cpu_supports("avx512vnni"));
  add("avx512bf16", __builtin_cpu_supports("avx512bf16"));
#elif defined(__aarch64__)
  // Bits of the kernel's interface, asm/hwcap.h.
  const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  features.emplace_back("neon");
  if (first & (1UL << 10)) features.emplace_back("fp16");
  if (first & (1UL << 20)) features.emplace_back("dotprod");
  if (first & (1UL << 22)) features.emplace_back("sve");
  if (second & (1UL << 1)) features.emplace_back("sve2");
  if (second & (1UL << 13)) features.emplace_back("i8mm");
  if (second & (1UL << 14)) features.emplace_back("bf16");
#endif
  return features;
}

int32_t usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
}

SystemMemory system_memory() {
  return {.total_bytes = memory_bytes("MemTotal"), .available_bytes = memory_bytes("MemAvailable")};
}

double measure_read_rate(int64_t bytes, int32_t threads) {
  constexpr int64_t kRoundBytes = int64_t{256} << 20;  // starting the threads takes little of a round's time
  constexpr int64_t kLine = sizeof(Line), kLargePage = int64_t{2} << 20;
  const int64_t each = std::max<int64_t>(1, bytes / threads / (kStreams * kLine)) * kStreams;  // lines of a thread
  const int64_t read_bytes = each * threads * kLine;
  const std::unique_ptr<void, decltype(&std::free)> memory(
      std::aligned_alloc(kLargePage, static_cast<size_t>((read_bytes + kLargePage - 1) / kLargePage * kLargePage)),
      &std::free);
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory.get(), static_cast<size_t>(read_bytes), MADV_HUGEPAGE);  // as in the engine's memory
  auto* lines = static_cast<Line*>(memory.get());
  // A thread's lines are placed near it.
  time_threads(threads, [&](int32_t i) { std::fill_n(lines + i * each, each, Line{1}); });
  const int64_t passes = std::max<int64_t>(1, kRoundBytes / read_bytes);
  double best = 0;
  for (int round = 0; round < 9; ++round) {
    const double seconds = time_threads(threads, [&](int32_t i) { read_lines(lines + i * each, each, passes); });
    best = std::max(best, static_cast<double>(passes * read_bytes) / seconds);
  }
  return best;
}

int64_t peak_resident_bytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;  // in kB
}

}  // namespace ocellus::app
