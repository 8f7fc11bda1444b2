#include "kernels/backends.h"
#include "kernels/base/launch.cuh"
#include "kernels/base/row_access.cuh"
#include "kernels/linear/elementwise.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kUnits = RowPieces::kUnitsPerThread;
constexpr int kWideHalves = 8;
constexpr int kWideFloats = 4;
constexpr int kSimpleThreads = 256;

/// x * sigmoid(u). The fast forms have a relative error of some 1e-6 if the value is not too small for an f16.
__device__ inline float gate_by(float x, float u) { return __fdividef(x, 1.0f + __expf(-u)); }

struct Silu {
  static __device__ float of(float x) { return gate_by(x, x); }
};

struct QuickGelu {
  static __device__ float of(float x) { return gate_by(x, 1.702f * x); }
};

/// (1 + tanh(a)) / 2 = sigmoid(2a), so no tanh is needed.
struct GeluTanh {
  static __device__ float of(float x) {
    constexpr float kTwoRoot = 1.5957691216057308f;  // 2 sqrt(2 / pi)
    return gate_by(x, x * (x * x * (0.044715f * kTwoRoot) + kTwoRoot));
  }
};

/// Phi(x) = erfc(-x / sqrt(2)) / 2, which keeps its digits where Phi is small.
struct GeluErf {
  static __device__ float of(float x) { return 0.5f * x * erfcf(x * -0.70710678118654752f); }
};

struct SquaredRelu {
  static __device__ float of(float x) { return fmaxf(x, 0.0f) * fmaxf(x, 0.0f); }
};

/// Sets the thread's values of a row to of(value, other). All its loads come before its arithmetic, so that they are in
/// flight together; values that `of` does not use are not loaded.
template <int kWide, class Value, class Of>
__device__ void change_values(const RowPlace& place, int64_t cols, Value* values, const Value* others, Of of) {
  float x[kUnits][kWide], y[kUnits][kWide];
  wait_for_inputs();
  let_next_start();
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int64_t col = (place.first + i * place.step) * kWide;
    if (col >= cols) continue;
    load_values(values + col, x[i]);
    load_values(others + col, y[i]);
  }
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int64_t col = (place.first + i * place.step) * kWide;
    if (col >= cols) continue;
#pragma unroll
    for (int k = 0; k < kWide; ++k) x[i][k] = of(x[i][k], y[i][k]);
    store_values(values + col, x[i]);
  }
}

template <class Function, int kWide>
__global__ void gate_rows(__half* gate, int64_t gate_stride, const __half* up, int64_t up_stride, int64_t cols,
                          unsigned pieces) {
  const RowPlace place(pieces);
  change_values<kWide>(place, cols, gate + place.row * gate_stride, up + place.row * up_stride,
                       [](float g, float u) { return Function::of(g) * u; });
}

template <class Function, int kWide>
__global__ void activate_rows(__half* values, int64_t stride, int64_t cols, unsigned pieces) {
  const RowPlace place(pieces);
  __half* const row = values + place.row * stride;
  change_values<kWide>(place, cols, row, row, [](float x, float) { return Function::of(x); });
}

template <int kWide>
__global__ void add_to_rows(float* values, int64_t stride, const float* addend, int64_t addend_stride,
                            unsigned addend_rows, int64_t cols, unsigned pieces) {
  const RowPlace place(pieces);
  const unsigned addend_row = static_cast<unsigned>(place.row) % addend_rows;
  change_values<kWide>(place, cols, values + place.row * stride, addend + addend_row * addend_stride,
                       [](float x, float y) { return x + y; });
}

