#include "tests/fuzz/gguf_changes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>

#include "tests/fuzz/byte_changes.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/random_model.h"

namespace ocellus::fuzz {
namespace {

using test::GgufBuilder;
using Entry = GgufBuilder::Entry;
using Tensor = GgufBuilder::Tensor;

constexpr uint64_t kMaxItems = 4096;           // entries, tensors; strings of an array are not limited
constexpr uint64_t kMaxTensorBytes = 1 << 18;  // of a tensor that was made larger
constexpr size_t kArrayHead = 12;              // element type and count
constexpr const char* kWords[] = {"llama",   "qwen2",   "clip",   "gpt2",   "bert",         "smollm",   "llama-bpe",
                                  "linear",  "yarn",    "none",   "mlp",    "idefics3",     "ldp",      "gelu",
                                  "",        "default", "qwen2",  "gpt-2",  "general.name", "%s%n%d",   "\xff\xfe",
                                  "\x1b[2J", "a\nb",    "<0x-1>", "<0x41>", "<|im_end|>",   "{{ bos }}"};

// Reads as far as the bytes make sense.
class Reader {
 public:
  explicit Reader(const Bytes& bytes) : bytes_(bytes) {}

  template <class T>
  bool number(T* out) {
    if (bytes_.size() - at_ < sizeof(T)) return false;
    std::memcpy(out, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }
  bool take(uint64_t count, Bytes* out) {
    if (bytes_.size() - at_ < count) return false;
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(at_);
    out->insert(out->end(), begin, begin + static_cast<std::ptrdiff_t>(count));
    at_ += count;
    return true;
  }
  bool text(std::string* out) {
    uint64_t length = 0;
    Bytes characters;
    if (!number(&length) || !take(length, &characters)) return false;
    out->assign(characters.begin(), characters.end());
    return true;
  }
  // A value of a type, as it is stored.
  bool value(uint32_t type, Bytes* out) {
    if (type == static_cast<uint32_t>(GgufType::kString)) return stored_text(out);
    if (type != static_cast<uint32_t>(GgufType::kArray)) return take(scalar_bytes(type), out);
    uint32_t element = 0;
    uint64_t count = 0;
    if (!number(&element) || !number(&count) || element == static_cast<uint32_t>(GgufType::kArray)) return false;
    test::append(*out, element);
    test::append(*out, count);
    if (element != static_cast<uint32_t>(GgufType::kString)) {
      return count <= bytes_.size() && take(count * scalar_bytes(element), out);
    }
    for (uint64_t i = 0; i < count; ++i)
      if (!stored_text(out)) return false;
    return true;
  }
  void align(uint64_t alignment) { at_ = std::min((at_ + alignment - 1) / alignment * alignment, bytes_.size()); }
  size_t at() const { return at_; }

  static size_t scalar_bytes(uint32_t type) {
    constexpr size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < std::size(kBytes) ? kBytes[type] : 0;
  }

 private:
  bool stored_text(Bytes* out) {
    uint64_t length = 0;
    if (!number(&length)) return false;
    test::append(*out, length);
    return take(length, out);
  }

  const Bytes& bytes_;
  size_t at_ = 0;
};

bool read_tensor(Reader& reader, Tensor* tensor, uint64_t* offset) {
  uint32_t dimensions = 0;
  if (!reader.text(&tensor->name) || !reader.number(&dimensions) || dimensions > 8) return false;
  tensor->ne.resize(dimensions);
  for (uint64_t& extent : tensor->ne)
    if (!reader.number(&extent)) return false;
  return reader.number(&tensor->type) && reader.number(offset);
}

GgufBuilder read_gguf(const Bytes& bytes) {
  GgufBuilder file;
  Reader reader(bytes);
  Bytes magic;
  uint64_t tensors = 0, entries = 0;
  if (!reader.take(4, &magic) || !reader.number(&file.version) || !reader.number(&tensors) || !reader.number(&entries))
    return file;
  for (uint64_t i = 0; i < std::min(entries, kMaxItems); ++i) {
    Entry entry;
    if (!reader.text(&entry.key) || !reader.number(&entry.type) || !reader.value(entry.type, &entry.value)) return file;
    file.entries.push_back(entry);
  }
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < std::min(tensors, kMaxItems); ++i) {
    Tensor tensor;
    offsets.emplace_back();
    if (!read_tensor(reader, &tensor, &offsets.back())) return file;
    file.tensors.push_back(tensor);
  }
  reader.align(file.alignment);
  const size_t begin = reader.at(), size = bytes.size() - begin;
  for (size_t i = 0; i < file.tensors.size(); ++i) {  // a tensor's data end where the next one's begin
    const size_t from = static_cast<size_t>(std::min<uint64_t>(offsets[i], size));
    const size_t to = i + 1 < offsets.size() ? static_cast<size_t>(std::min<uint64_t>(offsets[i + 1], size)) : size;
    if (from < to)
      file.tensors[i].data.assign(bytes.begin() + static_cast<std::ptrdiff_t>(begin + from),
                                  bytes.begin() + static_cast<std::ptrdiff_t>(begin + to));
  }
  return file;
}

Bytes stored_text(std::string_view text) {
  Bytes out;
  test::append_string(out, text);
  return out;
}

Bytes odd_scalar(uint32_t type, Random& random) {
  const size_t size = Reader::scalar_bytes(type);
  Bytes value(std::max<size_t>(size, 8));
  const uint64_t number = odd_number(random);
  std::memcpy(value.data(), &number, sizeof number);
  if (type == static_cast<uint32_t>(GgufType::kF32)) {
    constexpr float kOdd[] = {0,
                              -0.0f,
                              1,
                              -1,
                              1e-30f,
                              1e30f,
                              0.5f,
                              std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()};
    std::memcpy(value.data(), &pick(kOdd, random), sizeof(float));
  }
  value.resize(size);
  return value;
}

// Element values, types and counts of an array; the count may stop being the true one.
void change_array(Bytes& value, Random& random) {
  if (value.size() < kArrayHead) return;
  uint32_t element = 0;
  uint64_t count = 0;
  std::memcpy(&element, value.data(), sizeof element);
  std::memcpy(&count, value.data() + sizeof element, sizeof count);
  const size_t each = Reader::scalar_bytes(element);
  switch (random.integer(0, 4)) {
    case 0: count = odd_number(random); break;
    case 1: element = static_cast<uint32_t>(random.integer(0, 13)); break;
    case 2:  // shorter
      if (each == 0 || count == 0) break;
      count = random.bits() % count;
      value.resize(kArrayHead + count * each);
      break;
    case 3: {  // longer
      const Bytes more = each == 0 ? stored_text(pick(kWords, random)) : odd_scalar(element, random);
      value.insert(value.end(), more.begin(), more.end());
      ++count;
      break;
    }
    default: {
      if (value.size() == kArrayHead || each == 0) return change_bytes(value, random);
      const Bytes one = odd_scalar(element, random);
      const size_t at = kArrayHead + pick_index((value.size() - kArrayHead) / each, random) * each;
      std::copy(one.begin(), one.end(), value.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  std::memcpy(value.data(), &element, sizeof element);
  std::memcpy(value.data() + sizeof element, &count, sizeof count);
}

void change_value(Entry& entry, Random& random) {
  if (entry.type == static_cast<uint32_t>(GgufType::kArray)) return change_array(entry.value, random);
  if (entry.type != static_cast<uint32_t>(GgufType::kString)) {
    entry.value = odd_scalar(entry.type, random);
    return;
  }
  entry.value = once_in(4, random) ? stored_text(std::string(static_cast<size_t>(random.integer(0, 3000)), 'x'))
                                   : stored_text(pick(kWords, random));
  if (once_in(8, random)) test::patch(entry.value, 0, odd_number(random));
}

void change_entry(GgufBuilder& file, Random& random) {
  if (file.entries.empty()) return file.add_u32("general.alignment", 32);
  Entry& entry = pick(file.entries, random);
  switch (random.integer(0, 7)) {
    case 0: change_order(file.entries, random); break;
    case 1: entry.key = pick(file.entries, random).key; break;
    case 2:
      entry.type = static_cast<uint32_t>(random.integer(0, 13));
      entry.value = odd_scalar(entry.type, random);
      if (entry.type == static_cast<uint32_t>(GgufType::kString)) entry.value = stored_text(pick(kWords, random));
      if (entry.type == static_cast<uint32_t>(GgufType::kArray)) {
        entry.value = {5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
        change_array(entry.value, random);
      }
      break;
    case 3: entry.forged_key_length = odd_number(random); break;
    case 4: file.add_alignment(static_cast<uint32_t>(1) << random.integer(0, 17)); break;
    default: change_value(entry, random);
  }
}

// Bytes that the shape asks for; 0 where it asks for too many, or the type is unknown.
uint64_t data_bytes(const Tensor& tensor) {
  for (int format = 0; format < kWeightFormatCount; ++format) {
    const WeightFormatInfo& info = format_info(static_cast<WeightFormat>(format));
    if (info.ggml_id != tensor.type) continue;
    uint64_t elements = 1;
    for (const uint64_t extent : tensor.ne) elements = extent < kMaxTensorBytes ? elements * extent : 0;
    const uint64_t blocks = elements / static_cast<uint64_t>(info.block_elements);
    const uint64_t bytes = blocks * static_cast<uint64_t>(info.block_bytes);
    return elements < kMaxTensorBytes && bytes < kMaxTensorBytes ? bytes : 0;
  }
  return 0;
}

void change_data(Bytes& data, Random& random) {
  constexpr uint16_t kHalves[] = {0x0000, 0x7C00, 0xFC00, 0x7E00, 0x7BFF, 0x0001, 0x3C00};
  if (data.size() < 4) return;
  for (int64_t left = random.integer(1, 64); left > 0; --left) {
    const size_t at = pick_index(data.size() - 3, random);
    if (once_in(2, random)) {
      const uint32_t bits = once_in(2, random) ? 0x7FC00000 : 0xFF7FFFFF;  // no number; the least one
      std::memcpy(&data[at], &bits, sizeof bits);
    } else {
      std::memcpy(&data[at], &pick(kHalves, random), sizeof(uint16_t));
    }
  }
}

void change_tensor(GgufBuilder& file, Random& random) {
  if (file.tensors.empty()) return;
  Tensor& tensor = pick(file.tensors, random);
  const bool is_honest = !once_in(4, random);  // about the bytes that the shape takes
  switch (random.integer(0, 9)) {
    case 0: return change_order(file.tensors, random);
    case 1: tensor.name = pick(file.tensors, random).name; return;
    case 2: tensor.name += "x"; return;
    case 3: tensor.forged_offset = odd_number(random); return;
    case 4: tensor.forged_name_length = odd_number(random); return;
    case 5: tensor.forged_dimension_count = static_cast<uint32_t>(odd_number(random)); return;
    case 6: return change_data(tensor.data, random);
    case 7: tensor.type = static_cast<uint32_t>(random.integer(0, 40)); break;
    case 8:
      if (once_in(2, random) && tensor.ne.size() < 5) {
        tensor.ne.insert(tensor.ne.begin(), 1);
      } else if (!tensor.ne.empty()) {
        std::swap(tensor.ne.front(), tensor.ne.back());
      }
      break;
    default:
      if (tensor.ne.empty()) return;
      uint64_t& extent = pick(tensor.ne, random);
      extent = once_in(2, random) ? odd_number(random) : extent + static_cast<uint64_t>(random.integer(0, 2)) - 1;
  }
  if (is_honest) tensor.data.resize(data_bytes(tensor));
}

}  // namespace

void change_gguf(Bytes& input, Random& random) {
  GgufBuilder file = read_gguf(input);
  switch (random.integer(0, 19)) {
    case 0: file.version = static_cast<uint32_t>(odd_number(random)); break;
    case 1: file.forged_entry_count = odd_number(random); break;
    case 2: file.forged_tensor_count = odd_number(random); break;
    case 3: file.magic = once_in(2, random) ? "FUGG" : "GGML"; break;
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
    case 10: change_tensor(file, random); break;
    default: change_entry(file, random);
  }
  input = file.build();
}

namespace {

template <class Recipe>
Bytes make_file(const Recipe& recipe, uint64_t seed) {
  const test::TemporaryModel model(recipe, seed);
  std::FILE* file = std::fopen(model.c_str(), "rb");
  require(file != nullptr, "a random model can be read");
  Bytes bytes(std::filesystem::file_size(model.path()));
  const size_t count = std::fread(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
  require(count == bytes.size(), "a random model can be read whole");
  return bytes;
}

}  // namespace

std::vector<Bytes> make_text_models() {
  const test::TextRecipe small = {.layers = 1, .width = 32, .mlp_width = 32, .query_heads = 2, .kv_heads = 1};
  test::TextRecipe biased = small;
  biased.architecture = "qwen2";
  biased.biases = true;
  biased.tied = true;
  test::TextRecipe normed = small;  // heads of queries and keys
  normed.architecture = "qwen3";
  normed.head_dim = 24;
  test::TextRecipe windowed = small;
  windowed.architecture = "gemma3";
  windowed.layers = 2;
  windowed.window = 8;
  windowed.window_period = 2;
  windowed.local_rope_base = 500;
  test::TextRecipe packed = small;
  packed.format = WeightFormat::kQ8_0;
  packed.second_format = WeightFormat::kQ4_0;
  packed.mixed = true;
  packed.rope_factors = true;
  test::TextRecipe scaled = small;
  scaled.format = WeightFormat::kF16;
  scaled.fused_qkv = true;
  scaled.linear_factor = 2;
  return {make_file(small, 1),  make_file(biased, 2), make_file(packed, 3),
          make_file(scaled, 4), make_file(normed, 9), make_file(windowed, 10)};
}

std::vector<Bytes> make_projectors() {
  test::VisionRecipe tower = {.image_size = 16, .patch_size = 8, .layers = 1, .width = 32, .heads = 2, .mlp_width = 32};
  tower.output_width = 32;
  test::VisionRecipe tiled = tower;
  tiled.longest_edge = 32;
  tiled.swapped_mlp = true;
  tiled.format = WeightFormat::kQ8_0;
  test::ClipRecipe clip = {.image_size = 14, .patch_size = 7, .layers = 2, .width = 32, .mlp_width = 32};
  clip.projector_width = 32;
  clip.output_width = 32;
  test::ClipRecipe old = clip;
  old.is_old = true;
  old.format = WeightFormat::kF16;
  return {make_file(tower, 5), make_file(tiled, 6), make_file(clip, 7), make_file(old, 8)};
}

}  // namespace ocellus::fuzz
