#include "tests/support/gguf_builder.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace ocellus::test {
namespace {

void pad(Bytes& out, uint64_t alignment) {
  while (alignment > 1 && out.size() % alignment != 0) out.push_back(0);
}

template <class Items, class Name>
auto find_named(Items& items, Name name, std::string_view wanted) {
  const auto at = std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.*name == wanted; });
  if (at == items.end()) throw std::out_of_range("no such name in the file: " + std::string(wanted));
  return at;
}

Bytes read_tensor(const GgufFile& file, const GgufTensor& tensor) {
  Bytes bytes(static_cast<size_t>(tensor.bytes));
  if (!file.read_data(tensor.offset, bytes.data(), tensor.bytes).ok())
    throw std::runtime_error(last_failure().sentence);
  return bytes;
}

// The value of an entry as it is stored.
Bytes stored_value(const GgufEntry& entry) {
  Bytes value;
  if (entry.type == GgufType::kString) append(value, entry.payload_bytes);
  if (entry.type == GgufType::kArray) {
    append(value, static_cast<uint32_t>(entry.element_type));
    append(value, entry.count);
  }
  append_bytes(value, entry.payload, entry.payload_bytes);
  return value;
}

}  // namespace

void append_bytes(Bytes& out, const void* from, size_t count) {
  const auto* bytes = static_cast<const uint8_t*>(from);
  out.insert(out.end(), bytes, bytes + count);
}

void append_string(Bytes& out, std::string_view text, std::optional<uint64_t> length) {
  append(out, length.value_or(text.size()));
  append_bytes(out, text.data(), text.size());
}

ExactBytes::ExactBytes(const uint8_t* bytes, size_t size) : data_(new uint8_t[size]), size_(size) {
  std::copy(bytes, bytes + size, data_.get());
}

GgufBuilder::GgufBuilder(const GgufFile& file) : version(file.version()) {
  for (const GgufEntry& entry : file.entries()) {
    add_raw(entry.key, static_cast<uint32_t>(entry.type), stored_value(entry));
    if (entry.key == "general.alignment") std::memcpy(&alignment, entry.payload, sizeof(uint32_t));
  }
  for (const GgufTensor& tensor : file.tensors()) {
    const std::vector<uint64_t> ne(tensor.ne, tensor.ne + tensor.dimension_count);
    add_tensor(tensor.name, tensor.format, ne, read_tensor(file, tensor));
  }
}

void GgufBuilder::add_string(std::string_view key, std::string_view value) {
  Bytes raw;
  append_string(raw, value);
  add_raw(key, static_cast<uint32_t>(GgufType::kString), raw);
}

void GgufBuilder::add_string_array(std::string_view key, const std::vector<std::string>& values) {
  Bytes raw;
  for (const std::string& value : values) append_string(raw, value);
  add_array(key, GgufType::kString, values.size(), raw.data(), raw.size());
}

void GgufBuilder::add_array(std::string_view key, GgufType element_type, uint64_t count, const void* elements,
                            size_t size) {
  Bytes raw;
  append(raw, static_cast<uint32_t>(element_type));
  append(raw, count);
  append_bytes(raw, elements, size);
  add_raw(key, static_cast<uint32_t>(GgufType::kArray), raw);
}

void GgufBuilder::add_raw(std::string_view key, uint32_t type, const Bytes& value) {
  entries.push_back({std::string(key), type, value, {}});
}

void GgufBuilder::add_alignment(uint32_t value) {
  alignment = value;
  add_u32("general.alignment", value);
}

GgufBuilder::Entry& GgufBuilder::entry(std::string_view key) { return *find_named(entries, &Entry::key, key); }

void GgufBuilder::remove(std::string_view key) { entries.erase(find_named(entries, &Entry::key, key)); }

GgufBuilder::Tensor& GgufBuilder::add_tensor(std::string_view name, WeightFormat format,
                                             const std::vector<uint64_t>& ne, const Bytes& data) {
  Tensor tensor;
  tensor.name = name;
  tensor.type = format_info(format).ggml_id;
  tensor.ne = ne;
  tensor.data = data;
  tensors.push_back(tensor);
  return tensors.back();
}

GgufBuilder::Tensor& GgufBuilder::add_tensor(std::string_view name, WeightFormat format,
                                             const std::vector<uint64_t>& ne) {
  int64_t rows = 1;
  for (size_t i = 1; i < ne.size(); ++i) rows *= static_cast<int64_t>(ne[i]);
  const int64_t size = rows * row_bytes(format, static_cast<int64_t>(ne.at(0)));
  return add_tensor(name, format, ne, Bytes(static_cast<size_t>(size)));
}

