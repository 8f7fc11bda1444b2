#include <algorithm>
#include <cstring>

#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/base/pairs.h"
#include "kernels/linear/elementwise.h"
#include "kernels/linear/matmul.h"
#include "kernels/linear/matmul_codes.h"
#include "kernels/linear/matmul_pairs.h"
#include "kernels/linear/matmul_scratch.h"
#include "quant/block_codes.h"

// GCC 12 takes the "undefined" operands inside the intrinsics for our uninitialised variables (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/matmul_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET != HWY_SCALAR
#include "kernels/linear/block_rows/fill_panel-inl.h"
#include "kernels/linear/block_rows/multiply-inl.h"
#endif
#include "kernels/linear/matmul_codes-inl.h"
#include "kernels/linear/matmul_floats-inl.h"
#include "kernels/linear/matmul_parts-inl.h"
#include "platform/round_up.h"

#ifndef OCELLUS_KERNELS_MATMUL_WORK
#define OCELLUS_KERNELS_MATMUL_WORK
namespace ocellus {
namespace {

// Number of input rows from which interleaving the weights is faster.
constexpr int64_t kPanelInputs = kMostRowsAlike + 1;

int64_t thread_scratch_bytes(int64_t cols) { return 64 * round_up(cols, 64); }

// Room for the rounded input rows, with the empty ones of the last tile.
int64_t code_bytes(int64_t rows, int64_t cols) {
  return round_up(rows, kTileInputs) * InputCodes(nullptr, cols).record_bytes();
}
int64_t pair_bytes(int64_t rows, int64_t cols) { return round_up(rows, kRoundedTogether) * pair_row_bytes(cols); }

DeviceView<const float> float_rows(const ActivationView& view) {
  return {static_cast<const float*>(view.data), view.rows, view.cols, view.stride};
}

// Calls body(first, count) for all rows, `together` at a time.
template <class Body>
void for_rows_together(int64_t rows, int64_t together, Queue& queue, const Body& body) {
  queue.parallel(divide_up(rows, together), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = together * begin; t < std::min(together * end, rows); t += together)
      body(t, std::min(together, rows - t));
  });
}

// Calls body(matrix, first row, count, worker) for blocks of at most `rows` rows of all matrices.
template <class Body>
void for_blocks(const MatmulArgs& args, int64_t rows, Queue& queue, const Body& body) {
  int64_t block_ends[3], blocks = 0;
  for (int i = 0; i < args.count; ++i) block_ends[i] = blocks += divide_up(args.weights[i].rows, rows);
  const int64_t grain = std::max<int64_t>(1, blocks / (8 * queue.thread_count()));
  queue.parallel(blocks, grain, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      int matrix = 0;
      while (i >= block_ends[matrix]) ++matrix;
      const int64_t first = rows * (i - (matrix == 0 ? 0 : block_ends[matrix - 1]));
      body(matrix, first, static_cast<int>(std::min(rows, args.weights[matrix].rows - first)), worker);
    }
  });
}

// Consecutive rows of one of the matrices, sixteen or kPartRows: the unit of work of a thread.
struct Block {
  const MatmulArgs& args;
  const InputCodes& codes;
  int matrix;
  int64_t first;
  int count;           // 1..16 or 1..kPartRows
  std::byte* scratch;  // this thread's
  int64_t row_bytes;   // per matrix row; stored because its division costs as much as part of a row
  bool pairs = false;  // multiplied as pairs of bf16

  const WeightView& weight() const { return args.weights[matrix]; }
  /// Row r of the block; after the end of the matrix, its last row again.
  const uint8_t* row(int r) const { return weight().data + (first + std::min(r, count - 1)) * row_bytes; }

  /// Writes outputs first + r..first + r + size - 1 of input row t, those that belong to the block.
  void finish(int64_t t, int r, int size, const float* sums) const {
    float* out = args.outputs[matrix].row(t) + first + r;
    const float* bias = args.biases[matrix] == nullptr ? nullptr : args.biases[matrix] + first + r;
    size = std::min(size, count - r);
    for (int i = 0; i < size; ++i)
      out[i] = sums[i] + (bias == nullptr ? 0.0f : bias[i]) + (args.accumulate ? out[i] : 0.0f);
  }
};

}  // namespace
}  // namespace ocellus
#endif

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// True if block weights are multiplied by panels.
inline bool uses_panels(const MatmulArgs& args) {
  return OCELLUS_NATIVE_TARGET && args.input.rows >= kPanelInputs && has_native_products();
}

