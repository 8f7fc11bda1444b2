// The parser of GGUF files: header, metadata, tensor directory, data section, in file order.
// The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "platform/round_up.h"
#include "quant/gguf.h"
#include "quant/gguf_names.h"

namespace ocellus {
namespace {

constexpr int64_t kHeaderBytes = 24;
constexpr uint64_t kLeastStringBytes = 8;
constexpr int64_t kMaxDescribedBytes = int64_t{1} << 62;  // limit on the tensors of a header without data

// Metadata and tensors are listed in the same way in a file; only the words for messages and the limits differ.
struct Listing {
  const char* item;   // "tensor"
  const char* items;  // "tensors"
  const char* name;   // the word for an item's name
  size_t most_name_bytes;
  int64_t most_items;
  uint64_t least_item_bytes;
};
constexpr Listing kEntryListing = {
    .item = "metadata entry",
    .items = "metadata entries",
    .name = "key",
    .most_name_bytes = kMaxGgufKeyBytes,
    .most_items = kMaxGgufEntries,
    .least_item_bytes = 13,  // key length, type, a value of one byte
};
constexpr Listing kTensorListing = {
    .item = "tensor",
    .items = "tensors",
    .name = "name",
    .most_name_bytes = kMaxGgufTensorNameBytes,
    .most_items = kMaxGgufTensors,
    .least_item_bytes = 32,  // name length, dimension count, one dimension, type, offset
};

// A file format that users pass by mistake. `at` is the offset of its signature.
struct Lookalike {
  size_t at;
  std::string_view bytes;
  const char* what;
};
constexpr Lookalike kLookalikes[] = {
    {0, "version https://git-lfs", ": it is a Git LFS pointer, fetch the real file with `git lfs pull`"},
    {0, "<", ": it looks like a web page, download it again"},
    {0, "PK\x03\x04", ": it is a zip archive or a PyTorch checkpoint, which has to be converted"},
    {0, "tjgg", ": it is a GGJT file, an ancestor of GGUF, which has to be converted"},
    {8, "{\"", ": it looks like a safetensors file, which has to be converted"},
};

Status fail_not_gguf(const uint8_t* data, int64_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
  const char* what = "";
  for (const Lookalike& other : kLookalikes) {
    if (text.substr(text.size() < other.at ? text.size() : other.at).starts_with(other.bytes)) what = other.what;
  }
  const std::string_view start = text.substr(0, 16);
  char quoted[64] = {};
  size_t used = 0;
  for (const char c : start) {
    const bool printable = c >= 0x20 && c < 0x7f && c != '\\';
    const unsigned byte = static_cast<uint8_t>(c);
    used += static_cast<size_t>(std::snprintf(quoted + used, 5, printable ? "%c" : "\\x%02x", byte));
    if (used + 5 > sizeof quoted) break;
  }
  return OCELLUS_FAIL(Code::kBadFile, "this is not a GGUF file: it starts with \"%s\"%s", quoted, what);
}

uint64_t byte_size(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool: return 1;
    case GgufType::kU16:
    case GgufType::kI16: return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32: return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64: return 8;
    case GgufType::kString:
    case GgufType::kArray: return 0;  // no fixed size
  }
  return 0;
}

Status fail_past_end(std::string_view key) {
  return OCELLUS_FAIL(
      Code::kBadFile,
      "the value of metadata key '%.*s' reaches past the end of the file, which is cut short or damaged",
      shown_bytes(key), key.data());
}

Status read_type(ByteReader& reader, std::string_view key, GgufType* out) {
  uint32_t type = 0;
  if (!reader.read(&type)) return fail_past_end(key);
  if (type > static_cast<uint32_t>(GgufType::kF64)) {
    return OCELLUS_FAIL(Code::kBadFile, "metadata key '%.*s' has the value type %" PRIu32 ", but types go from 0 to 12",
                        shown_bytes(key), key.data(), type);
  }
  *out = static_cast<GgufType>(type);
  return {};
}

// Checks a count in the header before anything is allocated for it.
Status check_count(const Listing& listing, uint64_t count, uint64_t bytes_left) {
  const uint64_t room = bytes_left / listing.least_item_bytes;
  if (count <= room && count <= static_cast<uint64_t>(listing.most_items)) return {};
  return OCELLUS_FAIL(Code::kBadFile,
                      "the header claims %" PRIu64 " %s, but the limit is %" PRId64
                      " and the file has room for %" PRIu64,
                      count, listing.items, listing.most_items, room);
}

Status read_name(ByteReader& reader, const Listing& listing, int64_t number, std::string_view* out) {
  if (!reader.read_string(out)) {
    return OCELLUS_FAIL(Code::kBadFile,
                        "the %s of %s %" PRId64 " reaches past the end of the file, which is cut short or damaged",
                        listing.name, listing.item, number);
  }
  if (out->empty()) {
    return OCELLUS_FAIL(Code::kBadFile, "%s %" PRId64 " has an empty %s", listing.item, number, listing.name);
  }
  if (out->size() > listing.most_name_bytes) {
    return OCELLUS_FAIL(Code::kBadFile, "%s %" PRId64 " has a %s of %zu bytes, but at most %zu are allowed",
                        listing.item, number, listing.name, out->size(), listing.most_name_bytes);
  }
  if (!is_printable_utf8(*out)) {
    return OCELLUS_FAIL(Code::kBadFile, "the %s of %s %" PRId64 " is not printable UTF-8", listing.name, listing.item,
                        number);
  }
  return {};
}

// Skips the elements of a string array, after their count.
Status skip_strings(ByteReader& reader, const GgufEntry& entry) {
  std::string_view element;
  for (uint64_t i = 0; i < entry.count; ++i) {
    if (reader.read_string(&element)) continue;
    return OCELLUS_FAIL(Code::kBadFile,
                        "string %" PRIu64
                        " of metadata key '%.*s' reaches past the end of the file, which is cut short or damaged",
                        i, shown_bytes(entry.key), entry.key.data());
  }
  return {};
}

Status read_array(ByteReader& reader, GgufEntry* entry) {
  const std::string_view key = entry->key;
  OCELLUS_TRY(read_type(reader, key, &entry->element_type));
  if (!reader.read(&entry->count)) return fail_past_end(key);
  if (entry->element_type == GgufType::kArray) {
    return OCELLUS_FAIL(Code::kUnsupported, "metadata key '%.*s' is an array of arrays, which no supported model uses",
                        shown_bytes(key), key.data());
  }
  const bool strings = entry->element_type == GgufType::kString;
  const uint64_t element_bytes = strings ? kLeastStringBytes : byte_size(entry->element_type);
  if (entry->count > reader.left() / element_bytes) {
    return OCELLUS_FAIL(Code::kBadFile,
                        "metadata key '%.*s' claims an array of %" PRIu64 " elements, but %" PRIu64
                        " bytes are left in the file",
                        shown_bytes(key), key.data(), entry->count, reader.left());
  }
  entry->payload = reader.at();
  if (strings) {
    OCELLUS_TRY(skip_strings(reader, *entry));
  } else if (!reader.skip(entry->count * element_bytes)) {
    return fail_past_end(key);
  }
  entry->payload_bytes = static_cast<uint64_t>(reader.at() - entry->payload);
  return {};
}

Status check_bools(const GgufEntry& entry) {
  for (uint64_t i = 0; i < entry.payload_bytes; ++i) {
    if (entry.payload[i] <= 1) continue;
    return OCELLUS_FAIL(Code::kBadFile, "metadata key '%.*s' holds the truth value %d, which is neither 0 nor 1",
                        shown_bytes(entry.key), entry.key.data(), entry.payload[i]);
  }
  return {};
}

Status read_entry(ByteReader& reader, int64_t number, GgufEntry* entry) {
  OCELLUS_TRY(read_name(reader, kEntryListing, number, &entry->key));
  OCELLUS_TRY(read_type(reader, entry->key, &entry->type));
  if (entry->type == GgufType::kArray) {
    OCELLUS_TRY(read_array(reader, entry));
  } else if (entry->type == GgufType::kString) {
    std::string_view value;
    if (!reader.read_string(&value)) return fail_past_end(entry->key);
    entry->payload = reinterpret_cast<const uint8_t*>(value.data());
    entry->payload_bytes = value.size();
  } else {
    entry->payload = reader.at();
    entry->payload_bytes = byte_size(entry->type);
    if (!reader.skip(entry->payload_bytes)) return fail_past_end(entry->key);
  }
  const GgufType value_type = entry->type == GgufType::kArray ? entry->element_type : entry->type;
  return value_type == GgufType::kBool ? check_bools(*entry) : Status();
}

Status fail_directory_past_end(std::string_view name) {
  return OCELLUS_FAIL(
      Code::kBadFile,
      "the description of tensor '%.*s' reaches past the end of the file, which is cut short or damaged",
      shown_bytes(name), name.data());
}

// Fills ne and returns the product of the dimensions, which is at least 1.
Status read_dimensions(ByteReader& reader, GgufTensor* tensor, int64_t* elements) {
  const std::string_view name = tensor->name;
  uint32_t count = 0;
  if (!reader.read(&count)) return fail_directory_past_end(name);
  if (count < 1 || count > 4) {
    return OCELLUS_FAIL(Code::kBadFile, "tensor '%.*s' has %" PRIu32 " dimensions, but 1 to 4 are possible",
                        shown_bytes(name), name.data(), count);
  }
  tensor->dimension_count = static_cast<int32_t>(count);
  *elements = 1;
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t extent = 0;
    if (!reader.read(&extent)) return fail_directory_past_end(name);
    if (extent == 0) {
      return OCELLUS_FAIL(Code::kBadFile, "dimension %" PRIu32 " of tensor '%.*s' is 0", i, shown_bytes(name),
                          name.data());
    }
    if (__builtin_mul_overflow(*elements, extent, elements)) {
      return OCELLUS_FAIL(Code::kBadFile, "the dimensions of tensor '%.*s' multiply to more than 63 bits",
                          shown_bytes(name), name.data());
    }
    tensor->ne[i] = static_cast<int64_t>(extent);
  }
  return {};
}

