// One block chooses the rows of one key/value head. The rank of the last kept row is found digit by digit, the highest
// first: a histogram over a digit's values shows in which of them the count of better rows passes the wanted number.
// Rows are then listed in their order, their places being prefix sums. Text and visual rows of the decoupled stage are
// two classes with a histogram each, searched at the same time.
#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/select_slots-inl.h"
#include "kernels/cache/select_slots.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kSelectThreads = 1024;
constexpr int kSelectWarps = kSelectThreads / kWarp;
constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
constexpr int kDigitsPerLane = kDigits / kWarp;
constexpr int kClasses = 2;  // text, or all rows; visual rows of the decoupled stage
constexpr unsigned kAllLanes = 0xFFFFFFFFu;
static_assert(kSelectWarps == kWarp && kClasses * kDigits <= kSelectThreads);

__device__ int lane_index() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ int warp_index() { return static_cast<int>(threadIdx.x) / kWarp; }

/// One block: sums the attention of visual rows and records NCAR. Every thread's sum and the tree over them have a
/// fixed order.
__global__ void __launch_bounds__(kSelectThreads) watch_ncar(const __grid_constant__ SelectSlotsArgs args) {
  __shared__ double of_warp[kSelectWarps];
  wait_for_inputs();
  let_next_start();
  if (!select::is_watching(args)) return;
  double sum = 0;
  for (int64_t head = 0; head < args.scores.rows; ++head) {
    const float* scores = args.scores.data + head * args.scores.stride;
#pragma unroll 4
    for (int64_t row = threadIdx.x; row < args.rows.count; row += kSelectThreads)
      if (select::is_visual_row(args, row)) sum += static_cast<double>(scores[row]);
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
  if (lane_index() == 0) of_warp[warp_index()] = sum;
  __syncthreads();  // all have also read the state
  if (args.ncar.layer == 0) {
    for (int i = static_cast<int>(threadIdx.x); i < NcarState::kMaxLayers; i += kSelectThreads)
      args.ncar.state->theta[i] = 0;
  }
  if (threadIdx.x != 0) return;  // it has cleared theta[0], which it records now
  double all = 0;
  for (int i = 0; i < kSelectWarps; ++i) all += of_warp[i];
  select::note_ncar(args, select::ncar_of(args, all));
}

/// Shared memory of a block that selects.
struct SelectRoom {
  uint32_t bins[kClasses][kDigits];
  uint32_t cut[kClasses];     // rank of the last kept row, as far as its digits are known
  uint32_t wanted[kClasses];  // number of kept rows that begin with these digits
  uint32_t warps[kSelectWarps];
  uint32_t visual_rows;
};

/// Common data of all threads of the block.
struct SelectTask {
  const float* scores;
  uint32_t* ranks;  // ranks of rows [0, rows)
  int64_t rows;     // number of rows to choose from; 0: all are kept
  bool decoupled;
};

__device__ int class_of(const SelectSlotsArgs& args, const SelectTask& task, int64_t row) {
  return task.decoupled && select::is_visual_row(args, row) ? 1 : 0;
}

/// Ranks all rows and divides the budget between the classes.
__device__ void rank_rows(const SelectSlotsArgs& args, const SelectTask& task, SelectRoom& room) {
  if (threadIdx.x == 0) room.visual_rows = 0;
  __syncthreads();
  uint32_t visual = 0;
  for (int64_t row = threadIdx.x; row < task.rows; row += kSelectThreads) {
    task.ranks[row] = select::rank_of(select::pool_score(task.scores, task.rows, row, args.pool.width, args.pool.kind));
    visual += static_cast<uint32_t>(class_of(args, task, row));
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) visual += __shfl_xor_sync(kAllLanes, visual, offset);
  if (lane_index() == 0 && visual > 0) atomicAdd(&room.visual_rows, visual);
  __syncthreads();
  if (threadIdx.x != 0) return;
  const int64_t visual_rows = room.visual_rows;
  const int64_t quota = task.decoupled ? args.visual_quota : 0;
  const select::Shares shares = select::share_budget(args.budget, quota, task.rows - visual_rows, visual_rows);
  room.wanted[0] = static_cast<uint32_t>(shares.text);
  room.wanted[1] = static_cast<uint32_t>(shares.visual);
  // A class without wanted rows never finds a digit, and nothing ranks above this.
  for (int i = 0; i < kClasses; ++i) room.cut[i] = room.wanted[i] > 0 ? 0 : 0xFFFFFFFFu;
}

/// A warp finds the digit in which the count of better rows passes the wanted number.
__device__ void find_digit(int shift, int of_class, SelectRoom& room) {
  const uint32_t* bins = room.bins[of_class];
  const int highest = kDigits - 1 - lane_index() * kDigitsPerLane;  // lane 0 has the best digits
  uint32_t count = 0;
  for (int i = 0; i < kDigitsPerLane; ++i) count += bins[highest - i];
  uint32_t up_to = count;
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const uint32_t other = __shfl_up_sync(kAllLanes, up_to, static_cast<unsigned>(offset));
    if (lane_index() >= offset) up_to += other;
  }
  const uint32_t wanted = room.wanted[of_class];
  __syncwarp();  // all have read it
  uint32_t better = up_to - count;
  if (wanted <= better || wanted > up_to) return;
  int digit = highest;
  while (better + bins[digit] < wanted) better += bins[digit--];
  room.cut[of_class] |= static_cast<uint32_t>(digit) << shift;
  room.wanted[of_class] = wanted - better;
}

