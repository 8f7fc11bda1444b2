// GGUF v2/v3 containers: metadata and tensor directory, validated in full before use.
//
// The file is untrusted. open() accepts it only if every count, length, offset, type and name in its header is
// consistent and inside the file; later code decides whether the values make a model. The file may also change at any
// time: the header is read once, and all checks and uses refer to that copy.
//
// A model may be split into several files by llama.cpp's gguf-split: "m-00001-of-00003.gguf" has the metadata, and each
// file has a part of the tensors and the keys split.no, split.count and split.tensors.count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "platform/buffer.h"
#include "platform/input_file.h"
#include "platform/status.h"
#include "quant/byte_reader.h"
#include "quant/file_start.h"
#include "quant/name_table.h"
#include "quant/weight_format.h"

namespace ocellus {

// Limits of accepted files. Files in use stay far below the counts; the key length is the format's own limit.
inline constexpr int64_t kMaxGgufEntries = 65536;
inline constexpr int64_t kMaxGgufTensors = 65536;
inline constexpr size_t kMaxGgufKeyBytes = 65535;
inline constexpr size_t kMaxGgufTensorNameBytes = 63;
inline constexpr int64_t kMaxGgufHeaderBytes = int64_t{128} << 20;  // per file; public vocabularies take up to 20 MB
inline constexpr int64_t kMaxGgufParts = 256;
inline constexpr uint32_t kLeastGgufAlignment = 8;  // a power of two
inline constexpr uint32_t kMaxGgufAlignment = 65536;
inline constexpr uint32_t kDefaultGgufAlignment = 32;

enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
const char* gguf_type_name(GgufType type);

/// One metadata entry. `payload` points into the header, unaligned: the value (for a string, its characters) or the
/// first element of an array (a string element is a 64-bit length and its characters).
struct GgufEntry {
  std::string_view key;
  GgufType type = GgufType::kU8;
  GgufType element_type = GgufType::kU8;  // arrays only
  uint64_t count = 1;                     // number of array elements, else 1
  const uint8_t* payload = nullptr;
  uint64_t payload_bytes = 0;
};

/// One tensor. ne[0] is the fastest dimension (a row's length); unused dimensions are 1.
struct GgufTensor {
  std::string_view name;
  WeightFormat format = WeightFormat::kF32;
  int32_t dimension_count = 0;
  int64_t ne[4] = {1, 1, 1, 1};
  int64_t offset = 0;  // from the start of the data section
  int64_t bytes = 0;

  int64_t cols() const { return ne[0]; }
  int64_t rows() const { return ne[1] * ne[2] * ne[3]; }
};

/// Iterates over the strings of a string array in order; empty if the entry is of another type.
class GgufStrings {
 public:
  explicit GgufStrings(const GgufEntry& entry)
      : at_(entry.payload),
        left_(entry.type == GgufType::kArray && entry.element_type == GgufType::kString ? entry.count : 0) {}
  uint64_t left() const { return left_; }
  /// Returns the next string; an empty one after the last.
  std::string_view next();

 private:
  const uint8_t* at_;
  uint64_t left_;
};

class GgufFile : public SetUpObject {
 public:
  /// Reads and parses the header; the file stays open for read_data(). The first file of a split model opens the others
  /// in its directory: tensors() and the tensor section are then those of all files, in order. Errors: kBadFile /
  /// kUnsupported with the key, tensor or type and the path; kBadArgument for a file that is not the first of its
  /// model; kIo where the system refuses.
  Status open(const char* path);
  /// Parses bytes that stay valid as long as this object (tests, fuzzing). Error sentences then have no path.
  Status parse(const uint8_t* data, int64_t size);
  /// Keeps and parses a header without tensor data; everything but the presence of the data is checked.
  Status open_header(Buffer<uint8_t> header);
  void close();

