// Times decode attention over packed caches on a GPU: formats, calibration, one long session and many, against f16 and
// against the device's own copies.
// attend_packed_bench [device [bits rows]]    with the last two only that format and batch, once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "kernels/attention/attend_step.h"
#include "tools/bench/gpu_timing.h"

namespace {

using namespace ocellus;
using bench::Gpu;

constexpr int64_t kMemoryBytes = int64_t{5} << 30;
/// Calls rotate through this many bytes of cache: much more than the device's caches hold.
constexpr int64_t kCacheBytes = int64_t{400} << 20;
constexpr int32_t kHeads = 32, kKvHeads = 8, kDim = 128;
constexpr int32_t kImageSlots = 3328;  // one block
constexpr int kReplays = 21;

struct Shape {
  int64_t rows;
  int32_t slots;       // visual slots, before the new one
  bool cache_settled;  // attend_step.h
};

struct Case {
  KvFormat format;
  bool calibrated;
};

/// Returns numbers of either sign, away from zero.
std::vector<Half> draw(int64_t count, float scale) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> size(0.1f, 1.5f);
  std::vector<Half> drawn;
  for (int64_t i = 0; i < count; ++i)
    drawn.push_back(float_to_half((random() % 2 == 0 ? scale : -scale) * size(random)));
  return drawn;
}

/// Bytes of a layer's part of a block of `slots` slots, with all its heads.
int64_t layer_bytes(KvFormat format, int32_t slots) {
  return kKvHeads * KvBlockLayout::of(format, kDim, slots).padded_bytes;
}

/// Allocates blocks of all layers and heads in the runtime's layout; layers are spaced for the largest block.
KvRun take_run(KvFormat format, int32_t slots, int64_t layers, Gpu& gpu) {
  const KvBlockLayout layout = KvBlockLayout::of(format, kDim, slots);
  KvRun run;
  const int32_t room = is_packed(format) ? std::max(slots, kImageSlots) : slots;
  run.data = gpu.take<std::byte>(layers * layer_bytes(format, room));
  run.layer_stride = kKvHeads * layout.padded_bytes;
  run.head_stride = layout.padded_bytes;
  run.value_offset = layout.values - layout.keys;
  run.slots = run.capacity = slots;
  run.packed = run.calibrated = is_packed(format);
  return run;
}

/// Tiles per row: images, then a page with only the new slot.
std::vector<KvRun> tile_list(const Shape& shape, KvFormat format, int64_t layers, Gpu& gpu) {
  const int32_t most = is_packed(format) ? kPackedTileSlots : kTileSlots;
  std::vector<KvRun> list;
  for (int64_t b = 0; b < shape.rows; ++b) {
    for (int32_t left = shape.slots; left > 0; left -= kImageSlots) {
      const KvRun image = take_run(format, std::min(left, kImageSlots), layers, gpu);
      for (int32_t first = 0; first < image.slots; first += most)
        list.push_back(slice_run(image, first, std::min(most, image.slots - first), kDim));
    }
    list.push_back(take_run(KvFormat::kF16, kTileSlots, layers, gpu));
  }
  return list;
}

AttendStepArgs arguments(const Shape& shape, const Case& what, int64_t layers, Gpu& gpu) {
  gpu.take_from_start();
  AttendStepArgs args;
  // Scales such that scores spread as those of f16 keys do, whatever the maximum code.
  const float scale = is_packed(what.format) ? 2.0f / static_cast<float>((1 << key_bits(what.format)) - 1) : 1.0f;
  const Half* queries = gpu.upload(draw(shape.rows * kHeads * kDim, scale));
  args.query = DeviceView<Half>(const_cast<Half*>(queries), shape.rows, kHeads * kDim);
  args.key = gpu.take_rows<Half>(shape.rows, kKvHeads * kDim);
  args.value = gpu.take_rows<Half>(shape.rows, kKvHeads * kDim);
  args.output = gpu.take_rows<Half>(shape.rows, kHeads * kDim);
  args.heads.query = kHeads;
  args.heads.kv = kKvHeads;
  args.heads.dim = kDim;
  args.rope.pairing = RopePairing::kHalves;
  args.rope.rotated = kDim;
  const std::vector<float> turns(static_cast<size_t>(shape.rows * kDim), 0.70710678f);
  args.angles = {gpu.upload(turns), shape.rows, kDim};
  const std::vector<KvRun> tiles = tile_list(shape, what.format, layers, gpu);
  args.tiles.per_row = args.tiles.most = static_cast<int64_t>(tiles.size()) / shape.rows;
  args.tiles.runs = gpu.upload(tiles);
  std::vector<StepRow> steps(static_cast<size_t>(shape.rows));
  for (StepRow& step : steps) {
    step.active = 1;
    step.new_tile = static_cast<int32_t>(args.tiles.most - 1);
  }
  args.tiles.steps = gpu.upload(steps);
  args.cache_settled = shape.cache_settled;
  args.calibration = {what.calibrated, 0.5f, 1.0f};
  const int64_t scratch_bytes = attend_step_scratch_bytes(shape.rows, shape.slots + 1, args.tiles.most, kHeads,
                                                          kKvHeads, kDim, what.format, gpu.queue().traits());
  args.scratch = {gpu.take<std::byte>(scratch_bytes), 1, scratch_bytes};
  bench::require(gpu.queue().cuda()->fill(args.scratch.data, 0, scratch_bytes));
  return args;
}