// True if there are many rows, and vectors that bf16 wants, and the condition holds for the format of each weight.
template <class Condition>
bool uses_bf16(const MatmulArgs& args, const Condition& condition) {
  return OCELLUS_VNNI && args.input.rows >= kPanelInputs &&
         std::all_of(args.weights, args.weights + args.count,
                     [&](const WeightView& weight) { return condition(weight.format); });
}

// Writes the block's outputs of input row t.
HWY_ATTR void finish_panel(const Block& block, int64_t t, const float* sums) {
  if (block.count < kPanelRows) return block.finish(t, 0, kPanelRows, sums);
  const hn::CappedTag<float, kPanelRows> d;
  const float* bias = block.args.biases[block.matrix];
  float* out = block.args.outputs[block.matrix].row(t) + block.first;
  for (int i = 0; i < kPanelRows; i += static_cast<int>(hn::Lanes(d))) {
    auto value = hn::Load(d, sums + i);
    if (bias != nullptr) value = hn::Add(value, hn::LoadU(d, bias + block.first + i));
    if (block.args.accumulate) value = hn::Add(value, hn::LoadU(d, out + i));
    hn::StoreU(value, d, out + i);
  }
}

#if OCELLUS_VNNI

// Its panel lies after the room for one of codes.
uint32_t* pair_panel(const Block& block) {
  return reinterpret_cast<uint32_t*>(block.scratch + thread_scratch_bytes(block.args.input.cols) / 2);
}

HWY_ATTR void multiply_pair_panel(const Block& block) {
  const int64_t inputs = block.args.input.rows, pairs = padded_pairs(block.args.input.cols);
  const auto* x = reinterpret_cast<const uint32_t*>(block.args.scratch.data);
  HWY_ALIGN float sums[kMostTileInputs * kPanelRows];
  const int64_t together = pair_rows_together();
  const TileUse use;
  for (int64_t t = 0; t < inputs; t += together) {
    const int64_t count = std::min(together, inputs - t);
    multiply_pairs(pair_panel(block), x + t * pairs, count, pairs, sums);
    for (int64_t i = 0; i < count; ++i) finish_panel(block, t + i, sums + kPanelRows * i);
  }
}

HWY_ATTR void multiply_half_panel(const Block& block) {
  const uint8_t* rows[kPanelRows];
  for (int r = 0; r < kPanelRows; ++r) rows[r] = block.row(r);
  fill_pair_panel(block.weight().format, rows, block.args.input.cols, pair_panel(block));
  multiply_pair_panel(block);
}

HWY_ATTR void round_input_pairs(const MatmulArgs& args, Queue& queue) {
  const DeviceView<const float> input = float_rows(args.input);
  auto* out = reinterpret_cast<uint32_t*>(args.scratch.data);
  for_rows_together(input.rows, kRoundedTogether, queue, [&](int64_t t, int64_t count) {
    round_pairs(input.row(t), input.stride, count, input.cols, out + t * padded_pairs(input.cols));
  });
}

// Half-precision weights by tiles of parts, of at most kPartInputs input rows.
HWY_ATTR void multiply_part_tiles(const MatmulArgs& args, CpuMath math, Queue& queue) {
  const int64_t inputs = args.input.rows, cols = args.input.cols, thread_bytes = part_thread_bytes(inputs, cols);
  const PartTiles tiles(float_rows(args.input), math, args.scratch.data);
  queue.parallel(part_blocks(inputs), 1, [&](int64_t begin, int64_t end, int) HWY_ATTR {
    for (int64_t i = begin; i < end; ++i) tiles.round_input(i);
  });
  const InputCodes no_codes(nullptr, cols);
  for_blocks(args, kPartRows, queue, [&](int matrix, int64_t first, int count, int worker) HWY_ATTR {
    const WeightView& weight = args.weights[matrix];
    const Block block{args, no_codes, matrix, first, count, nullptr, weight.row_bytes()};
    const uint8_t* rows[kPartRows];
    for (int r = 0; r < kPartRows; ++r) rows[r] = block.row(r);
    const TileUse use;
    tiles.multiply(weight.format, rows, count, args.scratch.data + part_bytes(inputs, cols) + worker * thread_bytes,
                   multiply_parts, [&](int64_t t, int64_t panel, const float* sums) HWY_ATTR {
                     Block part = block;
                     part.first += panel * kPanelRows;
                     part.count = static_cast<int>(std::min<int64_t>(kPanelRows, count - panel * kPanelRows));
                     finish_panel(part, t, sums);
                   });
  });
}