/// Finds the rank of the last kept row of every class, and the number of kept rows of this rank. Starts and ends with a
/// barrier.
__device__ void find_cuts(const SelectSlotsArgs& args, const SelectTask& task, SelectRoom& room) {
  for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    if (threadIdx.x < kClasses * kDigits) room.bins[threadIdx.x / kDigits][threadIdx.x % kDigits] = 0;
    __syncthreads();
    const uint32_t known = ~((2u << (shift + kDigitBits - 1)) - 1);  // digits found so far; a shift by 32 would be
                                                                     // undefined
    const uint32_t cuts[kClasses] = {room.cut[0] & known, room.cut[1] & known};
    for (int64_t row = threadIdx.x; row < task.rows; row += kSelectThreads) {
      const uint32_t rank = task.ranks[row];
      const int of_class = class_of(args, task, row);
      if ((rank & known) == (of_class == 0 ? cuts[0] : cuts[1]))
        atomicAdd(&room.bins[of_class][rank >> shift & (kDigits - 1)], 1u);
    }
    __syncthreads();
    if (warp_index() < kClasses) find_digit(shift, warp_index(), room);
    __syncthreads();
  }
}

/// Returns the sum over the threads before this one, and over all. Two barriers; the room may be reused afterwards.
__device__ uint32_t sum_before(uint32_t value, uint32_t* warps, uint32_t& total) {
  const auto scan = [](uint32_t x) {
    for (int offset = 1; offset < kWarp; offset *= 2) {
      const uint32_t other = __shfl_up_sync(kAllLanes, x, static_cast<unsigned>(offset));
      if (lane_index() >= offset) x += other;
    }
    return x;
  };
  const uint32_t up_to = scan(value);
  if (lane_index() == kWarp - 1) warps[warp_index()] = up_to;
  __syncthreads();
  const uint32_t up_to_warp = scan(warps[lane_index()]);
  total = __shfl_sync(kAllLanes, up_to_warp, kWarp - 1);
  const uint32_t earlier = __shfl_sync(kAllLanes, up_to_warp, warp_index() > 0 ? warp_index() - 1 : 0);
  __syncthreads();
  return up_to - value + (warp_index() > 0 ? earlier : 0);
}

/// Packs two counts of at most kSelectThreads in one word.
__device__ constexpr uint32_t one_of(int which) { return which == 0 ? 1u : 1u << 16; }
__device__ constexpr uint32_t count_of(uint32_t counts, int which) {
  return which == 0 ? counts & 0xFFFFu : counts >> 16;
}

