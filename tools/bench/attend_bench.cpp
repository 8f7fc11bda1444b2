// Times attention on the CPU, on the shapes of public models.
// attend_bench [threads]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "kernels/attention/attend_one.h"
#include "kernels/attention/attend_rows.h"
#include "platform/clock.h"
#include "platform/queue.h"
#include "quant/weight_format.h"

namespace {

using namespace ocellus;

std::vector<float> random_floats(std::mt19937& random, int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<Half> random_halves(std::mt19937& random, int64_t count) {
  std::vector<Half> values;
  for (const float value : random_floats(random, count)) values.push_back(float_to_half(value));
  return values;
}

/// Returns the best of many runs, in microseconds.
template <class Work>
double best_us(Work work) {
  double best = 1e30;
  const int64_t stop = now_ns() + 300'000'000;
  for (int i = 0; i < 5 || now_ns() < stop; ++i) {
    const int64_t start = now_ns();
    work();
    best = std::min(best, elapsed_ms(start, now_ns()) * 1e3);
  }
  return best;
}

void time_rows(const char* name, int64_t rows, int32_t heads, int32_t kv_heads, int32_t dim, bool causal, int32_t past,
               Queue& queue) {
  std::mt19937 random(1);
  const int64_t width = heads * dim;
  std::vector<float> query = random_floats(random, rows * width), output(query.size());
  std::vector<Half> keys = random_halves(random, kv_heads * rows * dim), values = keys;
  std::vector<Half> cache = random_halves(random, 2 * kv_heads * std::max(past, 1) * dim);
  KvRun run{
      reinterpret_cast<std::byte*>(cache.data()), 0, int64_t{4} * past * dim, int64_t{2} * past * dim, past, past};
  std::vector<std::byte> scratch(static_cast<size_t>(attend_rows_scratch_bytes(dim, queue.traits())));
  const AttendRowsArgs args{.query = DeviceView<float>(query.data(), rows, width),
                            .query_heads = heads,
                            .rows = KvLayerRows::head_major(keys.data(), values.data(), kv_heads, dim, rows),
                            .row_count = rows,
                            .bounds = causal ? RowBounds::causal() : RowBounds::all(),
                            .past = {.runs = &run, .count = past > 0 ? 1 : 0},
                            .output = DeviceView<float>(output.data(), rows, width),
                            .scratch = {scratch.data(), 1, static_cast<int64_t>(scratch.size())}};
  const double us = best_us([&] { attend_rows(args, queue); });
  const double pairs = static_cast<double>(rows) * past + (causal ? 0.5 * rows * (rows + 1) : 1.0 * rows * rows);
  std::printf("attend_rows %-22s T %5lld  H %2d  G %2d  E %3d  past %4d  %9.1f us  %6.1f GFLOP/s\n", name,
              static_cast<long long>(rows), heads, kv_heads, dim, past, us, 4.0 * pairs * heads * dim / us * 1e-3);
}

void time_one(int32_t slots, int32_t run_slots, Queue& queue) {
  constexpr int32_t kHeads = 8, kKvHeads = 4, kDim = 64;
  std::mt19937 random(2);
  std::vector<float> query = random_floats(random, kHeads * kDim), output(query.size());
  std::vector<Half> cache = random_halves(random, int64_t{2} * kKvHeads * (slots + run_slots) * kDim);
  std::vector<KvRun> runs;
  for (int32_t first = 0; first < slots; first += run_slots) {
    std::byte* data = reinterpret_cast<std::byte*>(cache.data() + int64_t{2} * kKvHeads * first * kDim);
    runs.push_back({data, 0, int64_t{4} * run_slots * kDim, int64_t{2} * run_slots * kDim,
                    std::min(run_slots, slots - first), run_slots});
  }
  const int32_t run_begin[2] = {0, static_cast<int32_t>(runs.size())};
  std::vector<std::byte> scratch(
      static_cast<size_t>(attend_one_scratch_bytes(1, slots, static_cast<int64_t>(runs.size()), kHeads, kDim, false)));
  const AttendOneArgs args{.query = {query.data(), 1, kHeads * kDim},
                           .query_heads = kHeads,
                           .kv_heads = kKvHeads,
                           .head_dim = kDim,
                           .runs = runs.data(),
                           .run_begin = run_begin,
                           .output = {output.data(), 1, kHeads * kDim},
                           .scratch = {scratch.data(), 1, static_cast<int64_t>(scratch.size())}};
  const double us = best_us([&] { cpu::attend_one(args, queue); });
  std::printf("attend_one  %5d slots in runs of %4d  %8.2f us  %6.1f GFLOP/s  %6.1f GB/s\n", slots, run_slots, us,
              4.0 * slots * kHeads * kDim / us * 1e-3, 4.0 * slots * kKvHeads * kDim / us * 1e-3);
}

/// Times one image of packed slots against f16.
void time_packed(int32_t heads, int32_t kv_heads, int32_t dim, int32_t slots, Queue& queue) {
  std::mt19937 random(3);
  std::vector<float> query = random_floats(random, heads * dim), output(query.size());
  double f16_us = 0;
  for (const int32_t bits : {16, 8, 4, 2, 1}) {
    const KvFormat format = kv_format_of(bits);
    const KvBlockLayout layout = KvBlockLayout::of(format, dim, slots);
    // Random bits serve as halves or as scales and codes: none of the halves is infinite.
    std::vector<Half> cache = random_halves(random, kv_heads * layout.padded_bytes / 2);
    const KvRun run{.data = reinterpret_cast<std::byte*>(cache.data()),
                    .head_stride = layout.padded_bytes,
                    .value_offset = layout.values - layout.keys,
                    .slots = slots,
                    .capacity = slots,
                    .packed = is_packed(format)};
    const int32_t run_begin[2] = {0, 1};
    std::vector<std::byte> scratch(static_cast<size_t>(attend_one_scratch_bytes(1, slots, 1, heads, dim, false)));
    const AttendOneArgs args{.query = {query.data(), 1, heads * dim},
                             .query_heads = heads,
                             .kv_heads = kv_heads,
                             .head_dim = dim,
                             .runs = &run,
                             .run_begin = run_begin,
                             .layer = {.format = format},
                             .output = {output.data(), 1, heads * dim},
                             .scratch = {scratch.data(), 1, static_cast<int64_t>(scratch.size())}};
    const double us = best_us([&] { cpu::attend_one(args, queue); });
    if (bits == 16) f16_us = us;
    std::printf("attend_one  %5d slots of %2d bits  H %2d  G %2d  E %3d  %8.2f us  %5.2f times f16  %6.1f GB/s\n",
                slots, bits, heads, kv_heads, dim, us, f16_us / us,
                static_cast<double>(layout.slot_bytes()) * slots * kv_heads / us * 1e-3);
  }
}

}  // namespace

int main(int argc, char** argv) {
  ThreadPool pool;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  if (!pool.start(threads).ok()) return 2;
  Queue queue(pool);
  std::printf("%d threads\n", threads);
  time_rows("vision 256 patches", 256, 6, 6, 64, false, 0, queue);
  time_rows("vision 1024 patches", 1024, 12, 12, 64, false, 0, queue);
  time_rows("vision 729 patches", 729, 16, 16, 72, false, 0, queue);
  time_rows("text", 64, 8, 4, 64, true, 0, queue);
  time_rows("text", 512, 8, 4, 64, true, 0, queue);
  time_rows("text", 1200, 8, 4, 64, true, 0, queue);
  time_rows("text after past", 128, 8, 4, 64, true, 1000, queue);
  time_rows("one row after past", 1, 8, 4, 64, true, 1000, queue);
  for (const int32_t slots : {10, 50, 100, 200, 400, 800, 1500}) time_one(slots, 64, queue);
  time_one(1500, 1500, queue);
  time_packed(8, 4, 64, 1024, queue);
  time_packed(8, 4, 64, 65536, queue);
  time_packed(32, 8, 128, 1024, queue);
  time_packed(9, 3, 64, 64, queue);
  return queue.ok() ? 0 : 1;
}