Status find_tensor_format(std::string_view name, uint32_t ggml_id, const WeightFormatInfo** out) {
  *out = find_format(ggml_id);
  if (*out != nullptr) return {};
  if (const char* type_name = ggml_type_name(ggml_id); type_name != nullptr) {
    return OCELLUS_FAIL(Code::kUnsupported,
                        "tensor '%.*s' has type %s, which this build cannot run: use a Q8_0, Q4_K, Q6_K or F16 file",
                        shown_bytes(name), name.data(), type_name);
  }
  return OCELLUS_FAIL(Code::kUnsupported,
                      "tensor '%.*s' has type number %" PRIu32
                      ", which is removed from ggml or unknown: use a Q8_0, Q4_K, Q6_K or F16 file",
                      shown_bytes(name), name.data(), ggml_id);
}

Status read_tensor(ByteReader& reader, int64_t number, GgufTensor* tensor) {
  OCELLUS_TRY(read_name(reader, kTensorListing, number, &tensor->name));
  const std::string_view name = tensor->name;
  int64_t elements = 0;
  OCELLUS_TRY(read_dimensions(reader, tensor, &elements));
  uint32_t ggml_id = 0;
  uint64_t offset = 0;
  if (!reader.read(&ggml_id) || !reader.read(&offset)) return fail_directory_past_end(name);
  const WeightFormatInfo* info = nullptr;
  OCELLUS_TRY(find_tensor_format(name, ggml_id, &info));
  tensor->format = info->format;
  if (tensor->ne[0] % info->block_elements != 0) {
    return OCELLUS_FAIL(Code::kBadFile, "tensor '%.*s' has rows of %" PRId64 " weights, but %s stores blocks of %d",
                        shown_bytes(name), name.data(), tensor->ne[0], info->name, info->block_elements);
  }
  if (__builtin_mul_overflow(elements / info->block_elements, int64_t{info->block_bytes}, &tensor->bytes)) {
    return OCELLUS_FAIL(Code::kBadFile, "the size of tensor '%.*s' in bytes does not fit 63 bits", shown_bytes(name),
                        name.data());
  }
  // An offset that does not fit is refused below, as any offset that is not the expected one.
  tensor->offset = offset > uint64_t{INT64_MAX} ? INT64_MAX : static_cast<int64_t>(offset);
  return {};
}

}  // namespace

