#include <algorithm>
#include <cstring>

#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/linear/elementwise.h"
#include "kernels/linear/matmul.h"
#include "kernels/linear/matmul_codes.h"
#include "kernels/linear/matmul_scratch.h"
#include "quant/block_codes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/matmul_cpu.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET != HWY_SCALAR
#include "kernels/linear/block_rows/multiply-inl.h"
#endif
#include "kernels/linear/matmul_codes-inl.h"
#include "kernels/linear/matmul_floats-inl.h"
#include "platform/round_up.h"

#ifndef OCELLUS_KERNELS_MATMUL_WORK
#define OCELLUS_KERNELS_MATMUL_WORK
namespace ocellus {
namespace {

// A Q8_0 block is a half-float scale and then 32 codes.
constexpr int64_t kQ8BlockBytes = 34, kQ8ScaleBytes = 2;

// Number of input rows from which interleaving the weights is faster.
constexpr int64_t kPanelInputs = 8;

int64_t thread_scratch_bytes(int64_t cols) { return 64 * round_up(cols, 64); }

DeviceView<const float> float_rows(const ActivationView& view) {
  return {static_cast<const float*>(view.data), view.rows, view.cols, view.stride};
}

// Sixteen consecutive rows of one of the matrices: the unit of work of a thread.
struct Block {
  const MatmulArgs& args;
  const InputCodes& codes;
  int matrix;
  int64_t first;
  int count;           // 1..16
  std::byte* scratch;  // this thread's
  int64_t row_bytes;   // per matrix row; stored because its division costs as much as part of a row

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

// Loads sixteen half floats that are `stride` bytes apart, of which the first `count` exist, as floats; the others are
// zero.
HWY_ATTR void gather_sixteen_halves(const uint8_t* source, int64_t stride, int64_t count, float* out) {
  const hn::CappedTag<float, 16> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  HWY_ALIGN uint16_t halves[16] = {};
  if (count >= 16) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) std::memcpy(&halves[i], source + i * stride, 2);
  } else {
    for (int i = 0; i < count; ++i) std::memcpy(&halves[i], source + i * stride, 2);
  }
  const auto* typed = reinterpret_cast<const hwy::float16_t*>(halves);
  for (int i = 0; i < 16; i += static_cast<int>(hn::Lanes(d)))
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(d16, typed + i)), d, out + i);
}

// Decodes weights like decode_codes, with levels in place of their indices. `cols` is a multiple of 32.
HWY_ATTR void decode_integers(WeightFormat format, const uint8_t* source, int64_t cols, int8_t* codes, float* scales,
                              float* minimums) {
  decode_codes(format, source, cols, codes, scales, minimums);
  const int8_t* levels = code_layout(format).levels;
  if (levels == nullptr) return;
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < cols; ++i) codes[i] = levels[codes[i]];
#else
  const hn::CappedTag<int8_t, 32> d;
  const auto table = hn::LoadDup128(d, levels);
  for (int64_t i = 0; i < cols; i += static_cast<int64_t>(hn::Lanes(d)))
    hn::StoreU(hn::TableLookupBytes(table, hn::LoadU(d, codes + i)), d, codes + i);
#endif
}

#if HWY_TARGET == HWY_SCALAR