template <int kWide>
__global__ void add_scaled(float* values, int64_t stride, const __half* addend, int64_t addend_stride,
                           const float* scale, int64_t cols, unsigned pieces) {
  const RowPlace place(pieces);
  values += place.row * stride;
  addend += place.row * addend_stride;
  wait_for_inputs();
  let_next_start();
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int64_t col = (place.first + i * place.step) * kWide;
    if (col >= cols) continue;
    float x[kWide], y[kWide], s[kWide];
    load_values(values + col, x);
    load_values(addend + col, y);
    load_values(scale + col, s);
#pragma unroll
    for (int k = 0; k < kWide; ++k) x[k] += s[k] * y[k];
    store_values(values + col, x);
  }
}

template <class Value>
__global__ void clamp_values(Value* values, int64_t stride, int64_t cols, float low, float high) {
  const int64_t col = int64_t{blockIdx.y} * kSimpleThreads + threadIdx.x;
  wait_for_inputs();
  let_next_start();
  if (col >= cols) return;
  Value* const at = values + blockIdx.x * stride + col;
  store_value(at, fminf(fmaxf(load_value(at), low), high));
}

__global__ void standardise_values(float* values, int64_t stride, int64_t cols, float factor, const float* bias,
                                   const float* scale) {
  const int64_t col = int64_t{blockIdx.y} * kSimpleThreads + threadIdx.x;
  wait_for_inputs();
  let_next_start();
  if (col >= cols) return;
  float* const at = values + blockIdx.x * stride + col;
  *at = (factor * *at - bias[col]) * scale[col];
}

__global__ void cap_values(float* values, int64_t stride, int64_t cols, float cap) {
  const int64_t col = int64_t{blockIdx.y} * kSimpleThreads + threadIdx.x;
  wait_for_inputs();
  let_next_start();
  if (col >= cols) return;
  float* const at = values + blockIdx.x * stride + col;
  *at = cap * tanhf(*at / cap);
}

/// A block for each part of a row.
LaunchShape simple_shape(int64_t rows, int64_t cols) {
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(divide_up(cols, kSimpleThreads)));
  return {.grid = grid, .threads = kSimpleThreads};
}

/// Rows without gaps are treated as one long row, which leaves no block half empty.
struct Extent {
  int64_t rows;
  int64_t cols;

  Extent(const ActivationView& view, bool gapless)
      : rows(gapless ? std::min<int64_t>(view.rows, 1) : view.rows),
        cols(gapless ? view.rows * view.cols : view.cols) {}
};

bool gapless(const ActivationView& view) { return view.stride == view.cols; }

template <class Function, int kWide>
void gate_wide(const GatedActivationArgs& args, Queue& queue) {
  const Extent extent(args.gate, gapless(args.gate) && gapless(args.up));
  const RowPieces pieces(extent.rows, extent.cols / kWide);
  launch<gate_rows<Function, kWide>>(queue, "gated_activation", {.grid = pieces.blocks, .threads = pieces.threads},
                                     half_data(args.gate), args.gate.stride, half_data(args.up), args.up.stride,
                                     extent.cols, pieces.per_row);
}

template <class Function>
void gate(const GatedActivationArgs& args, Queue& queue) {
  if (args.gate.cols % kWideHalves == 0 && takes_wide(args.gate, kWideHalves) && takes_wide(args.up, kWideHalves))
    gate_wide<Function, kWideHalves>(args, queue);
  else
    gate_wide<Function, 1>(args, queue);
}

template <class Function, int kWide>
void apply_wide(const ActivationView& values, Queue& queue) {
  const Extent extent(values, gapless(values));
  const RowPieces pieces(extent.rows, extent.cols / kWide);
  launch<activate_rows<Function, kWide>>(queue, "activate", {.grid = pieces.blocks, .threads = pieces.threads},
                                         half_data(values), values.stride, extent.cols, pieces.per_row);
}

template <class Function>
void apply(const ActivationView& values, Queue& queue) {
  if (values.cols % kWideHalves == 0 && takes_wide(values, kWideHalves))
    apply_wide<Function, kWideHalves>(values, queue);
  else
    apply_wide<Function, 1>(values, queue);
}