#endif

#if HWY_TARGET == HWY_SCALAR

// Decodes weights like decode_codes, with levels in place of their indices.
void decode_integers(WeightFormat format, const uint8_t* source, int64_t cols, int8_t* codes, float* scales,
                     float* minimums) {
  decode_codes(format, source, cols, codes, scales, minimums);
  const int8_t* levels = code_layout(format).levels;
  for (int64_t i = 0; levels != nullptr && i < cols; ++i) codes[i] = levels[codes[i]];
}

HWY_ATTR void multiply_codes(const Block& block) {
  constexpr int64_t kPiece = 256;
  const WeightView& weight = block.weight();
  const CodeLayout layout = code_layout(weight.format);
  int8_t codes[kPiece];
  float scales[kPiece / 16], minimums[kPiece / 16];
  for (int64_t t = 0; t < block.args.input.rows; ++t)
    for (int r = 0; r < block.count; ++r) {
      float sum = 0.0f;
      for (int64_t begin = 0; begin < weight.cols; begin += kPiece) {
        const int64_t size = std::min(kPiece, weight.cols - begin);
        decode_integers(weight.format, block.row(r) + row_bytes(weight.format, begin), size, codes, scales, minimums);
        const int8_t* x = block.codes.codes(t) + begin;
        for (int64_t i = 0, g = 0; i < size; i += layout.group_elements, ++g) {
          int32_t products = 0, inputs = 0;
          for (int64_t k = i; k < i + layout.group_elements; ++k) {
            products += codes[k] * x[k];
            inputs += x[k];
          }
          const float minimum = layout.has_minimum ? minimums[g] * static_cast<float>(inputs) : 0.0f;
          sum +=
              block.codes.scales(t)[(begin + i) / kInputGroup] * (scales[g] * static_cast<float>(products) - minimum);
        }
      }
      block.finish(t, r, 1, &sum);
    }
}

#else

template <class Format>
HWY_ATTR WeightPanel fill_code_panel(const Block& block, uint8_t bias) {
  const int64_t cols = block.weight().cols, groups = cols / Format::kGroup;
  auto* codes = reinterpret_cast<uint8_t*>(block.scratch);
  auto* scales = reinterpret_cast<float*>(codes + kPanelRows * round_up(cols, 64));
  float* minimums = Format::kMinimum == 0 ? nullptr : scales + kPanelRows * groups;
  const uint8_t* rows[kPanelRows];
  for (int r = 0; r < kPanelRows; ++r) rows[r] = block.row(r);
  PanelFiller<Format>(rows, bias, {codes, scales, minimums}).fill(cols, kPanelRows * block.row_bytes);
  return {Format::kGroup, codes, scales, minimums};
}

template <class Format>
HWY_ATTR void multiply_code_panel(const Block& block) {
#if OCELLUS_VNNI
  if (block.pairs) {
    widen_panel(fill_code_panel<Format>(block, 0), block.weight().cols, pair_panel(block));
    return multiply_pair_panel(block);
  }
#endif
  const WeightPanel panel = fill_code_panel<Format>(block, kPanelBias);
  HWY_ALIGN float sums[kTileInputs * kPanelRows];
  const int64_t inputs = block.args.input.rows;
  for (int64_t t = 0; t < inputs; t += kTileInputs) {
    const auto size = static_cast<int>(std::min(kTileInputs, inputs - t));
    multiply_panel_native(panel, block.codes, t, size, sums);
    for (int i = 0; i < size; ++i) finish_panel(block, t + i, sums + kPanelRows * i);
  }
}

