#include "quant/gguf_header.h"

#include <utility>

#include "platform/round_up.h"

namespace ocellus {
namespace {

constexpr uint32_t kVersion = 3;

int64_t padded(int64_t bytes) { return round_up(bytes, kDefaultGgufAlignment); }

}  // namespace

void GgufHeaderWriter::put_bytes(Buffer<uint8_t>* to, const void* from, size_t count) {
  const auto* bytes = static_cast<const uint8_t*>(from);
  for (size_t i = 0; i < count && status_.ok(); ++i) status_ = to->push(bytes[i]);
}

void GgufHeaderWriter::put_string(Buffer<uint8_t>* to, std::string_view text) {
  put(to, static_cast<uint64_t>(text.size()));
  put_bytes(to, text.data(), text.size());
}

void GgufHeaderWriter::add_key(std::string_view key, GgufType type) {
  put_string(&entries_, key);
  put(&entries_, static_cast<uint32_t>(type));
  ++entry_count_;
}

void GgufHeaderWriter::add_string(std::string_view key, std::string_view value) {
  add_key(key, GgufType::kString);
  put_string(&entries_, value);
}

void GgufHeaderWriter::add_u32(std::string_view key, int64_t value) {
  add_key(key, GgufType::kU32);
  put(&entries_, static_cast<uint32_t>(value));
}

void GgufHeaderWriter::add_f32(std::string_view key, float value) {
  add_key(key, GgufType::kF32);
  put(&entries_, value);
}

void GgufHeaderWriter::add_bool(std::string_view key, bool value) {
  add_key(key, GgufType::kBool);
  put(&entries_, static_cast<uint8_t>(value));
}

void GgufHeaderWriter::add_floats(std::string_view key, const float* values, int64_t count) {
  begin_array(key, GgufType::kF32, count);
  put_bytes(&entries_, values, static_cast<size_t>(count) * sizeof *values);
}

void GgufHeaderWriter::begin_array(std::string_view key, GgufType element_type, int64_t count) {
  add_key(key, GgufType::kArray);
  put(&entries_, static_cast<uint32_t>(element_type));
  put(&entries_, static_cast<uint64_t>(count));
}

void GgufHeaderWriter::append_string(std::string_view text) { put_string(&entries_, text); }

void GgufHeaderWriter::append_i32(int32_t value) { put(&entries_, value); }

void GgufHeaderWriter::append_bool(bool value) { put(&entries_, static_cast<uint8_t>(value)); }

void GgufHeaderWriter::add_tensor(std::string_view name, WeightFormat format, std::initializer_list<int64_t> ne) {
  put_string(&tensors_, name);
  put(&tensors_, static_cast<uint32_t>(ne.size()));
  int64_t rows = 1;
  for (const int64_t extent : ne) {
    put(&tensors_, static_cast<uint64_t>(extent));
    rows *= extent;
  }
  const int64_t cols = *ne.begin();
  rows /= cols;
  put(&tensors_, format_info(format).ggml_id);
  put(&tensors_, static_cast<uint64_t>(data_bytes_));
  data_bytes_ += padded(rows * row_bytes(format, cols));
  ++tensor_count_;
}

Status GgufHeaderWriter::finish(Buffer<uint8_t>* out) {
  Buffer<uint8_t> header;
  constexpr int64_t kStartBytes = 24;
  const int64_t used = kStartBytes + entries_.size() + tensors_.size();
  if (status_.ok()) status_ = header.reserve(padded(used));
  put_bytes(&header, "GGUF", 4);
  put(&header, kVersion);
  put(&header, tensor_count_);
  put(&header, entry_count_);
  put_bytes(&header, entries_.data(), static_cast<size_t>(entries_.size()));
  put_bytes(&header, tensors_.data(), static_cast<size_t>(tensors_.size()));
  while (status_.ok() && header.size() < padded(used)) put(&header, uint8_t{0});
  OCELLUS_TRY(status_);
  *out = std::move(header);
  return {};
}

}  // namespace ocellus