Status GgufFile::open(const char* path) {
  close();
  if (path == nullptr) return OCELLUS_FAIL(Code::kBadArgument, "the path of the GGUF file is null");
  Status status = open_file(path);
  if (status.ok()) status = parse_file();
  if (status.ok()) status = open_parts(path);
  if (!status.ok()) close();
  return status;
}

Status GgufFile::open_file(const char* path) {
  OCELLUS_TRY(file_.open(path));
  std::snprintf(path_, sizeof path_, "%s", path);
  return {};
}

Status GgufFile::parse_file() {
  Status status = start_.begin(file_, kMaxGgufHeaderBytes);
  if (status.ok()) status = parse_start();
  return prefix_failure(status, path_);
}

/// Parses the header of the file. A failed read or a change of the file meanwhile takes precedence over what the parser
/// says.
Status GgufFile::parse_start() {
  bytes_ = start_.data();
  size_ = file_.size();
  const Status parsed = parse_all(&start_);
  OCELLUS_TRY(start_.check());
  OCELLUS_TRY(file_.check_unchanged());
  OCELLUS_TRY(parsed);
  start_.finish(data_offset_);
  return {};
}

Status GgufFile::parse(const uint8_t* data, int64_t size) {
  close();
  if (data == nullptr || size < 0) return OCELLUS_FAIL(Code::kBadArgument, "there are no bytes to parse");
  bytes_ = data;
  size_ = size;
  Status status = parse_all(nullptr);
  if (status.ok()) status = check_whole();
  if (!status.ok()) close();
  return status;
}