template <class Format>
HWY_ATTR void multiply_codes_of(const Block& block) {
#if OCELLUS_NATIVE_TARGET
  if (uses_panels(block.args)) return multiply_code_panel<Format>(block);
#endif
  for (int r = 0; r < block.count; r += kRows) {
    const uint8_t* rows[kRows];
    for (int i = 0; i < kRows; ++i) rows[i] = block.row(r + i);
    const auto finish = [&](int64_t t, const float* sums) HWY_ATTR { block.finish(t, r, kRows, sums); };
#if HWY_ARCH_ARM_A64
    if (has_native_products()) {
      multiply_blocks<Format, true>(rows, block.row_bytes, block.codes, block.args.input.rows, finish);
      continue;
    }
#endif
    multiply_blocks<Format, false>(rows, block.row_bytes, block.codes, block.args.input.rows, finish);
  }
}

HWY_ATTR void multiply_codes(const Block& block) {
  switch (block.weight().format) {
    case WeightFormat::kQ8_0: return multiply_codes_of<ChunksQ8_0>(block);
    case WeightFormat::kQ4_0: return multiply_codes_of<ChunksQ4_0>(block);
    case WeightFormat::kQ4_1: return multiply_codes_of<ChunksQ4_1>(block);
    case WeightFormat::kQ5_0: return multiply_codes_of<ChunksQ5_0>(block);
    case WeightFormat::kQ5_1: return multiply_codes_of<ChunksQ5_1>(block);
    case WeightFormat::kQ4_K: return multiply_codes_of<ChunksQ4_K>(block);
    case WeightFormat::kQ5_K: return multiply_codes_of<ChunksQ5_K>(block);
    case WeightFormat::kQ6_K: return multiply_codes_of<ChunksQ6_K>(block);
    case WeightFormat::kIQ4_NL: return multiply_codes_of<ChunksIQ4_NL>(block);
    case WeightFormat::kQ2_K: return multiply_codes_of<ChunksQ2_K>(block);
    case WeightFormat::kQ3_K: return multiply_codes_of<ChunksQ3_K>(block);
    case WeightFormat::kIQ4_XS: return multiply_codes_of<ChunksIQ4_XS>(block);
    case WeightFormat::kMXFP4: return multiply_codes_of<ChunksMXFP4>(block);
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBF16: break;
  }
}

#endif

template <class Reader>
HWY_ATTR void multiply_float_block(const Block& block) {
  const DeviceView<const float> input = float_rows(block.args.input);
  const uint8_t* rows[kPanelRows];
  for (int r = 0; r < kPanelRows; ++r) rows[r] = block.row(r);
  HWY_ALIGN float sums[kFloatTile * kPanelRows];
  if (input.rows < kPanelInputs) {
    for (int r = 0; r < block.count; r += 4)
      for (int64_t t = 0; t < input.rows; ++t) {
        multiply_float_rows<Reader>(rows + r, input.row(t), input.cols, sums);
        block.finish(t, r, 4, sums);
      }
    return;
  }
  auto* panel = reinterpret_cast<float*>(block.scratch);
  fill_float_panel<Reader>(rows, input.cols, panel);
  int64_t t = 0;
  for (; t + kFloatTile <= input.rows; t += kFloatTile) {
    multiply_float_panel<kFloatTile>(panel, input.row(t), input.stride, input.cols, sums);
    for (int i = 0; i < kFloatTile; ++i) finish_panel(block, t + i, sums + kPanelRows * i);
  }
  for (; t < input.rows; ++t) {
    multiply_float_panel<1>(panel, input.row(t), input.stride, input.cols, sums);
    finish_panel(block, t, sums);
  }
}

HWY_ATTR void multiply_block(const Block& block) {
#if OCELLUS_VNNI
  if (!is_block_format(block.weight().format) && block.pairs) return multiply_half_panel(block);
#endif
  switch (block.weight().format) {
    case WeightFormat::kF32: return multiply_float_block<ReadF32>(block);
    case WeightFormat::kF16: return multiply_float_block<ReadF16>(block);
    case WeightFormat::kBF16: return multiply_float_block<ReadBF16>(block);
    default: break;
  }
  multiply_codes(block);
}