template <int kWide>
void add(const AddRowsArgs& args, Queue& queue) {
  const RowPieces pieces(args.values.rows, args.values.cols / kWide);
  launch<add_to_rows<kWide>>(queue, "add_rows", {.grid = pieces.blocks, .threads = pieces.threads}, args.values.data,
                             args.values.stride, args.addend.data, args.addend.stride,
                             static_cast<unsigned>(args.addend.rows), args.values.cols, pieces.per_row);
}

template <int kWide>
void scale(const AddScaledRowsArgs& args, Queue& queue) {
  const RowPieces pieces(args.values.rows, args.values.cols / kWide);
  launch<add_scaled<kWide>>(queue, "add_scaled_rows", {.grid = pieces.blocks, .threads = pieces.threads},
                            args.values.data, args.values.stride, half_data(args.addend), args.addend.stride,
                            args.scale, args.values.cols, pieces.per_row);
}

}  // namespace

void gated_activation(const GatedActivationArgs& args, Queue& queue) {
  if (!is_half(args.gate, "gated_activation", queue) || !is_half(args.up, "gated_activation", queue)) return;
  switch (args.activation) {
    case Activation::kSilu: return gate<Silu>(args, queue);
    case Activation::kGeluTanh: return gate<GeluTanh>(args, queue);
    default: queue.fail(OCELLUS_FAIL(Code::kInternal, "gated_activation: gates are silu or tanh's gelu"));
  }
}

void activate(const ActivateArgs& args, Queue& queue) {
  if (!is_half(args.values, "activate", queue)) return;
  switch (args.activation) {
    case Activation::kNone: return;
    case Activation::kGeluTanh: return apply<GeluTanh>(args.values, queue);
    case Activation::kGeluErf: return apply<GeluErf>(args.values, queue);
    case Activation::kQuickGelu: return apply<QuickGelu>(args.values, queue);
    case Activation::kSilu: return apply<Silu>(args.values, queue);
    case Activation::kSquaredRelu: return apply<SquaredRelu>(args.values, queue);
  }
}

void add_rows(const AddRowsArgs& args, Queue& queue) {
  if (args.values.cols % kWideFloats == 0 && takes_wide(args.values, kWideFloats) &&
      takes_wide(args.addend, kWideFloats))
    add<kWideFloats>(args, queue);
  else
    add<1>(args, queue);
}

void add_scaled_rows(const AddScaledRowsArgs& args, Queue& queue) {
  if (!is_half(args.addend, "add_scaled_rows", queue)) return;
  if (args.values.cols % kWideHalves == 0 && takes_wide(args.values, kWideHalves) &&
      takes_wide(args.addend, kWideHalves) && takes_wide(args.scale, kWideHalves))
    scale<kWideHalves>(args, queue);
  else
    scale<1>(args, queue);
}

void clamp_rows(const ClampRowsArgs& args, Queue& queue) {
  const ActivationView& v = args.values;
  const LaunchShape shape = simple_shape(v.rows, v.cols);
  if (v.type == ActivationType::kF16)
    launch<clamp_values<__half>>(queue, "clamp_rows", shape, half_data(v), v.stride, v.cols, args.low, args.high);
  else
    launch<clamp_values<float>>(queue, "clamp_rows", shape, static_cast<float*>(v.data), v.stride, v.cols, args.low,
                                args.high);
}

void standardise_rows(const StandardiseRowsArgs& args, Queue& queue) {
  const DeviceView<float>& v = args.values;
  launch<standardise_values>(queue, "standardise_rows", simple_shape(v.rows, v.cols), v.data, v.stride, v.cols,
                             args.factor, args.bias, args.scale);
}

void cap_rows(const CapRowsArgs& args, Queue& queue) {
  const DeviceView<float>& v = args.values;
  launch<cap_values>(queue, "cap_rows", simple_shape(v.rows, v.cols), v.data, v.stride, v.cols, args.cap);
}

}  // namespace cuda
}  // namespace ocellus
