// Times the choice of cache slots on a GPU, per layer: score_rows and select_slots, for DAVID's window of a tenth of
// the prompt and for H2O's sums over all queries.
// score_rows_bench [device]
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "kernels/cache/score_rows.h"
#include "kernels/cache/select_slots.h"
#include "tools/bench/gpu_timing.h"

namespace {

using namespace ocellus;
using bench::Gpu;

struct Shape {
  const char* name;
  int32_t heads, kv_heads, dim;
  int64_t rows, window, budget;
};

ScoreRowsArgs scoring(const Shape& shape, Gpu& gpu) {
  ScoreRowsArgs args;
  args.query = gpu.take_rows<Half>(shape.window, int64_t{shape.heads} * shape.dim);
  args.query_heads = shape.heads;
  Half* const keys = gpu.take<Half>(shape.rows * shape.kv_heads * shape.dim);
  args.rows = KvLayerRows::head_major(keys, nullptr, shape.kv_heads, shape.dim, shape.rows);
  args.row_count = shape.rows;
  args.scores = gpu.take_rows<float>(shape.kv_heads, shape.rows);
  args.scratch = gpu.take_rows<std::byte>(
      1, score_rows_scratch_bytes(shape.window, shape.rows, shape.heads, shape.dim, gpu.queue().traits()));
  return args;
}

SelectSlotsArgs selecting(const Shape& shape, const DeviceView<float>& scores, Gpu& gpu) {
  SelectSlotsArgs args;
  args.scores = scores;
  args.rows.count = shape.rows;
  args.rows.is_visual = gpu.take<uint8_t>(shape.rows);
  args.rows.visual_count = shape.rows - 1;
  args.window = std::min(shape.window, shape.rows / 10);
  args.budget = shape.budget;
  args.visual_quota = shape.budget * 2 / 3;
  args.pool.width = 5;
  args.stage = SelectStage::kUntilSwitch;
  args.ncar.when = NcarSwitch::kAtLayer;  // the most expensive case: theta in every layer
  args.ncar.threshold = 1000;
  args.ncar.state = gpu.take<NcarState>(1);
  args.kept.is_split = true;
  args.kept.text = gpu.take_rows<int32_t>(shape.kv_heads, shape.rows);
  args.kept.visual = gpu.take_rows<int32_t>(shape.kv_heads, shape.rows);
  args.kept.text_counts = gpu.take<int32_t>(shape.kv_heads);
  args.kept.visual_counts = gpu.take<int32_t>(shape.kv_heads);
  args.scratch =
      gpu.take_rows<std::byte>(1, select_slots_scratch_bytes(shape.rows, shape.kv_heads, gpu.queue().traits()));
  return args;
}

/// Median microseconds of a layer, of layers that run without a pause.
template <class Layer>
double time_layers(Gpu& gpu, Layer layer) {
  constexpr int kLayers = 16, kTimes = 12;
  return bench::median(bench::call_times(kLayers, kTimes, gpu.queue(), layer));
}

void time_shape(const Shape& shape, Gpu& gpu) {
  gpu.take_from_start();
  Queue& queue = gpu.queue();
  const ScoreRowsArgs scores = scoring(shape, gpu);
  SelectSlotsArgs select = selecting(shape, scores.scores, gpu);
  const double score_us = time_layers(gpu, [&](int64_t) { score_rows(scores, queue); });
  const double select_us = time_layers(gpu, [&](int64_t layer) {
    select.ncar.layer = static_cast<int32_t>(layer);
    select_slots(select, queue);
  });
  const double both_us = time_layers(gpu, [&](int64_t layer) {
    select.ncar.layer = static_cast<int32_t>(layer);
    score_rows(scores, queue);
    select_slots(select, queue);
  });
  std::printf(
      "%-18s n %5lld  r %5lld  H %2d  G %2d  E %3d  budget %4lld  score %8.2f us  select %7.2f us  both %8.2f us\n",
      shape.name, static_cast<long long>(shape.rows), static_cast<long long>(shape.window), shape.heads, shape.kv_heads,
      shape.dim, static_cast<long long>(shape.budget), score_us, select_us, both_us);
}

}  // namespace

int main(int argc, char** argv) {
  Gpu gpu(argc > 1 ? std::atoi(argv[1]) : 0);
  gpu.fill_normal();  // used as a mask of visual rows, too: most are nonzero
  std::printf("%s\n", gpu.name());
  const Shape shapes[] = {
      {"8B, DAVID", 32, 8, 128, 3400, 340, 340},
      {"8B, all queries", 32, 8, 128, 3400, 3400, 340},
      {"8B, SnapKV", 32, 8, 128, 3400, 32, 1024},
      {"256M, DAVID", 9, 3, 64, 1100, 110, 110},
  };
  for (const Shape& shape : shapes) time_shape(shape, gpu);
  return 0;
}