HWY_ATTR void round_input(const MatmulArgs& args, const InputCodes& codes, Queue& queue) {
  const DeviceView<const float> input = float_rows(args.input);
#if OCELLUS_VNNI
  if (uses_panels(args))
    return for_rows_together(input.rows, kTileInputs, queue, [&](int64_t t, int64_t count) {
      round_tile_native(input.row(t), input.stride, count, codes, t);
    });
#endif
  queue.parallel(input.rows, kPanelInputs, [&](int64_t begin, int64_t end, int) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) round_row(input.row(t), t, codes);
  });
}

HWY_ATTR void multiply(const MatmulArgs& args, Queue& queue) {
  const int64_t cols = args.input.cols;
  const InputCodes codes(args.scratch.data, cols);
  std::byte* thread_scratch = args.scratch.data;
  bool pairs = false;
  bool coded = std::any_of(args.weights, args.weights + args.count,
                           [](const WeightView& weight) { return is_block_format(weight.format); });
#if OCELLUS_VNNI
  const CpuMath math = queue.traits().cpu_math;
  if (uses_bf16(args, multiplies_parts)) {
    for (int64_t t = 0; t < args.input.rows; t += kPartInputs)
      multiply_part_tiles(args.slice_rows(t, std::min(kPartInputs, args.input.rows - t)), math, queue);
    return;
  }
  if (uses_bf16(args, [&](WeightFormat format) { return multiplies_pairs(format, math); })) {
    pairs = true;
    round_input_pairs(args, queue);
    thread_scratch += pair_bytes(args.input.rows, cols);
    coded = false;
  }
#endif
  if (coded) {
    round_input(args, codes, queue);
    thread_scratch += code_bytes(args.input.rows, cols);
  }
  for_blocks(args, kPanelRows, queue, [&](int matrix, int64_t first, int count, int worker) HWY_ATTR {
    multiply_block({args, codes, matrix, first, count, thread_scratch + worker * thread_scratch_bytes(cols),
                    args.weights[matrix].row_bytes(), pairs});
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {
namespace {

HWY_EXPORT(multiply);

int64_t cpu_scratch_bytes(int64_t rows, int64_t cols, int thread_count) {
  return std::max({code_bytes(rows, cols), pair_bytes(rows, cols), part_bytes(rows, cols)}) +
         thread_count * std::max(thread_scratch_bytes(cols), part_thread_bytes(rows, cols));
}

}  // namespace

int64_t matmul_scratch_bytes(int64_t rows, int64_t cols, int64_t outputs, const DeviceTraits& device) {
  if (device.is_cuda()) return cuda::matmul_scratch_bytes(rows, cols, outputs, device.lean);
  return cpu_scratch_bytes(rows, cols, device.thread_count);
}

void cpu::matmul(const MatmulArgs& args, Queue& queue) {
  const int64_t needed = cpu_scratch_bytes(args.input.rows, args.input.cols, queue.thread_count());
  if (args.scratch.rows * args.scratch.cols < needed || reinterpret_cast<uintptr_t>(args.scratch.data) % 64 != 0)
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "matmul needs %lld bytes of scratch aligned to 64 and got %lld",
                                   static_cast<long long>(needed),
                                   static_cast<long long>(args.scratch.rows * args.scratch.cols)));
  const bool activated = args.activation != Activation::kNone;
  if (activated && args.accumulate)
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "matmul either accumulates or has an activation"));
  for (int i = 0; i < args.count; ++i)
    if (args.accumulate && args.outputs[i].type != ActivationType::kF32)
      return queue.fail(OCELLUS_FAIL(Code::kInternal, "matmul accumulates into f32 outputs only"));
  const bool in_parts = queue.traits().batch_invariant && args.input.rows <= DeviceTraits::kInvariantRows;
  const int64_t step = in_parts ? kMostRowsAlike : args.input.rows;
  for (int64_t t = 0; t < args.input.rows; t += step)
    HWY_DYNAMIC_DISPATCH(multiply)(args.slice_rows(t, std::min(step, args.input.rows - t)), queue);
  for (int i = 0; activated && i < args.count; ++i)
    cpu::activate({.values = args.outputs[i], .activation = args.activation}, queue);
}

}  // namespace ocellus
#endif