double time_case(const Shape& shape, const Case& what, double f16_us, double copy_rate, Gpu& gpu) {
  const int32_t bits = key_bits(what.format) + value_bits(what.format);
  const double bytes = static_cast<double>(shape.rows) * shape.slots * kKvHeads * kDim * bits / 8;
  const int64_t layers = std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(kCacheBytes) / bytes), 2, 64);
  AttendStepArgs args = arguments(shape, what, layers, gpu);
  // Calls follow each other as in a decode step: one layer after the other.
  const double us =
      bench::median(bench::call_times(std::max<int64_t>(layers, 16), kReplays, gpu.queue(), [&](int64_t call) {
        const int64_t layer = call % layers;
        args.layer = {static_cast<int32_t>(layer), what.format, KvScaleForm::kF16,
                      layer * layer_bytes(what.format, kImageSlots)};
        attend_step(args, gpu.queue());
      }));
  std::printf("B %3lld  slots %5d  %-9s %2d/%-2d bits  %-10s %8.2f us  %7.1f GB/s  %5.1f%% of copy",
              static_cast<long long>(shape.rows), shape.slots, shape.cache_settled ? "settled" : "",
              key_bits(what.format), value_bits(what.format), what.calibrated ? "calibrated" : "", us,
              bytes / us * 1e-3, bytes / us * 1e6 / copy_rate * 100);
  if (is_packed(what.format)) std::printf("  %5.2f times f16", f16_us / us);
  std::printf("\n");
  return us;
}

/// Times a single case, for a profiler.
void time_one(int32_t bits, int64_t rows, double copy_rate, Gpu& gpu) {
  const Shape shape{rows, rows == 1 ? 32768 : kImageSlots, true};
  time_case(shape, {kv_format_of(bits), false}, 0, copy_rate, gpu);
}

void time_shape(const Shape& shape, double copy_rate, Gpu& gpu) {
  const double f16_us = time_case(shape, {KvFormat::kF16, false}, 0, copy_rate, gpu);
  for (const KvFormat format : {KvFormat::k8Bit, KvFormat::k4Bit, KvFormat::k2Bit, KvFormat::k1Bit, kv_format_of(8, 4),
                                kv_format_of(4, 2), kv_format_of(4, 1), kv_format_of(2, 1)}) {
    for (const bool calibrated : {false, true}) time_case(shape, {format, calibrated}, f16_us, copy_rate, gpu);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Gpu gpu(argc > 1 ? std::atoi(argv[1]) : 0, kMemoryBytes);
  const double copy_rate = gpu.copy_rate();
  gpu.fill(draw(1 << 18, 1.0f));  // the same values for keys, codes and steps
  std::printf("%s, copy %.1f GB/s; H %d, G %d, E %d\n", gpu.name(), copy_rate * 1e-9, kHeads, kKvHeads, kDim);
  const Shape shapes[] = {
      {1, 32768, true}, {8, 32768, true}, {1, kImageSlots, true}, {16, kImageSlots, true}, {128, kImageSlots, true}};
  if (argc > 3) time_one(std::atoi(argv[2]), std::atoi(argv[3]), copy_rate, gpu);
  for (const Shape& shape : shapes)
    if (argc <= 3) time_shape(shape, copy_rate, gpu);
  return 0;
}