GgufBuilder::Tensor& GgufBuilder::add_tensor(std::string_view name, const std::vector<uint64_t>& ne,
                                             const std::vector<float>& values) {
  Bytes data;
  for (const float value : values) append(data, value);
  return add_tensor(name, WeightFormat::kF32, ne, data);
}

GgufBuilder::Tensor& GgufBuilder::tensor(std::string_view name) { return *find_named(tensors, &Tensor::name, name); }

void GgufBuilder::remove_tensor(std::string_view name) { tensors.erase(find_named(tensors, &Tensor::name, name)); }

Bytes GgufBuilder::build_header() const {
  Bytes out(magic.begin(), magic.end());
  append(out, version);
  append(out, forged_tensor_count.value_or(tensors.size()));
  append(out, forged_entry_count.value_or(entries.size()));
  for (const Entry& entry : entries) {
    append_string(out, entry.key, entry.forged_key_length);
    append(out, entry.type);
    append_bytes(out, entry.value.data(), entry.value.size());
  }
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    append_string(out, tensor.name, tensor.forged_name_length);
    append(out, tensor.forged_dimension_count.value_or(static_cast<uint32_t>(tensor.ne.size())));
    for (const uint64_t extent : tensor.ne) append(out, extent);
    append(out, tensor.type);
    append(out, tensor.forged_offset.value_or(offset));
    offset += (tensor.data.size() + alignment - 1) / alignment * alignment;
  }
  if (!tensors.empty()) pad(out, alignment);
  return out;
}

size_t GgufBuilder::header_bytes() const { return build_header().size(); }

Bytes GgufBuilder::build() const {
  Bytes out = build_header();
  for (const Tensor& tensor : tensors) {
    append_bytes(out, tensor.data.data(), tensor.data.size());
    pad(out, alignment);
  }
  return out;
}

void GgufBuilder::write(const std::string& path) const {
  const Bytes bytes = build();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

namespace {

uint64_t sum_bytes(const void* data, uint64_t count) {
  uint64_t sum = count;
  const auto* bytes = static_cast<const uint8_t*>(data);
  for (uint64_t i = 0; i < count; ++i) sum = sum * 31 + bytes[i];
  return sum;
}

// Calls every accessor on the key, whether or not it fits the type.
uint64_t call_accessors(const GgufFile& file, const GgufEntry& entry) {
  int64_t integer = 0;
  float number = 0;
  bool truth = false;
  std::string_view text;
  uint64_t sum = 0;
  sum += file.require_int(entry.key, INT64_MIN, INT64_MAX, &integer).ok();
  sum += file.require_float(entry.key, &number).ok();
  sum += file.read_bool(entry.key, &truth).ok();
  if (file.require_string(entry.key, &text).ok()) sum += sum_bytes(text.data(), text.size());
  for (uint32_t type = 0; type <= static_cast<uint32_t>(GgufType::kF64); ++type) {
    const GgufEntry* array = nullptr;
    sum += file.read_array(entry.key, static_cast<GgufType>(type), &array).ok();
  }
  std::vector<float> numbers(std::min<uint64_t>(entry.count, 1 << 20));
  sum += file.require_floats(entry.key, static_cast<int64_t>(numbers.size()), numbers.data()).ok();
  return sum + static_cast<uint64_t>(integer) + truth;
}

}  // namespace

uint64_t walk(const GgufFile& file) {
  uint64_t sum = 0;
  for (const GgufEntry& entry : file.entries()) {
    if (file.find(entry.key) != &entry) throw std::logic_error("find() does not find a key that is there");
    sum += sum_bytes(entry.payload, entry.payload_bytes) + call_accessors(file, entry);
    GgufStrings strings(entry);
    while (strings.left() > 0) {
      const std::string_view text = strings.next();
      sum += sum_bytes(text.data(), text.size());
    }
  }
  int64_t end = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    if (file.find_tensor(tensor.name) != &tensor) throw std::logic_error("find_tensor() does not find a tensor");
    if (tensor.bytes != tensor.rows() * row_bytes(tensor.format, tensor.cols())) throw std::logic_error("wrong size");
    if (tensor.offset < end) throw std::logic_error("tensors overlap");
    end = tensor.offset + tensor.bytes;
    uint8_t first = 0, last = 0;
    if (!file.read_data(tensor.offset, &first, 1).ok() || !file.read_data(end - 1, &last, 1).ok())
      throw std::runtime_error(last_failure().sentence);
    sum += first + last;
  }
  if (file.data_bytes() != end) throw std::logic_error("data_bytes() is not the end of the last tensor");
  return sum;
}

}  // namespace ocellus::test
