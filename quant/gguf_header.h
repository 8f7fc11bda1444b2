// GgufHeaderWriter: builds the header of a GGUF file in memory (metadata and tensor directory, no tensor data), which
// GgufFile reads with open_header(). Used for models that are described instead of loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "platform/buffer.h"
#include "platform/status.h"
#include "quant/gguf.h"
#include "quant/weight_format.h"

namespace ocellus {

/// Keys and names are written unchecked; the reader validates them. A failure (out of memory) is kept and returned by
/// finish().
class GgufHeaderWriter {
 public:
  void add_string(std::string_view key, std::string_view value);
  void add_u32(std::string_view key, int64_t value);
  void add_f32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_floats(std::string_view key, const float* values, int64_t count);

  /// Begins an array; exactly `count` calls of append_string(), append_i32() or append_bool() follow.
  void begin_array(std::string_view key, GgufType element_type, int64_t count);
  void append_string(std::string_view text);
  void append_i32(int32_t value);
  void append_bool(bool value);

  /// Adds the next tensor of the data section. `ne` as in GgufTensor, fastest first.
  void add_tensor(std::string_view name, WeightFormat format, std::initializer_list<int64_t> ne);

  /// Moves the header out.
  Status finish(Buffer<uint8_t>* out);

 private:
  void add_key(std::string_view key, GgufType type);
  void put_bytes(Buffer<uint8_t>* to, const void* from, size_t count);
  template <class T>
  void put(Buffer<uint8_t>* to, T value) {
    put_bytes(to, &value, sizeof value);
  }
  void put_string(Buffer<uint8_t>* to, std::string_view text);

  Buffer<uint8_t> entries_;
  Buffer<uint8_t> tensors_;
  uint64_t entry_count_ = 0;
  uint64_t tensor_count_ = 0;
  int64_t data_bytes_ = 0;  // bytes of the tensors so far, each padded
  Status status_;
};

}  // namespace ocellus
