#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/base/row_pieces.h"
#include "kernels/linear/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/elementwise_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

/// x * sigmoid(u).
HWY_INLINE FloatVec gate_by(FloatTag d, FloatVec x, FloatVec u) {
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), exp_of(d, hn::Neg(u))));
}

struct Silu {
  HWY_INLINE FloatVec operator()(FloatTag d, FloatVec x) const { return gate_by(d, x, x); }
};

struct QuickGelu {
  HWY_INLINE FloatVec operator()(FloatTag d, FloatVec x) const { return gate_by(d, x, hn::Mul(x, hn::Set(d, 1.702f))); }
};

/// (1 + tanh(a)) / 2 = sigmoid(2a), so no tanh is needed.
struct GeluTanh {
  HWY_INLINE FloatVec operator()(FloatTag d, FloatVec x) const {
    const FloatVec two_root = hn::Set(d, 1.5957691216057308f);  // 2 sqrt(2 / pi)
    const FloatVec cubic = hn::Set(d, 0.044715f * 1.5957691216057308f);
    return gate_by(d, x, hn::Mul(x, hn::MulAdd(hn::Mul(x, x), cubic, two_root)));
  }
};

/// Phi from erfc(z) = (a1 t + ... + a5 t^5) exp(-z^2), t = 1 / (1 + p z), z = |x| / sqrt(2):
/// Abramowitz and Stegun 7.1.26, absolute error below 1.5e-7.
struct GeluErf {
  HWY_INLINE FloatVec operator()(FloatTag d, FloatVec x) const {
    const FloatVec one = hn::Set(d, 1.0f);
    const FloatVec z = hn::Mul(hn::Abs(x), hn::Set(d, 0.70710678118654752f));
    const FloatVec t = hn::Div(one, hn::MulAdd(z, hn::Set(d, 0.3275911f), one));
    FloatVec p = hn::Set(d, 1.061405429f);
    p = hn::MulAdd(p, t, hn::Set(d, -1.453152027f));
    p = hn::MulAdd(p, t, hn::Set(d, 1.421413741f));
    p = hn::MulAdd(p, t, hn::Set(d, -0.284496736f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.254829592f));
    const FloatVec tail = hn::Mul(hn::Mul(hn::Mul(p, t), hn::Set(d, 0.5f)), exp_of(d, hn::Neg(hn::Mul(z, z))));
    return hn::Mul(x, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)));
  }
};

struct SquaredRelu {
  HWY_INLINE FloatVec operator()(FloatTag d, FloatVec x) const {
    const FloatVec above = hn::Max(x, hn::Zero(d));
    return hn::Mul(above, above);
  }
};

template <class Function>
HWY_INLINE void apply_to_row(Function function, float* x, int64_t cols) {
  const FloatTag d;
  for (int64_t i = 0; i < cols; i += kLanes) {
    store_part(function(d, load_part(d, x + i, cols - i)), d, x + i, cols - i);
  }
}

template <class Function>
HWY_INLINE void gate_row(Function function, float* gate, const float* up, int64_t cols) {
  const FloatTag d;
  for (int64_t i = 0; i < cols; i += kLanes) {
    const FloatVec opened = function(d, load_part(d, gate + i, cols - i));
    store_part(hn::Mul(opened, load_part(d, up + i, cols - i)), d, gate + i, cols - i);
  }
}

void gated_activation_rows(const GatedActivationArgs& args, int64_t begin, int64_t end) {
  const int64_t cols = args.gate.cols;
  for (int64_t t = begin; t < end; ++t) {
    if (args.activation == Activation::kSilu)
      gate_row(Silu(), args.gate.row(t), args.up.row(t), cols);
    else
      gate_row(GeluTanh(), args.gate.row(t), args.up.row(t), cols);
  }
}

void activate_rows(const ActivateArgs& args, int64_t begin, int64_t end) {
  const int64_t cols = args.values.cols;
  for (int64_t t = begin; t < end; ++t) {
    float* x = args.values.row(t);
    switch (args.activation) {
      case Activation::kNone: return;
      case Activation::kGeluTanh: apply_to_row(GeluTanh(), x, cols); break;
      case Activation::kGeluErf: apply_to_row(GeluErf(), x, cols); break;
      case Activation::kQuickGelu: apply_to_row(QuickGelu(), x, cols); break;
      case Activation::kSilu: apply_to_row(Silu(), x, cols); break;
      case Activation::kSquaredRelu: apply_to_row(SquaredRelu(), x, cols); break;
    }
  }
}

void add_rows_rows(const AddRowsArgs& args, int64_t begin, int64_t end) {
  const FloatTag d;
  const int64_t cols = args.values.cols;
  for (int64_t t = begin; t < end; ++t) {
    float* x = args.values.row(t);
    const float* addend = args.addend.row(t % args.addend.rows);
    for (int64_t i = 0; i < cols; i += kLanes) {
      const FloatVec sum = hn::Add(load_part(d, x + i, cols - i), load_part(d, addend + i, cols - i));
      store_part(sum, d, x + i, cols - i);
    }
  }
}