HWY_ATTR void multiply_code_rows(const Block& block) {
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
HWY_ATTR void multiply_code_rows_of(const Block& block) {
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

HWY_ATTR void multiply_code_rows(const Block& block) {
  switch (block.weight().format) {
    case WeightFormat::kQ8_0: return multiply_code_rows_of<ChunksQ8_0>(block);
    case WeightFormat::kQ4_0: return multiply_code_rows_of<ChunksQ4_0>(block);
    case WeightFormat::kQ4_1: return multiply_code_rows_of<ChunksQ4_1>(block);
    case WeightFormat::kQ5_0: return multiply_code_rows_of<ChunksQ5_0>(block);
    case WeightFormat::kQ5_1: return multiply_code_rows_of<ChunksQ5_1>(block);
    case WeightFormat::kQ4_K: return multiply_code_rows_of<ChunksQ4_K>(block);
    case WeightFormat::kQ5_K: return multiply_code_rows_of<ChunksQ5_K>(block);
    case WeightFormat::kQ6_K: return multiply_code_rows_of<ChunksQ6_K>(block);
    case WeightFormat::kIQ4_NL: return multiply_code_rows_of<ChunksIQ4_NL>(block);
    case WeightFormat::kQ2_K: return multiply_code_rows_of<ChunksQ2_K>(block);
    case WeightFormat::kQ3_K: return multiply_code_rows_of<ChunksQ3_K>(block);
    case WeightFormat::kIQ4_XS: return multiply_code_rows_of<ChunksIQ4_XS>(block);
    case WeightFormat::kMXFP4: return multiply_code_rows_of<ChunksMXFP4>(block);
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBF16: break;
  }
}

#endif

#if OCELLUS_NATIVE_TARGET

// Fills a panel with Q8_0 codes, interleaved directly from the file's blocks. Four rows at a time, because the CPU's
// prefetchers follow four streams but not sixteen.
HWY_ATTR void fill_q8_0_panel(const Block& block, uint8_t* codes, float* scales) {
  const int64_t groups = block.weight().cols / 32;
  for (int r = 0; r < kPanelRows; r += 4) {
    const uint8_t* rows[4];
    for (int i = 0; i < 4; ++i) rows[i] = block.row(r + i) + kQ8ScaleBytes;
    for (int64_t g = 0; g < groups; ++g) {
      interleave_rows(rows, 8, kPanelFlip, reinterpret_cast<uint32_t*>(codes) + kPanelRows * 8 * g + r);
      for (const uint8_t*& row : rows) {
        hwy::Prefetch(row + 4 * block.row_bytes);
        row += kQ8BlockBytes;
      }
    }
  }
  for (int64_t g = 0; g < groups; ++g)
    gather_sixteen_halves(block.row(0) + kQ8BlockBytes * g, block.row_bytes, block.count, scales + kPanelRows * g);
}

// Fills a panel from any other format, via a piece of each row decoded on the stack.
HWY_ATTR void fill_panel(const Block& block, uint8_t* codes, float* scales, float* minimums) {
  constexpr int64_t kPiece = 256;
  const WeightView& weight = block.weight();
  const CodeLayout layout = code_layout(weight.format);
  int8_t decoded[4][kPiece];
  float row_scales[kPiece / 16], row_minimums[kPiece / 16];
  const uint8_t* decoded_rows[4];
  for (int i = 0; i < 4; ++i) decoded_rows[i] = reinterpret_cast<const uint8_t*>(decoded[i]);
  for (int r = 0; r < kPanelRows; r += 4)
    for (int64_t begin = 0; begin < weight.cols; begin += kPiece) {
      const int64_t size = std::min(kPiece, weight.cols - begin), offset = row_bytes(weight.format, begin);
      const int64_t groups = size / layout.group_elements, first_group = begin / layout.group_elements;
      for (int i = 0; i < 4; ++i) {
        decode_integers(weight.format, block.row(r + i) + offset, size, decoded[i], row_scales, row_minimums);
        for (int64_t g = 0; g < groups; ++g) {
          scales[kPanelRows * (first_group + g) + r + i] = row_scales[g];
          if (layout.has_minimum) minimums[kPanelRows * (first_group + g) + r + i] = row_minimums[g];
        }
      }
      interleave_rows(decoded_rows, size / 4, kPanelFlip, reinterpret_cast<uint32_t*>(codes + kPanelRows * begin) + r);
    }
}

HWY_ATTR void multiply_code_panel(const Block& block) {
  const WeightView& weight = block.weight();
  const CodeLayout layout = code_layout(weight.format);
  auto* codes = reinterpret_cast<uint8_t*>(block.scratch);
  auto* scales = reinterpret_cast<float*>(codes + kPanelRows * weight.cols);
  float* minimums = layout.has_minimum ? scales + kPanelRows * (weight.cols / layout.group_elements) : nullptr;
  if (weight.format == WeightFormat::kQ8_0)
    fill_q8_0_panel(block, codes, scales);
  else
    fill_panel(block, codes, scales, minimums);
  HWY_ALIGN float sums[8 * kPanelRows];
  for (int64_t t = 0; t < block.args.input.rows; t += 8) {
    const int size = static_cast<int>(std::min<int64_t>(8, block.args.input.rows - t));
    multiply_panel_native({layout.group_elements, codes, scales, minimums}, block.codes, t, size, sums);
    for (int i = 0; i < size; ++i) block.finish(t + i, 0, kPanelRows, sums + kPanelRows * i);
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
    for (int i = 0; i < kFloatTile; ++i) block.finish(t + i, 0, kPanelRows, sums + kPanelRows * i);
  }
  for (; t < input.rows; ++t) {
    multiply_float_panel<1>(panel, input.row(t), input.stride, input.cols, sums);
    block.finish(t, 0, kPanelRows, sums);
  }
}

HWY_ATTR void multiply_block(const Block& block) {
  switch (block.weight().format) {
    case WeightFormat::kF32: return multiply_float_block<ReadF32>(block);
    case WeightFormat::kF16: return multiply_float_block<ReadF16>(block);
    case WeightFormat::kBF16: return multiply_float_block<ReadBF16>(block);
    default: break;
  }
#if OCELLUS_NATIVE_TARGET
  if (block.args.input.rows >= kPanelInputs && has_native_products()) return multiply_code_panel(block);
#endif
  multiply_code_rows(block);
}

HWY_ATTR void round_input(const DeviceView<const float>& input, const InputCodes& codes, Queue& queue) {
  queue.parallel(input.rows, kPanelInputs, [&](int64_t begin, int64_t end, int) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) round_row(input.row(t), t, codes);
  });
}

