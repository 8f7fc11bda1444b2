// The host side of few-row products: choice of the plan, division of shared memory and rows, and rounding the input
// beforehand if blocks do not do it themselves. matmul_few_rows.h is the contract; in few_rows/, in the order to read:
//
//   plan.h                  the plans, and the choice between them by shape and device
//   work.cuh                parameters of the kernels: one launch
//   round_input.cuh         rmsnorm and rounding of the input to f16 or int8
//   weight_steps.cuh        division of the weights between blocks and warps; copies into shared memory
//   tensor_step.cuh         sixteen weight rows times the input rows on the tensor cores
//   tile_units.cuh          the same divided for three to eight input rows
//   tile_input.cuh          their input rows in registers
//   tile_step.cuh           sixteen weight rows as f16 times these
//   tile_kernel.cuh         the kernel of those steps
//   tensor_kernel.cuh       the kernel for more rows, and launch_few_rows
//   warp_pieces.cuh         rows of weights divided into pieces, for one warp each
//   warp_kernel.cuh         the kernel over pieces, for one or two input rows: no tensor cores
//   launch.cuh              limits of launches by plan; declares launch_few_rows, instantiated by format in the .cu
//   files
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "kernels/base/launch.cuh"
#include "kernels/linear/few_rows/launch.cuh"
#include "kernels/linear/few_rows/round_input.cuh"
#include "kernels/linear/few_rows/tile_kernel.cuh"
#include "kernels/linear/few_rows/warp_kernel.cuh"
#include "kernels/linear/matmul_few_rows.h"

