// Views: pointer plus shape, never owning. DeviceView points to memory of the engine's device (plain memory on the CPU
// backend), HostView to memory the CPU may read. The types are distinct so that they cannot be confused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ocellus {

/// IEEE half precision as stored; arithmetic happens in float.
struct Half {
  uint16_t bits = 0;
};

/// The name in tables of values of type T: TypeName<T>::value.
template <class T>
struct TypeName;
template <>
struct TypeName<float> {
  static constexpr const char* value = "f32";
};
template <>
struct TypeName<Half> {
  static constexpr const char* value = "f16";
};
template <>
struct TypeName<int32_t> {
  static constexpr const char* value = "i32";
};
template <>
struct TypeName<uint32_t> {
  static constexpr const char* value = "u32";
};
template <>
struct TypeName<int64_t> {
  static constexpr const char* value = "i64";
};
template <>
struct TypeName<uint64_t> {
  static constexpr const char* value = "u64";
};
template <>
struct TypeName<uint8_t> {
  static constexpr const char* value = "u8";
};
template <>
struct TypeName<std::byte> {
  static constexpr const char* value = "u8";
};

/// Row-major matrix [rows, cols]; consecutive rows lie `stride` elements apart (stride >= cols).
template <class T, bool kOnDevice>
struct BasicView {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  constexpr BasicView() = default;
  constexpr BasicView(T* data_, int64_t rows_, int64_t cols_) : BasicView(data_, rows_, cols_, cols_) {}
  constexpr BasicView(T* data_, int64_t rows_, int64_t cols_, int64_t stride_)
      : data(data_), rows(rows_), cols(cols_), stride(stride_) {}

  /// A view of T reads as a view of const T.
  template <class U, class = std::enable_if_t<std::is_same_v<const U, T> && !std::is_same_v<U, T>>>
  constexpr BasicView(const BasicView<U, kOnDevice>& other)
      : data(other.data), rows(other.rows), cols(other.cols), stride(other.stride) {}

  constexpr T* row(int64_t i) const { return data + i * stride; }
  constexpr BasicView slice_rows(int64_t first, int64_t count) const {
    return {data + first * stride, count, cols, stride};
  }
  constexpr BasicView slice_cols(int64_t first, int64_t count) const { return {data + first, rows, count, stride}; }
};

template <class T>
using DeviceView = BasicView<T, true>;
template <class T>
using HostView = BasicView<T, false>;

enum class ActivationType : uint8_t { kF32, kF16 };

/// Rows passed between ops, in the backend's compute type: f32 on the CPU, f16 on CUDA (where products still accumulate
/// in f32). The residual stream and logits are f32 everywhere. A DeviceView of either type converts to it.
struct ActivationView {
  void* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // values
  ActivationType type = ActivationType::kF32;

  constexpr ActivationView() = default;
  constexpr ActivationView(void* data_, int64_t rows_, int64_t cols_, int64_t stride_, ActivationType type_)
      : data(data_), rows(rows_), cols(cols_), stride(stride_), type(type_) {}
  ActivationView(const DeviceView<float>& v) : ActivationView(v.data, v.rows, v.cols, v.stride, ActivationType::kF32) {}
  ActivationView(const DeviceView<const float>& v)
      : ActivationView(const_cast<float*>(v.data), v.rows, v.cols, v.stride, ActivationType::kF32) {}
  ActivationView(const DeviceView<Half>& v) : ActivationView(v.data, v.rows, v.cols, v.stride, ActivationType::kF16) {}

  /// Returns row i of f32 rows, of f16 rows.
  float* row(int64_t i) const { return static_cast<float*>(data) + i * stride; }
  Half* half_row(int64_t i) const { return static_cast<Half*>(data) + i * stride; }
  int64_t value_bytes() const { return type == ActivationType::kF32 ? 4 : 2; }
  ActivationView slice_rows(int64_t first, int64_t count) const {
    return {static_cast<std::byte*>(data) + first * stride * value_bytes(), count, cols, stride, type};
  }
  ActivationView slice_cols(int64_t first, int64_t count) const {
    return {static_cast<std::byte*>(data) + first * value_bytes(), rows, count, stride, type};
  }
};

}  // namespace ocellus