void add_scaled_rows_rows(const AddScaledRowsArgs& args, int64_t begin, int64_t end) {
  const FloatTag d;
  const int64_t cols = args.values.cols;
  for (int64_t t = begin; t < end; ++t) {
    float* x = args.values.row(t);
    const float* addend = args.addend.row(t);
    for (int64_t i = 0; i < cols; i += kLanes) {
      const int64_t left = cols - i;
      const FloatVec scale = load_part(d, args.scale + i, left);
      store_part(hn::MulAdd(scale, load_part(d, addend + i, left), load_part(d, x + i, left)), d, x + i, left);
    }
  }
}

void clamp_rows_rows(const ClampRowsArgs& args, int64_t begin, int64_t end) {
  const FloatTag d;
  const int64_t cols = args.values.cols;
  for (int64_t t = begin; t < end; ++t) {
    float* x = args.values.row(t);
    for (int64_t i = 0; i < cols; i += kLanes) {
      const FloatVec least = hn::Max(load_part(d, x + i, cols - i), hn::Set(d, args.low));
      store_part(hn::Min(least, hn::Set(d, args.high)), d, x + i, cols - i);
    }
  }
}

void standardise_rows_rows(const StandardiseRowsArgs& args, int64_t begin, int64_t end) {
  const FloatTag d;
  const int64_t cols = args.values.cols;
  for (int64_t t = begin; t < end; ++t) {
    float* x = args.values.row(t);
    for (int64_t i = 0; i < cols; i += kLanes) {
      const int64_t left = cols - i;
      const FloatVec centred =
          hn::Sub(hn::Mul(load_part(d, x + i, left), hn::Set(d, args.factor)), load_part(d, args.bias + i, left));
      store_part(hn::Mul(centred, load_part(d, args.scale + i, left)), d, x + i, left);
    }
  }
}

/// tanh(a) = (1 - e) / (1 + e), e = exp(-2a), of |a| with the sign put back: e never overflows.
void cap_rows_rows(const CapRowsArgs& args, int64_t begin, int64_t end) {
  const FloatTag d;
  const int64_t cols = args.values.cols;
  const FloatVec one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f), inverse = hn::Set(d, 1.0f / args.cap);
  for (int64_t t = begin; t < end; ++t) {
    float* x = args.values.row(t);
    for (int64_t i = 0; i < cols; i += kLanes) {
      const FloatVec value = load_part(d, x + i, cols - i);
      const FloatVec shrunk = exp_of(d, hn::Neg(hn::Mul(hn::Mul(hn::Abs(value), inverse), two)));
      const FloatVec capped = hn::Mul(hn::Div(hn::Sub(one, shrunk), hn::Add(one, shrunk)), hn::Set(d, args.cap));
      store_part(hn::CopySign(capped, value), d, x + i, cols - i);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(gated_activation_rows);
HWY_EXPORT(activate_rows);
HWY_EXPORT(add_rows_rows);
HWY_EXPORT(add_scaled_rows_rows);
HWY_EXPORT(clamp_rows_rows);
HWY_EXPORT(standardise_rows_rows);
HWY_EXPORT(cap_rows_rows);

void cpu::gated_activation(const GatedActivationArgs& args, Queue& queue) {
  if (args.activation != Activation::kSilu && args.activation != Activation::kGeluTanh)
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "gated_activation: gates are silu or tanh's gelu"));
  queue.parallel(args.gate.rows, rows_per_piece(args.gate.cols, 8192), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(gated_activation_rows)(args, begin, end);
  });
}

void cpu::activate(const ActivateArgs& args, Queue& queue) {
  queue.parallel(args.values.rows, rows_per_piece(args.values.cols, 8192), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(activate_rows)(args, begin, end);
  });
}

void cpu::add_rows(const AddRowsArgs& args, Queue& queue) {
  queue.parallel(args.values.rows, rows_per_piece(args.values.cols, 65536), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(add_rows_rows)(args, begin, end);
  });
}

void cpu::add_scaled_rows(const AddScaledRowsArgs& args, Queue& queue) {
  queue.parallel(args.values.rows, rows_per_piece(args.values.cols, 65536), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(add_scaled_rows_rows)(args, begin, end);
  });
}

void cpu::clamp_rows(const ClampRowsArgs& args, Queue& queue) {
  queue.parallel(args.values.rows, rows_per_piece(args.values.cols, 65536), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(clamp_rows_rows)(args, begin, end);
  });
}

void cpu::standardise_rows(const StandardiseRowsArgs& args, Queue& queue) {
  queue.parallel(args.values.rows, rows_per_piece(args.values.cols, 65536), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(standardise_rows_rows)(args, begin, end);
  });
}

void cpu::cap_rows(const CapRowsArgs& args, Queue& queue) {
  queue.parallel(args.values.rows, rows_per_piece(args.values.cols, 8192), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(cap_rows_rows)(args, begin, end);
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