Status GgufFile::open_header(Buffer<uint8_t> header) {
  close();
  header_ = std::move(header);
  bytes_ = header_.data();
  size_ = header_.size();
  has_data_ = false;
  const Status status = parse_all(nullptr);
  if (!status.ok()) close();
  return status;
}

Status GgufFile::parse_all(ByteSource* source) {
  ByteReader reader(bytes_, static_cast<uint64_t>(size_), source);
  uint64_t entry_count = 0, tensor_count = 0;
  OCELLUS_TRY(parse_header(reader, &entry_count, &tensor_count));
  OCELLUS_TRY(parse_entries(reader, entry_count));
  OCELLUS_TRY(read_alignment(&alignment_));
  OCELLUS_TRY(parse_tensors(reader, tensor_count));
  data_offset_ = round_up(static_cast<int64_t>(reader.at() - bytes_), alignment_);
  return place_data();
}

void GgufFile::close() { *this = GgufFile(); }

Status GgufFile::parse_header(ByteReader& reader, uint64_t* entry_count, uint64_t* tensor_count) {
  const int64_t first_bytes = std::min(size_, kHeaderBytes);
  if (!reader.has(static_cast<uint64_t>(first_bytes))) return OCELLUS_FAIL(Code::kBadFile, "the file has no header");
  if (first_bytes < 4 || std::memcmp(bytes_, "GGUF", 4) != 0) return fail_not_gguf(bytes_, first_bytes);
  if (size_ < kHeaderBytes) {
    return OCELLUS_FAIL(Code::kBadFile, "the file ends after %" PRId64 " bytes, inside the GGUF header", size_);
  }
  reader.skip(4);
  reader.read(&version_);
  reader.read(tensor_count);
  reader.read(entry_count);
  if (version_ != 0 && (version_ & 0xffff) == 0) {
    return OCELLUS_FAIL(Code::kUnsupported, "this GGUF file is big-endian: use the little-endian one");
  }
  if (version_ < 2 || version_ > 3) {
    return OCELLUS_FAIL(Code::kUnsupported,
                        "this file has GGUF version %" PRIu32 ", but only 2 and 3 can be read: convert the model again",
                        version_);
  }
  return {};
}

