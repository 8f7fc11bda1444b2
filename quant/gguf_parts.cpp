// Split models: opens all files given the first, and joins their tensor sections into one.

#include <limits.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "platform/round_up.h"
#include "quant/gguf.h"
#include "quant/gguf_names.h"

namespace ocellus {
namespace {

constexpr char kNumberKey[] = "split.no";
constexpr char kCountKey[] = "split.count";
constexpr char kTensorsKey[] = "split.tensors.count";  // tensors of all parts
constexpr int64_t kMaxModelBytes = int64_t{1} << 62;

struct PartKeys {
  int64_t number = 0;
  int64_t count = 1;
};

/// Reads the part's number from 0 and the number of parts; a file without the keys is the only part.
Status read_part_keys(const GgufFile& file, PartKeys* keys) {
  if (file.find(kCountKey) == nullptr) return {};
  OCELLUS_TRY(file.require_int(kCountKey, 0, kMaxGgufParts, &keys->count));
  keys->count = std::max<int64_t>(keys->count, 1);  // joined files have 0
  if (keys->count > 1 || file.find(kNumberKey) != nullptr)
    OCELLUS_TRY(file.require_int(kNumberKey, 0, UINT16_MAX, &keys->number));
  if (keys->number < keys->count) return {};
  return OCELLUS_FAIL(Code::kBadFile,
                      "metadata key '%s' is %" PRId64 ", but the model has %" PRId64 " part%s (%s), counted from 0",
                      kNumberKey, keys->number, keys->count, keys->count == 1 ? "" : "s", kCountKey);
}

/// The end of a part's file name: "-00002-of-00003.gguf".
struct PartSuffix {
  PartSuffix(int64_t number, int64_t count) {
    std::snprintf(text, sizeof text, "-%05" PRId64 "-of-%05" PRId64 ".gguf", number + 1, count);
  }
  char text[64];
};

/// Checks that `path` is the first part and is named so that the others can be found.
Status check_first_name(std::string_view path, const PartKeys& keys) {
  const PartSuffix own(keys.number, keys.count), first(0, keys.count);
  const bool is_named = path.ends_with(own.text);
  if (keys.number > 0) {
    std::string_view stem = is_named ? path.substr(0, path.size() - std::strlen(own.text)) : "";
    stem.remove_prefix(stem.rfind('/') + 1);
    return OCELLUS_FAIL(Code::kBadFile,
                        "this is part %" PRId64 " of %" PRId64
                        " of a model (split.no, split.count): name the first part, %s%.*s%s",
                        keys.number + 1, keys.count, is_named ? "" : "whose name ends in ",
                        static_cast<int>(stem.size()), stem.data(), first.text);
  }
  if (is_named) return {};
  return OCELLUS_FAIL(Code::kBadFile,
                      "this is the first of %" PRId64
                      " parts of a model (split.count), but its name does not end in %s as it must for the others to "
                      "be found",
                      keys.count, own.text);
}

Status check_int(const GgufFile& part, const char* key, int64_t expected, int64_t number) {
  int64_t found = 0;
  OCELLUS_TRY(part.require_int(key, 0, INT32_MAX, &found));
  if (found == expected) return {};
  return OCELLUS_FAIL(Code::kBadFile,
                      "metadata key '%s' is %" PRId64 ", but it must be %" PRId64 " in part %" PRId64
                      " of this model: the file is another of its parts, or one of another model",
                      key, found, expected, number + 1);
}

Status check_architecture(const GgufFile& first, const GgufFile& part) {
  std::string_view expected, found;
  OCELLUS_TRY(part.read_string("general.architecture", &found));
  if (found.empty()) return {};  // usual: the metadata is in the first part
  OCELLUS_TRY(first.read_string("general.architecture", &expected));
  if (found == expected) return {};
  return OCELLUS_FAIL(Code::kBadFile,
                      "metadata key 'general.architecture' is '%.*s', but the first part of the model has '%.*s'",
                      shown_bytes(found), found.data(), shown_bytes(expected), expected.data());
}

}  // namespace

Status GgufFile::check_whole() const {
  PartKeys keys;
  OCELLUS_TRY(read_part_keys(*this, &keys));
  if (keys.count == 1) return {};
  return OCELLUS_FAIL(Code::kUnsupported,
                      "this is one of %" PRId64 " parts of a model (split.count), which are read from files only",
                      keys.count);
}

Status GgufFile::open_parts(const char* path) {
  PartKeys keys;
  OCELLUS_TRY(prefix_failure(read_part_keys(*this, &keys), path));
  if (keys.count == 1) return {};
  OCELLUS_TRY(prefix_failure(check_first_name(path, keys), path));
  int64_t tensors = 0;
  OCELLUS_TRY(prefix_failure(require_int(kTensorsKey, 0, kMaxGgufTensors, &tensors), path));
  part_count_ = static_cast<int32_t>(keys.count);
  later_parts_.reset(new (std::nothrow) GgufFile[static_cast<size_t>(part_count_ - 1)]);
  if (later_parts_ == nullptr)
    return OCELLUS_FAIL(Code::kIo, "the system has no memory for a model of %d parts", part_count_);
  for (int32_t i = 1; i < part_count_; ++i) OCELLUS_TRY(open_part(path, i, tensors));
  return prefix_failure(join_parts(tensors), path);
}

Status GgufFile::open_part(const char* first_path, int32_t index, int64_t expected_tensors) {
  const PartSuffix suffix(index, part_count_);
  const auto stem_bytes = static_cast<int>(std::strlen(first_path) - std::strlen(suffix.text));
  char path[PATH_MAX];
  std::snprintf(path, sizeof path, "%.*s%s", stem_bytes, first_path, suffix.text);
  GgufFile& part = later_parts_[static_cast<size_t>(index - 1)];
  if (const Status opened = part.open_file(path); !opened.ok()) {
    char reason[sizeof(Failure::sentence)];
    std::memcpy(reason, last_failure().sentence, sizeof reason);
    return OCELLUS_FAIL(opened.code(), "%s: it is part %d of the %d of this model (split.count)", reason, index + 1,
                        part_count_);
  }
  OCELLUS_TRY(part.parse_file());
  OCELLUS_TRY(prefix_failure(check_int(part, kCountKey, part_count_, index), path));
  OCELLUS_TRY(prefix_failure(check_int(part, kNumberKey, index, index), path));
  OCELLUS_TRY(prefix_failure(check_int(part, kTensorsKey, expected_tensors, index), path));
  return prefix_failure(check_architecture(*this, part), path);
}

// Places the tensor sections of all parts one after the other, as in a whole file.
Status GgufFile::join_parts(int64_t expected_tensors) {
  int64_t count = tensors_.size();
  for (int32_t i = 1; i < part_count_; ++i) count += part(i).tensors_.size();
  if (count != expected_tensors) {
    return OCELLUS_FAIL(Code::kBadFile, "metadata key '%s' is %" PRId64 ", but the %d parts hold %" PRId64 " tensors",
                        kTensorsKey, expected_tensors, part_count_, count);
  }
  Buffer<GgufTensor> all;
  OCELLUS_TRY(all.reserve(count));
  OCELLUS_TRY(tensor_table_.create(count));
  int64_t end = 0;
  for (int32_t i = 0; i < part_count_; ++i) {
    GgufFile& file = i == 0 ? *this : later_parts_[static_cast<size_t>(i - 1)];
    file.own_begin_ = file.own_bytes_ == 0 ? end : round_up(end, std::max(alignment_, file.alignment_));
    if (file.own_bytes_ > kMaxModelBytes - file.own_begin_)
      return OCELLUS_FAIL(Code::kBadFile, "the tensors of the %d parts take more than 2^62 bytes", part_count_);
    end = file.own_begin_ + file.own_bytes_;
    for (GgufTensor tensor : file.tensors_) {
      int32_t earlier = -1;
      const auto index = static_cast<int32_t>(all.size());
      OCELLUS_TRY(prefix_failure(tensor_table_.insert(tensor.name, index, &earlier), "tensors"));
      if (earlier >= 0) {
        return OCELLUS_FAIL(Code::kBadFile,
                            "tensor name '%.*s' appears twice in the %d parts, in part %d the second time",
                            shown_bytes(tensor.name), tensor.name.data(), part_count_, i + 1);
      }
      tensor.offset += file.own_begin_;
      OCELLUS_TRY(all.push(tensor));
    }
  }
  data_bytes_ = end;
  tensors_ = std::move(all);
  return {};
}

Status GgufFile::read_own_data(int64_t offset, void* out, int64_t count) const {
  if (file_.is_open()) return prefix_failure(file_.read_at(data_offset_ + offset, out, count), path_);
  std::memcpy(out, bytes_ + data_offset_ + offset, static_cast<size_t>(count));
  return {};
}

Status GgufFile::read_data(int64_t offset, void* out, int64_t count) const {
  if (part_count_ == 1) return read_own_data(offset, out, count);
  auto* to = static_cast<uint8_t*>(out);
  for (int32_t i = 0; i < part_count_ && count > 0; ++i) {
    const GgufFile& file = part(i);
    const int64_t end = i + 1 < part_count_ ? part(i + 1).own_begin_ : data_bytes_;
    if (offset >= end) continue;
    const int64_t wanted = std::min(count, end - offset);
    const int64_t read = std::clamp<int64_t>(file.own_begin_ + file.own_bytes_ - offset, 0, wanted);
    if (read > 0) OCELLUS_TRY(file.read_own_data(offset - file.own_begin_, to, read));
    std::memset(to + read, 0, static_cast<size_t>(wanted - read));  // padding
    to += wanted;
    offset += wanted;
    count -= wanted;
  }
  return {};
}

}  // namespace ocellus
