// Times packing of an image's keys and values on a GPU, and expanding them for prefill: one layer.
// pack_kv_bench [device]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "kernels/cache/expand_kv.h"
#include "kernels/cache/pack_kv.h"
#include "tools/bench/gpu_timing.h"

namespace {

using namespace ocellus;
using bench::Gpu;

constexpr int kLaunches = 12;
constexpr int64_t kCalls = 24;
/// Calls rotate through this many bytes of rows: more than the device's caches hold.
constexpr int64_t kRowsBytes = int64_t{200} << 20;

struct Shape {
  const char* name;
  int32_t images, slots;  // slots per image
  int32_t heads, dim;
  int32_t bits;

  int64_t rows() const { return int64_t{images} * slots; }
  int64_t half_bytes() const { return rows() * heads * dim * 4; }
  int64_t code_bytes() const { return half_bytes() * bits / 16; }
  int64_t layers() const { return std::max<int64_t>(1, std::min(kCalls, kRowsBytes / half_bytes())); }
};

/// Packed blocks of all layers and heads, one run per image.
std::vector<KvRun> packed_runs(const Shape& shape, Gpu& gpu) {
  const KvBlockLayout layout = KvBlockLayout::of(kv_format_of(shape.bits), shape.dim, shape.slots);
  std::vector<KvRun> runs(static_cast<size_t>(shape.images));
  for (KvRun& run : runs) {
    run.head_stride = layout.padded_bytes;
    run.layer_stride = shape.heads * layout.padded_bytes;
    run.value_offset = layout.values - layout.keys;
    run.data = gpu.take<std::byte>(shape.layers() * run.layer_stride);
    run.slots = run.capacity = shape.slots;
    run.packed = shape.bits < 16;
    run.calibrated = true;
  }
  return runs;
}

KvLayer layer_of(const Shape& shape, const KvRun& run, int64_t index) {
  return {static_cast<int32_t>(index), kv_format_of(shape.bits), KvScaleForm::kF16, index * run.layer_stride};
}

/// One layer's rows per call.
std::vector<KvLayerRows> row_lists(const Shape& shape, int64_t capacity, Gpu& gpu) {
  const int64_t halves = shape.heads * capacity * shape.dim;
  std::vector<KvLayerRows> lists;
  for (int64_t i = 0; i < shape.layers(); ++i)
    lists.push_back(
        KvLayerRows::head_major(gpu.take<Half>(halves), gpu.take<Half>(halves), shape.heads, shape.dim, capacity));
  return lists;
}

void print(const char* op, const Shape& shape, int64_t bytes, const std::vector<double>& times) {
  const double us = bench::median(times);
  std::printf("%-14s %-16s images %d  slots %4d  G %d  E %3d  %2d bits  %8.2f us  %7.1f GB/s\n", op, shape.name,
              shape.images, shape.slots, shape.heads, shape.dim, shape.bits, us,
              static_cast<double>(bytes) / us * 1e-3);
}

/// Bytes counted: rows once, though they are read twice, and codes.
void time_pack(const Shape& shape, const std::vector<KvRun>& runs, Gpu& gpu) {
  std::vector<int32_t> indices(static_cast<size_t>(shape.rows()));
  std::iota(indices.begin(), indices.end(), 0);
  std::vector<PackJob> jobs;
  for (const KvRun& run : runs) jobs.push_back({run, static_cast<int32_t>(jobs.size()) * shape.slots});
  const std::vector<KvLayerRows> lists = row_lists(shape, shape.rows(), gpu);
  PackKvArgs args;
  args.indices = gpu.upload(indices);
  args.jobs = gpu.upload(jobs);
  args.job_count = shape.images;
  const std::vector<double> times = bench::call_times(kCalls, kLaunches, gpu.queue(), [&](int64_t call) {
    args.layer = layer_of(shape, runs[0], call % shape.layers());
    args.rows = lists[static_cast<size_t>(args.layer.index)];
    pack_kv(args, gpu.queue());
  });
  print("pack_kv", shape, shape.half_bytes() + shape.code_bytes(), times);
}

/// Bytes counted: codes (or f16) read, f16 written.
void time_expand(const char* op, const Shape& shape, const std::vector<KvRun>& runs, Gpu& gpu) {
  std::vector<KvRun> tiles;
  for (const KvRun& run : runs)
    for (int32_t first = 0; first < run.slots; first += kPackedTileSlots)
      tiles.push_back(slice_run(run, first, std::min(kPackedTileSlots, run.slots - first), shape.dim));
  const auto count = static_cast<int32_t>(tiles.size());
  const std::vector<KvLayerRows> lists = row_lists(shape, int64_t{count} * kPackedTileSlots, gpu);
  ExpandKvArgs args;
  args.runs = gpu.upload(tiles);
  args.run_count = count;
  args.rope = {.pairing = RopePairing::kHalves, .rotated = shape.dim, .base = 1e6f};
  const std::vector<double> times = bench::call_times(kCalls, kLaunches, gpu.queue(), [&](int64_t call) {
    args.layer = layer_of(shape, runs[0], call % shape.layers());
    args.out = lists[static_cast<size_t>(args.layer.index)];
    expand_kv(args, gpu.queue());
  });
  print(op, shape, shape.half_bytes() + shape.code_bytes(), times);
}

/// f16 runs in the rows' own memory, shifted by some positions.
std::vector<KvRun> moved_runs(const Shape& shape, Gpu& gpu) {
  std::vector<KvRun> runs(static_cast<size_t>(shape.images));
  for (KvRun& run : runs) {
    run.value_offset = int64_t{2} * shape.slots * shape.dim;
    run.head_stride = 2 * run.value_offset;
    run.layer_stride = shape.heads * run.head_stride;
    run.data = gpu.take<std::byte>(shape.layers() * run.layer_stride);
    run.slots = run.capacity = shape.slots;
    run.position_shift = 77;
  }
  return runs;
}

void time_shape(const Shape& shape, Gpu& gpu) {
  gpu.take_from_start();
  const std::vector<KvRun> runs = packed_runs(shape, gpu);
  time_pack(shape, runs, gpu);
  time_expand("expand_kv", shape, runs, gpu);
}

}  // namespace

int main(int argc, char** argv) {
  Gpu gpu(argc > 1 ? std::atoi(argv[1]) : 0);
  gpu.fill_normal();
  std::printf("%s\n", gpu.name());
  constexpr Shape kShapes[] = {
      {"InternVL2.5-8B", 1, 3328, 8, 128, 1}, {"InternVL2.5-8B", 1, 3328, 8, 128, 2},
      {"InternVL2.5-8B", 1, 3328, 8, 128, 4}, {"InternVL2.5-8B", 1, 3328, 8, 128, 8},
      {"InternVL2.5-8B", 4, 1024, 8, 128, 2}, {"small images", 8, 64, 4, 64, 2},
      {"small image", 1, 64, 4, 64, 2},
  };
  for (const Shape& shape : kShapes) time_shape(shape, gpu);
  for (const Shape& shape : {Shape{"InternVL2.5-8B", 1, 3328, 8, 128, 16}, Shape{"small images", 8, 64, 4, 64, 16}}) {
    gpu.take_from_start();
    time_expand("expand_kv moved", shape, moved_runs(shape, gpu), gpu);
  }
  return 0;
}