Status GgufFile::parse_entries(ByteReader& reader, uint64_t count) {
  OCELLUS_TRY(check_count(kEntryListing, count, reader.left()));
  OCELLUS_TRY(entries_.reserve(static_cast<int64_t>(count)));
  OCELLUS_TRY(entry_table_.create(static_cast<int64_t>(count)));
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) {
    GgufEntry entry;
    OCELLUS_TRY(read_entry(reader, i, &entry));
    int32_t earlier = -1;
    OCELLUS_TRY(prefix_failure(entry_table_.insert(entry.key, static_cast<int32_t>(i), &earlier), "metadata keys"));
    if (earlier >= 0) {
      return OCELLUS_FAIL(Code::kBadFile, "metadata key '%.*s' appears twice, as entry %" PRId32 " and %" PRId64,
                          shown_bytes(entry.key), entry.key.data(), earlier, i);
    }
    OCELLUS_TRY(entries_.push(entry));
  }
  return {};
}

Status GgufFile::read_alignment(uint32_t* out) const {
  const GgufEntry* entry = find("general.alignment");
  if (entry == nullptr) return {};
  if (entry->type != GgufType::kU32) {
    return OCELLUS_FAIL(Code::kBadFile, "metadata key 'general.alignment' has type %s, but it must be u32",
                        gguf_type_name(entry->type));
  }
  std::memcpy(out, entry->payload, sizeof *out);
  const bool power_of_two = (*out & (*out - 1)) == 0;
  if (power_of_two && *out >= kLeastGgufAlignment && *out <= kMaxGgufAlignment) return {};
  return OCELLUS_FAIL(Code::kBadFile,
                      "metadata key 'general.alignment' is %" PRIu32 ", but it must be a power of two from %" PRIu32
                      " to %" PRIu32,
                      *out, kLeastGgufAlignment, kMaxGgufAlignment);
}

Status GgufFile::parse_tensors(ByteReader& reader, uint64_t count) {
  OCELLUS_TRY(check_count(kTensorListing, count, reader.left()));
  OCELLUS_TRY(tensors_.reserve(static_cast<int64_t>(count)));
  OCELLUS_TRY(tensor_table_.create(static_cast<int64_t>(count)));
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) {
    GgufTensor tensor;
    OCELLUS_TRY(read_tensor(reader, i, &tensor));
    int32_t earlier = -1;
    OCELLUS_TRY(prefix_failure(tensor_table_.insert(tensor.name, static_cast<int32_t>(i), &earlier), "tensors"));
    if (earlier >= 0) {
      return OCELLUS_FAIL(Code::kBadFile, "tensor name '%.*s' appears twice, as tensor %" PRId32 " and %" PRId64,
                          shown_bytes(tensor.name), tensor.name.data(), earlier, i);
    }
    OCELLUS_TRY(tensors_.push(tensor));
  }
  return {};
}

// Tensors must follow each other with nothing but padding between them, as every writer lays them out: then none can
// overlap, be misaligned or lie outside the file.
Status GgufFile::place_data() {
  if (tensors_.empty()) {
    if (data_offset_ > size_) data_offset_ = size_;  // such files may end without the padding
    return {};
  }
  const int64_t room = has_data_ ? size_ - data_offset_ : kMaxDescribedBytes;
  int64_t expected = 0;
  for (const GgufTensor& tensor : tensors_) {
    if (tensor.offset != expected) {
      return OCELLUS_FAIL(Code::kBadFile,
                          "tensor '%.*s' starts at byte %" PRId64
                          " of the data section, but the tensors before it end at %" PRId64,
                          shown_bytes(tensor.name), tensor.name.data(), tensor.offset, expected);
    }
    if (tensor.bytes > room - expected) {
      return OCELLUS_FAIL(
          Code::kBadFile,
          "tensor '%.*s' needs %" PRId64 " bytes, but the file has %" PRId64 " left for it: it is cut short or damaged",
          shown_bytes(tensor.name), tensor.name.data(), tensor.bytes, room > expected ? room - expected : 0);
    }
    data_bytes_ = own_bytes_ = expected + tensor.bytes;
    expected = round_up(data_bytes_, alignment_);
  }
  return {};
}

}  // namespace ocellus