/// Writes both lists.
__device__ void list_rows(const SelectSlotsArgs& args, const SelectTask& task, SelectRoom& room) {
  const int64_t head = blockIdx.x;
  const uint32_t cuts[kClasses] = {room.cut[0], room.cut[1]};
  const uint32_t wanted[kClasses] = {room.wanted[0], room.wanted[1]};
  uint32_t seen[kClasses] = {}, listed[2] = {};  // rows on the cut; rows of either list
  for (int64_t first = 0; first < args.rows.count; first += kSelectThreads) {
    const int64_t row = first + threadIdx.x;
    const bool exists = row < args.rows.count, choosable = row < task.rows;
    const bool visual = exists && select::is_visual_row(args, row);
    const int of_class = task.decoupled && visual ? 1 : 0;
    const uint32_t rank = choosable ? task.ranks[row] : 0;
    const uint32_t cut = of_class == 0 ? cuts[0] : cuts[1];
    const bool on_cut = choosable && rank == cut;
    uint32_t total;
    const uint32_t before = sum_before(on_cut ? one_of(of_class) : 0, room.warps, total);
    const uint32_t place = of_class == 0 ? seen[0] + count_of(before, 0) : seen[1] + count_of(before, 1);
    const bool chosen = choosable && (rank > cut || (on_cut && place < (of_class == 0 ? wanted[0] : wanted[1])));
    for (int i = 0; i < kClasses; ++i) seen[i] += count_of(total, i);

    const bool kept = chosen || (exists && !choosable);
    int64_t kept_before = 0;
    if (args.kept.last_text >= 0) kept_before = listed[0] + listed[1] + sum_before(kept ? 1 : 0, room.warps, total);
    const int list = exists && select::goes_to_visual(args, row, visual, kept_before) ? 1 : 0;
    const uint32_t ahead = sum_before(kept ? one_of(list) : 0, room.warps, total);
    if (kept && list == 0)
      args.kept.text.data[head * args.kept.text.stride + listed[0] + count_of(ahead, 0)] = static_cast<int32_t>(row);
    if (kept && list == 1)
      args.kept.visual.data[head * args.kept.visual.stride + listed[1] + count_of(ahead, 1)] =
          static_cast<int32_t>(row);
    for (int i = 0; i < 2; ++i) listed[i] += count_of(total, i);
  }
  if (threadIdx.x != 0) return;
  args.kept.text_counts[head] = static_cast<int32_t>(listed[0]);
  if (args.kept.is_split) args.kept.visual_counts[head] = static_cast<int32_t>(listed[1]);
}

__global__ void __launch_bounds__(kSelectThreads) choose_rows(const __grid_constant__ SelectSlotsArgs args) {
  __shared__ SelectRoom room;
  wait_for_inputs();
  let_next_start();
  SelectTask task;
  task.scores = args.scores.data + blockIdx.x * args.scores.stride;
  task.ranks = reinterpret_cast<uint32_t*>(args.scratch.data) + blockIdx.x * args.rows.count;
  task.rows = select::rows_to_choose_from(args);
  task.decoupled = select::is_decoupled(args);
  if (task.rows > 0) {
    rank_rows(args, task, room);
    __syncthreads();
    find_cuts(args, task, room);
  } else {
    if (threadIdx.x < kClasses) room.cut[threadIdx.x] = room.wanted[threadIdx.x] = 0;
    __syncthreads();
  }
  list_rows(args, task, room);
}

}  // namespace

void select_slots(const SelectSlotsArgs& args, Queue& queue) {
  select::check(args, queue);
  if (!queue.ok()) return;
  if (args.stage == SelectStage::kUntilSwitch)
    launch<watch_ncar>(queue, "select_slots", {.grid = 1, .threads = kSelectThreads}, args);
  launch<choose_rows>(queue, "select_slots",
                      {.grid = static_cast<unsigned>(args.scores.rows), .threads = kSelectThreads}, args);
}

}  // namespace cuda
}  // namespace ocellus