namespace ocellus::cuda {
namespace {

/// With fewer weight rows a block is not worth starting.
constexpr int kFewestBlockRows = 4;

struct StepFacts {
  bool plain;
  int bytes, warps;
  int tile_ring;                               // FewRowsPlan::kTiles: steps of a warp's ring
  int ring_bytes, piece_weights, piece_bytes;  // FewRowsPlan::kPerWarp: per warp; weights and inputs of a piece
  void (*launch)(FewRowsPlan plan, const LaunchShape& shape, const FewRowsWork& work, Queue& queue);
};

template <WeightFormat kFormat>
constexpr StepFacts kFactsOf = {Step<kFormat>::kPlain,
                                Step<kFormat>::kBytes,
                                Step<kFormat>::kWarps,
                                kTileRing<kFormat>,
                                Piece<kFormat>::kRing* Piece<kFormat>::kSlotBytes,
                                Piece<kFormat>::kWeights,
                                LaneRows<kFormat>::kPieceBytes + LaneRows<kFormat>::kPieceScales * 8,
                                launch_few_rows<kFormat>};

const StepFacts& facts_of(WeightFormat format) {
  static constexpr auto kFacts = []<int... kIndices>(std::integer_sequence<int, kIndices...>) {
    return std::array<StepFacts, kWeightFormatCount>{kFactsOf<static_cast<WeightFormat>(kIndices)>...};
  }
  (std::make_integer_sequence<int, kWeightFormatCount>());
  return kFacts[static_cast<size_t>(format)];
}

/// PTX of an older device may run on one with less shared memory.
int shared_bytes_of(const CudaFacts& device) {
  return std::min(most_shared_bytes(device.code_capability), most_shared_bytes(10 * device.major + device.minor));
}

/// Shared memory of a block of which a multiprocessor holds one. Two of a product's blocks on one multiprocessor,
/// because attention holds another one, would get half of its rate each, and the product would wait for them.
int alone_shared_bytes(const CudaFacts& device) {
  return most_shared_bytes(10 * device.major + device.minor) / 2 + 1024;
}

/// Blocks are smaller if a multiprocessor has little shared memory.
constexpr int most_warps_of(int shared_bytes) { return shared_bytes < 128 * 1024 ? 8 : 16; }
int most_warps_of(const CudaFacts& device) { return most_warps_of(shared_bytes_of(device)); }

constexpr int kRoomBytes = (kMaxPerWarpRows + kWarp) * 4;  // room of sums over a block

/// True if shape_rounded() needs at most this much shared memory, without rounded rows, which it stages where there is
/// room.
template <WeightFormat kFormat>
constexpr bool fits(FewRowsPlan plan, int shared_bytes) {
  constexpr StepFacts kFacts = kFactsOf<kFormat>;
  const int pitch = kFacts.plain ? kFacts.bytes : 16 * ((kFacts.bytes + 30) / 16 | 1);
  const int warps = std::min({kFacts.warps, kMostRoundedWarps, most_warps_of(shared_bytes)});
  const int unit_bytes = kUnitRows * 8 * tiles_of(plan) * 4, units = (tiles_of(plan) <= 2 ? 2 : 1) * warps + 1;
  return warps * kRingSteps * kUnitRows * pitch + units * unit_bytes <= shared_bytes;
}
static_assert([]<int... kIndices>(std::integer_sequence<int, kIndices...>) {
  for (int plan = static_cast<int>(FewRowsPlan::kTwo); plan <= static_cast<int>(FewRowsPlan::kEight); ++plan)
    if (!(... && fits<static_cast<WeightFormat>(kIndices)>(static_cast<FewRowsPlan>(plan), most_shared_bytes(87))))
      return false;
  return true;
}(std::make_integer_sequence<int, kWeightFormatCount>()));

int64_t per_warp_bytes(const StepFacts& facts, int64_t rows, int64_t cols, int warps) {
  return warps * facts.ring_bytes + rows * divide_up(cols, facts.piece_weights) * facts.piece_bytes + kRoomBytes;
}

FewRowsPlan choose_plan(const StepFacts& facts, int64_t rows, int64_t cols, const CudaFacts& device) {
  return choose_few_rows_plan(rows, cols, per_warp_bytes(facts, rows, cols, most_warps_of(device)),
                              shared_bytes_of(device));
}

/// One block per row; without a norm, one per blockDim.x items of a row.
template <bool kPlain>
__global__ void __launch_bounds__(512) round_input_rows(const FewRowsInput input, const RoundedRows out) {
  __shared__ float room[kWarp];
  let_next_start();
  wait_for_inputs();
  const int t = static_cast<int>(blockIdx.x), threads = static_cast<int>(blockDim.x);
  const int items = kItemsPerGroup * groups_of(input.cols);
  const bool exists = t < input.rows;
  const int first = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  float scale = 1;
  if (input.norm_weight != nullptr && exists) {
    float squares = 0;
#pragma unroll 4
    for (int item = first; item < items; item += threads) squares += squares_of(load_item(input, t, kItem * item));
    scale = rsqrtf(block_sum(squares, room) / static_cast<float>(input.cols) + input.epsilon);
  }
  const int step = threads * static_cast<int>(gridDim.y);
#pragma unroll 2
  for (int item = first; item < items; item += step) {
    float4 x{};
    if (exists) x = load_item(input, t, kItem * item);
    if (exists && input.norm_weight != nullptr) x = normalised(x, scale, input.norm_weight, kItem * item, input.cols);
    store_item<kPlain>(x, t, item, out);
  }
}

void round_beforehand(const FewRowsInput& input, const RoundedRows& out, bool plain, Queue& queue) {
  constexpr int kThreads = 256, kNormThreads = 512, kItemsPerThread = 2;
  const bool norm = input.norm_weight != nullptr;
  const int64_t items = int64_t{kItemsPerGroup} * groups_of(input.cols);
  LaunchShape shape;
  shape.threads = norm ? kNormThreads : kThreads;
  shape.grid = dim3(static_cast<unsigned>(out.columns),
                    norm ? 1 : static_cast<unsigned>(divide_up(items, kThreads * kItemsPerThread)));
  if (plain)
    launch<round_input_rows<true>>(queue, "matmul", shape, input, out);
  else
    launch<round_input_rows<false>>(queue, "matmul", shape, input, out);
}

/// The row of a block as FewRowsPlan::kTiles takes it.
struct HalfRow {
  template <bool kPlain>
  __device__ uint8_t* value_at(int, int group, int word) const {
    return reinterpret_cast<uint8_t*>(data + 32 * group + 4 * word);
  }
  __half* data;
};

/// One block per row; `out` is padded with zeros to groups of 32.
__global__ void __launch_bounds__(512) round_rows_to_halves(FewRowsInput input, __half* out) {
  __shared__ float room[kMaxPerWarpRows + kWarp];
  let_next_start();
  const int t = static_cast<int>(blockIdx.x);
  const int64_t bytes = t * input.stride * (input.is_half ? 2 : 4);
  input.data = static_cast<const std::byte*>(input.data) + bytes;
  input.rows = 1;
  take_input<true>(input, HalfRow{out + int64_t{32} * groups_of(input.cols) * t}, room);
}

/// Bytes between the rows of a step in the ring. An odd number of 16-byte pieces puts the rows into different banks; a
/// step that does not start at a multiple of 16 touches one more piece.
int row_pitch(const FewRowsWork& work, const StepFacts& facts) {
  if (facts.plain) return facts.bytes;
  int64_t unit = std::gcd(int64_t{16}, std::gcd(work.row_bytes, int64_t{facts.bytes}));
  for (int i = 0; i < work.count; ++i)
    unit = std::gcd(unit, static_cast<int64_t>(reinterpret_cast<uintptr_t>(work.matrices[i].weights) % 16));
  const int64_t pieces = divide_up(facts.bytes + 16 - unit, 16);
  return static_cast<int>(16 * (pieces | 1));
}

/// Divides the weight rows among at most this many blocks, and returns their number.
unsigned divide_rows(int64_t weight_rows, int64_t most_blocks, FewRowsWork& work) {
  const int64_t blocks = std::min(most_blocks, divide_up(weight_rows, kFewestBlockRows));
  work.share.rows = static_cast<int>(weight_rows / blocks);
  work.share.blocks_with_more = static_cast<int>(weight_rows % blocks);
  return static_cast<unsigned>(blocks);
}

LaunchShape shape_per_warp(const StepFacts& facts, int64_t weight_rows, FewRowsWork& work, const CudaFacts& device) {
  const unsigned blocks = divide_rows(weight_rows, device.multiprocessors, work);
  const bool fit = per_warp_bytes(facts, work.input.rows, work.input.cols, kMostWarps) <= shared_bytes_of(device);
  const int warps = choose_warps(divide_up(weight_rows, blocks), most_warps_of(device), kMostWarps, fit);
  const int64_t pieces = work.input.rows * divide_up(work.input.cols, facts.piece_weights);
  work.shared.values_at = warps * facts.ring_bytes;
  const int64_t value_bytes = pieces * (facts.plain ? 2 : 1) * facts.piece_weights;
  work.shared.scales_at = work.shared.values_at + static_cast<int>(value_bytes);
  work.shared.room_at = work.shared.values_at + static_cast<int>(pieces * facts.piece_bytes);
  return {.grid = blocks,
          .threads = warps * kWarp,
          .shared_bytes = std::max(alone_shared_bytes(device), work.shared.room_at + kRoomBytes)};
}

/// Lays out shared memory and divides the weight rows among blocks.
LaunchShape shape_rounded(const StepFacts& facts, int64_t weight_rows, FewRowsWork& work, const CudaFacts& device) {
  const int warps = std::min({facts.warps, kMostRoundedWarps, most_warps_of(device)});
  const int groups = groups_of(work.input.cols), unit_bytes = kUnitRows * work.input.rows * 4;
  work.pitch = row_pitch(work, facts);
  int at = warps * kRingSteps * kUnitRows * work.pitch;
  work.shared.two_buffers = work.input.rows <= 16;
  work.shared.partials_at = at;
  at += (work.shared.two_buffers ? 2 : 1) * warps * unit_bytes;
  work.shared.gates_at = at;
  at += work.gated ? unit_bytes : 0;

  const int values = groups * work.rounded.columns * (facts.plain ? 64 : 32);
  const int bytes = values + (facts.plain ? 0 : groups * work.rounded.columns * 8);
  if (at + bytes <= std::min(kMaxStagedBytes, shared_bytes_of(device))) {
    at = (at + 15) / 16 * 16;
    work.shared.values_at = at;
    work.shared.scales_at = at + values;
    work.shared.staged_bytes = bytes;
    at += bytes;
  }
  const bool two = at <= kMaxStagedBytes;
  if (!two) at = std::max(at, alone_shared_bytes(device));
  return {.grid = divide_rows(weight_rows, int64_t{device.multiprocessors} * (two ? 2 : 1), work),
          .threads = warps * kWarp,
          .shared_bytes = at};
}

LaunchShape shape_tiles(const StepFacts& facts, int64_t weight_rows, FewRowsWork& work, const CudaFacts& device) {
  constexpr int kMostGroups = 15;  // named barriers
  TileShare& tiles = work.tiles;
  const unsigned blocks = divide_rows(weight_rows, device.multiprocessors, work);
  const int most = std::min(kMostTileWarps, most_warps_of(device));
  const int block_rows = static_cast<int>(divide_up(weight_rows, blocks));
  const int slices = divide_up(work.input.cols, kSliceWeights), rounds = divide_up(slices, most);
  tiles.column_warps = divide_up(slices, rounds);
  tiles.groups = std::min({most / tiles.column_warps, kMostGroups, divide_up(block_rows, kUnitRows)});
  tiles.unit_rows = !work.gated && (rounds > 1 || block_rows > kUnitRows * tiles.groups) ? 2 * kUnitRows : kUnitRows;
  work.pitch = row_pitch(work, facts);
  const int warps = tiles.column_warps * tiles.groups;
  tiles.partials_at = warps * facts.tile_ring * kUnitRows * work.pitch;
  return {.grid = blocks,
          .threads = warps * kWarp,
          .shared_bytes = std::max(alone_shared_bytes(device), tiles.partials_at + 4 * warps * kPartials)};
}

FewRowsInput describe_input(const FewRowsArgs& args) {
  FewRowsInput input;
  input.data = args.input.data;
  input.stride = args.input.stride;
  input.norm_weight = args.norm_weight;
  input.epsilon = args.epsilon;
  input.rows = static_cast<int>(args.input.rows);
  input.cols = static_cast<int>(args.input.cols);
  input.is_half = args.input.type == ActivationType::kF16;
  const auto bytes = static_cast<uintptr_t>(kItem * args.input.value_bytes());
  input.is_wide = reinterpret_cast<uintptr_t>(args.input.data) % bytes == 0 && args.input.stride % kItem == 0;
  return input;
}

FewRowsMatrix describe_matrix(const FewRowsArgs& args, int i) {
  FewRowsMatrix matrix;
  matrix.weights = args.weights[i].data;
  matrix.bias = args.biases[i];
  matrix.output = args.outputs[i].data;
  matrix.output_stride = args.outputs[i].stride;
  matrix.rows = static_cast<int>(args.weights[i].rows);
  matrix.half_output = args.outputs[i].type == ActivationType::kF16;
  return matrix;
}

/// Contents of the scratch.
enum class Rounded : uint8_t { kNothing, kHalves, kCodes };

/// The input of FewRowsPlan::kTiles: as it is where it can be read so, else rounded into scratch.
TileInputRows take_tile_rows(const FewRowsArgs& args, const FewRowsInput& input, Rounded& rounded, Queue& queue) {
  TileInputRows rows;
  rows.rows = input.rows;
  rows.cols = input.cols;
  if (args.norm_weight == nullptr && input.is_half && input.stride % 8 == 0 &&
      reinterpret_cast<uintptr_t>(input.data) % 16 == 0) {
    rows.data = static_cast<const __half*>(input.data);
    rows.stride = input.stride;
    return rows;
  }
  auto* const halves = reinterpret_cast<__half*>(args.scratch.data);
  rows.data = halves;
  rows.stride = 32 * groups_of(input.cols);
  if (rounded == Rounded::kNothing)
    launch<round_rows_to_halves>(queue, "matmul", {.grid = static_cast<unsigned>(input.rows), .threads = 512}, input,
                                 halves);
  rounded = Rounded::kHalves;
  return rows;
}

void round_rows(const FewRowsArgs& args, bool plain, FewRowsWork& work, Rounded& rounded, Queue& queue) {
  work.rounded.values = reinterpret_cast<uint8_t*>(args.scratch.data);
  const int64_t code_bytes = int64_t{32} * groups_of(work.input.cols) * work.rounded.columns;
  work.rounded.scales = reinterpret_cast<float2*>(args.scratch.data + code_bytes);
  const Rounded needed = plain ? Rounded::kHalves : Rounded::kCodes;
  if (needed != rounded) round_beforehand(work.input, work.rounded, plain, queue);
  rounded = needed;
}

/// Multiplies the matrices from `first` on that have its format, in one launch. `rounded`: contents of the scratch.
void multiply_format(const FewRowsArgs& args, int first, Rounded& rounded, Queue& queue) {
  const WeightFormat format = args.weights[first].format;
  const StepFacts& facts = facts_of(format);
  FewRowsWork work;
  work.input = describe_input(args);
  work.row_bytes = args.weights[first].row_bytes();
  work.gated = args.gated;
  work.accumulate = args.accumulate;
  work.activation = args.activation;
  int64_t weight_rows = 0;
  for (int i = first; i < args.count; ++i) {
    if (args.weights[i].format != format) continue;
    work.matrices[work.count++] = describe_matrix(args, i);
    weight_rows += args.weights[i].rows;
  }
  if (args.gated) weight_rows = args.weights[first].rows;
  if (weight_rows == 0) return;
  const CudaFacts& device = queue.cuda()->facts();
  const FewRowsPlan plan = queue.traits().batch_invariant
                               ? FewRowsPlan::kTiles
                               : choose_plan(facts, args.input.rows, args.input.cols, device);
  LaunchShape shape;
  if (plan == FewRowsPlan::kPerWarp) {
    shape = shape_per_warp(facts, weight_rows, work, device);
  } else if (plan == FewRowsPlan::kTiles) {
    work.tiles.input = take_tile_rows(args, work.input, rounded, queue);
    shape = shape_tiles(facts, weight_rows, work, device);
  } else {
    work.rounded.columns = static_cast<int>(rounded_columns(args.input.rows));
    shape = shape_rounded(facts, weight_rows, work, device);
    round_rows(args, facts.plain, work, rounded, queue);
  }
  facts.launch(plan, shape, work, queue);
}

void multiply_rows(const FewRowsArgs& args, Queue& queue) {
  Rounded rounded = Rounded::kNothing;
  for (int i = 0; i < args.count; ++i) {
    bool done = false;
    for (int earlier = 0; earlier < i; ++earlier) done = done || args.weights[earlier].format == args.weights[i].format;
    if (!done) multiply_format(args, i, rounded, queue);
  }
}

}  // namespace

bool few_rows_fits(int64_t rows, const WeightView* weights, int count, bool gated, const DeviceTraits& device) {
  if (rows < 1 || rows > kFewRows) return false;
  const bool no_library = device.lean || device.batch_invariant;
  for (int i = 0; i < count; ++i) {
    if (is_plain(weights[i].format) && rows > kMaxPlainRows && !no_library) return false;
    if (weights[i].cols % 8 != 0 || reinterpret_cast<uintptr_t>(weights[i].data) % 16 != 0) return false;
  }
  return !gated || (count == 2 && weights[0].format == weights[1].format && weights[0].rows == weights[1].rows);
}

const char* few_rows_plan_name(int64_t rows, const WeightView& weights, const CudaFacts& device) {
  return name_of(choose_plan(facts_of(weights.format), rows, weights.cols, device));
}

void multiply_few_rows(const FewRowsArgs& args, Queue& queue) {
  if (!queue.ok() || args.input.rows == 0) return;
  const int64_t needed = few_rows_scratch_bytes(args.input.rows, args.input.cols);
  const int64_t got = args.scratch.rows * args.scratch.cols;
  if (got < needed || reinterpret_cast<uintptr_t>(args.scratch.data) % 64 != 0)
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "matmul needs %lld bytes of scratch aligned to 64 and got %lld",
                                   static_cast<long long>(needed), static_cast<long long>(got)));
  const int64_t step = queue.traits().batch_invariant ? kMaxTileRows : args.input.rows;
  for (int64_t t = 0; t < args.input.rows; t += step) {
    FewRowsArgs some = args;
    const int64_t count = std::min(step, args.input.rows - t);
    some.input = args.input.slice_rows(t, count);
    for (ActivationView& out : some.outputs)
      if (out.data != nullptr) out = out.slice_rows(t, count);
    multiply_rows(some, queue);
  }
}

}  // namespace ocellus::cuda
