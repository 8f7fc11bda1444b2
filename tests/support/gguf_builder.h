// Writes GGUF bytes in memory, honest or forged. Honest by default: counts, offsets and padding are worked out, and
// every one of them can be overridden afterwards. For tests only.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/gguf.h"

namespace ocellus::test {

using Bytes = std::vector<uint8_t>;

void append_bytes(Bytes& out, const void* from, size_t count);
template <class T>
void append(Bytes& out, const T& value) {
  append_bytes(out, &value, sizeof value);
}

/// A length and characters. The length may lie.
void append_string(Bytes& out, std::string_view text, std::optional<uint64_t> length = {});

/// Overwrites bytes of a finished file.
template <class T>
void patch(Bytes& file, size_t offset, const T& value) {
  std::memcpy(file.data() + offset, &value, sizeof value);
}

/// A heap block of exactly the file's size, so that AddressSanitizer sees a read one byte too far.
class ExactBytes {
 public:
  explicit ExactBytes(const Bytes& bytes) : ExactBytes(bytes.data(), bytes.size()) {}
  ExactBytes(const uint8_t* bytes, size_t size);
  uint8_t* data() { return data_.get(); }
  int64_t size() const { return static_cast<int64_t>(size_); }

 private:
  std::unique_ptr<uint8_t[]> data_;
  size_t size_;
};

class GgufBuilder {
 public:
  struct Entry {
    std::string key;
    uint32_t type = 0;
    Bytes value;  // as stored, for arrays with element type and count
    std::optional<uint64_t> forged_key_length;
  };
  struct Tensor {
    std::string name;
    uint32_t type = 0;         // ggml type number
    std::vector<uint64_t> ne;  // fastest first
    Bytes data;                // padded to the alignment in the file
    std::optional<uint64_t> forged_name_length;
    std::optional<uint32_t> forged_dimension_count;
    std::optional<uint64_t> forged_offset;
  };

  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t alignment = 32;  // alignment of the layout only; see add_alignment
  std::optional<uint64_t> forged_entry_count;
  std::optional<uint64_t> forged_tensor_count;
  std::vector<Entry> entries;
  std::vector<Tensor> tensors;

  GgufBuilder() = default;
  /// Everything a good file holds, ready to be changed.
  explicit GgufBuilder(const GgufFile& file);

  void add_u8(std::string_view key, uint8_t value) { add_scalar(key, GgufType::kU8, value); }
  void add_i8(std::string_view key, int8_t value) { add_scalar(key, GgufType::kI8, value); }
  void add_u16(std::string_view key, uint16_t value) { add_scalar(key, GgufType::kU16, value); }
  void add_i16(std::string_view key, int16_t value) { add_scalar(key, GgufType::kI16, value); }
  void add_u32(std::string_view key, uint32_t value) { add_scalar(key, GgufType::kU32, value); }
  void add_i32(std::string_view key, int32_t value) { add_scalar(key, GgufType::kI32, value); }
  void add_u64(std::string_view key, uint64_t value) { add_scalar(key, GgufType::kU64, value); }
  void add_i64(std::string_view key, int64_t value) { add_scalar(key, GgufType::kI64, value); }
  void add_f32(std::string_view key, float value) { add_scalar(key, GgufType::kF32, value); }
  void add_f64(std::string_view key, double value) { add_scalar(key, GgufType::kF64, value); }
  void add_bool(std::string_view key, bool value) { add_scalar(key, GgufType::kBool, static_cast<uint8_t>(value)); }
  void add_string(std::string_view key, std::string_view value);
  void add_bool_array(std::string_view key, const std::vector<bool>& values) {
    const std::vector<uint8_t> bytes(values.begin(), values.end());
    add_array(key, GgufType::kBool, bytes.size(), bytes.data(), bytes.size());
  }
  void add_string_array(std::string_view key, const std::vector<std::string>& values);
  void add_f32_array(std::string_view key, const std::vector<float>& values) {
    add_array(key, GgufType::kF32, values.size(), values.data(), values.size() * sizeof(float));
  }
  void add_i32_array(std::string_view key, const std::vector<int32_t>& values) {
    add_array(key, GgufType::kI32, values.size(), values.data(), values.size() * sizeof(int32_t));
  }
  void add_u32_array(std::string_view key, const std::vector<uint32_t>& values) {
    add_array(key, GgufType::kU32, values.size(), values.data(), values.size() * sizeof(uint32_t));
  }
  void add_i8_array(std::string_view key, const std::vector<int8_t>& values) {
    add_array(key, GgufType::kI8, values.size(), values.data(), values.size());
  }
  /// `count` and `size` (bytes) need not agree.
  void add_array(std::string_view key, GgufType element_type, uint64_t count, const void* elements, size_t size);
  /// Any value type, any bytes.
  void add_raw(std::string_view key, uint32_t type, const Bytes& value);
  /// The key, and the layout to match.
  void add_alignment(uint32_t value);

  /// Keys and names are not made unique: adding twice forges a duplicate. Removing one that is absent throws.
  Entry& entry(std::string_view key);
  void remove(std::string_view key);

  Tensor& add_tensor(std::string_view name, WeightFormat format, const std::vector<uint64_t>& ne, const Bytes& data);
  /// Zero bytes of the right amount.
  Tensor& add_tensor(std::string_view name, WeightFormat format, const std::vector<uint64_t>& ne);
  Tensor& add_tensor(std::string_view name, const std::vector<uint64_t>& ne, const std::vector<float>& values);
  Tensor& tensor(std::string_view name);
  void remove_tensor(std::string_view name);

  Bytes build() const;
  /// Offset of the data section in build().
  size_t header_bytes() const;
  /// build() as a file.
  void write(const std::string& path) const;

 private:
  template <class T>
  void add_scalar(std::string_view key, GgufType type, T value) {
    Bytes raw;
    append(raw, value);
    add_raw(key, static_cast<uint32_t>(type), raw);
  }
  Bytes build_header() const;
};

/// Reads every entry, every string and both ends of every tensor of a parsed file through every accessor; returns a
/// checksum. What a wrong bound would let through shows up here under AddressSanitizer.
uint64_t walk(const GgufFile& file);

}  // namespace ocellus::test