HWY_ATTR void multiply(const MatmulArgs& args, Queue& queue) {
  const int64_t cols = args.input.cols;
  const InputCodes codes(args.scratch.data, cols);
  std::byte* thread_scratch = args.scratch.data;
  int64_t block_ends[3], blocks = 0;
  bool coded = false;
  for (int i = 0; i < args.count; ++i) {
    block_ends[i] = blocks += divide_up(args.weights[i].rows, kPanelRows);
    coded = coded || is_block_format(args.weights[i].format);
  }
  if (coded) {
    round_input(float_rows(args.input), codes, queue);
    thread_scratch += args.input.rows * codes.record_bytes();
  }
  const int64_t grain = std::max<int64_t>(1, blocks / (8 * queue.thread_count()));
  queue.parallel(blocks, grain, [&](int64_t begin, int64_t end, int worker) HWY_ATTR {
    for (int64_t i = begin; i < end; ++i) {
      int matrix = 0;
      while (i >= block_ends[matrix]) ++matrix;
      const int64_t first = kPanelRows * (i - (matrix == 0 ? 0 : block_ends[matrix - 1]));
      const auto count = static_cast<int>(std::min<int64_t>(kPanelRows, args.weights[matrix].rows - first));
      multiply_block({args, codes, matrix, first, count, thread_scratch + worker * thread_scratch_bytes(cols),
                      args.weights[matrix].row_bytes()});
    }
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
  return rows * InputCodes(nullptr, cols).record_bytes() + thread_count * thread_scratch_bytes(cols);
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
  HWY_DYNAMIC_DISPATCH(multiply)(args, queue);
  for (int i = 0; activated && i < args.count; ++i)
    cpu::activate({.values = args.outputs[i], .activation = args.activation}, queue);
}

}  // namespace ocellus
#endif