  /// The path given to open(), cut at 511 bytes, for messages; empty after parse().
  const char* path() const { return path_; }
  const InputFile& file() const { return file_; }
  /// Number of files that hold the model: 1, or split.count. File 0 is this object; tensors() of the others are their
  /// own.
  int32_t part_count() const { return part_count_; }
  const GgufFile& part(int32_t index) const {
    return index == 0 ? *this : later_parts_[static_cast<size_t>(index - 1)];
  }
  uint32_t version() const { return version_; }
  const Buffer<GgufEntry>& entries() const { return entries_; }
  const Buffer<GgufTensor>& tensors() const { return tensors_; }

  /// Returns nullptr if the key is absent. O(1).
  const GgufEntry* find(std::string_view key) const;
  const GgufTensor* find_tensor(std::string_view name) const;

  // Typed access. Each checks the stored type (integers of any width and sign are accepted where the value fits) and
  // fails with kBadFile naming the key, not the file (see prefix_failure). `require_*` fails when the key is absent;
  // `read_*` leaves *out unchanged.
  Status require_int(std::string_view key, int64_t least, int64_t most, int64_t* out) const;
  Status read_int(std::string_view key, int64_t least, int64_t most, int64_t* out) const;
  Status require_float(std::string_view key, float* out) const;  // finite
  Status read_float(std::string_view key, float* out) const;
  Status read_bool(std::string_view key, bool* out) const;
  Status require_string(std::string_view key, std::string_view* out) const;
  Status read_string(std::string_view key, std::string_view* out) const;
  /// Finds an array entry whose element type is `type` (kI32 also accepts kU32 and the reverse); nullptr in *out if
  /// absent.
  Status read_array(std::string_view key, GgufType type, const GgufEntry** out) const;
  /// Reads exactly `count` finite floats.
  Status require_floats(std::string_view key, int64_t count, float* out) const;

  /// The tensor section: starts at data_offset() in the file and is data_bytes() long (up to the last tensor's end).
  /// The sections of a split model follow each other, padded to their alignment. After open_header() there is none to
  /// read: has_data() is false, and data_bytes() is the size it would have.
  bool has_data() const { return has_data_; }
  int64_t data_offset() const { return data_offset_; }
  int64_t data_bytes() const { return data_bytes_; }
  /// Copies `count` bytes from `offset` in the tensor section; both must lie inside it. Reads files as
  /// InputFile::read_at().
  Status read_data(int64_t offset, void* out, int64_t count) const;
  /// The header bytes that entries and names point into.
  const uint8_t* header() const { return bytes_; }

 private:
  Status open_file(const char* path);
  Status parse_file();
  Status open_parts(const char* path);
  Status open_part(const char* first_path, int32_t index, int64_t expected_tensors);
  Status join_parts(int64_t expected_tensors);
  Status read_own_data(int64_t offset, void* out, int64_t count) const;
  Status parse_start();
  Status parse_all(ByteSource* source);
  Status parse_header(ByteReader& reader, uint64_t* entry_count, uint64_t* tensor_count);
  Status parse_entries(ByteReader& reader, uint64_t count);
  Status parse_tensors(ByteReader& reader, uint64_t count);
  Status check_whole() const;
  Status read_alignment(uint32_t* out) const;
  Status place_data();

  const uint8_t* bytes_ = nullptr;
  int64_t size_ = 0;  // bytes of the file, in memory or not
  bool has_data_ = true;
  InputFile file_;          // opened by open()
  FileStart start_;         // filled by open()
  Buffer<uint8_t> header_;  // set by open_header()
  char path_[512] = {};
  uint32_t version_ = 0;
  int64_t data_offset_ = 0;
  int64_t data_bytes_ = 0;
  uint32_t alignment_ = kDefaultGgufAlignment;
  std::unique_ptr<GgufFile[]> later_parts_;  // the other files of a split model
  int32_t part_count_ = 1;
  int64_t own_begin_ = 0;  // offset of this file's tensor section in the model's
  int64_t own_bytes_ = 0;
  Buffer<GgufEntry> entries_;
  Buffer<GgufTensor> tensors_;
  NameTable entry_table_;
  NameTable tensor_table_;
};

}  // namespace ocellus
