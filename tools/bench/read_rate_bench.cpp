// GB/s at which threads read memory, each its own share of 2 GiB: a decode step reads every weight once, so that its
// bytes over this rate are the least time it can take. Median of 9 passes. tools/bench/peer.sh compiles it alone.
//
//   read_rate_bench [THREADS]
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using Wide = uint64_t __attribute__((vector_size(64)));
constexpr size_t kBytes = size_t{2} << 30;
constexpr size_t kStreams = 8;  // a core reads several places at once faster than one

std::atomic<uint64_t> total;  // keeps the compiler from leaving the reads out

void read_share(const Wide* share, size_t count) {
  const size_t each = count / kStreams;
  Wide sums[kStreams] = {};
  for (size_t i = 0; i < each; ++i)
    for (size_t stream = 0; stream < kStreams; ++stream) sums[stream] ^= share[stream * each + i];
  for (const Wide& sum : sums) total += sum[0];
}

}  // namespace

int main(int argument_count, char** arguments) {
  const size_t threads =
      argument_count > 1 ? std::strtoul(arguments[1], nullptr, 10) : std::thread::hardware_concurrency();
  auto* memory = static_cast<Wide*>(std::aligned_alloc(size_t{2} << 20, kBytes));
  if (memory == nullptr || threads == 0) return std::puts("read_rate_bench: no memory, or no threads"), 1;
  madvise(memory, kBytes, MADV_HUGEPAGE);  // as in the program's own arena
  const size_t count = kBytes / sizeof(Wide) / threads;
  std::vector<double> rates;
  for (int pass = -2; pass < 9; ++pass) {  // -2: each share is placed near its reader; -1 warms up
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::jthread> readers;
    for (size_t i = 0; i < threads; ++i)
      readers.emplace_back([pass, count, share = memory + i * count] {
        pass == -2 ? void(std::memset(share, 1, count * sizeof(Wide))) : read_share(share, count);
      });
    readers.clear();  // joins them
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (pass >= 0) rates.push_back(static_cast<double>(kBytes) * 1e-9 / seconds.count());
  }
  std::sort(rates.begin(), rates.end());
  std::printf("%.2f\n", rates[rates.size() / 2]);
  return 0;
}
