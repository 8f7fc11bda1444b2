// Look-ups and typed access to a parsed GGUF file.

#include <cfloat>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "quant/gguf.h"
#include "quant/gguf_names.h"

namespace ocellus {
namespace {

template <class T>
T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

Status fail_missing(std::string_view key) {
  return OCELLUS_FAIL(Code::kBadFile, "metadata key '%.*s' is missing", shown_bytes(key), key.data());
}

Status fail_type(const GgufEntry& entry, const char* wanted) {
  const bool array = entry.type == GgufType::kArray;
  return OCELLUS_FAIL(Code::kBadFile, "metadata key '%.*s' has type %s%s, but %s is expected", shown_bytes(entry.key),
                      entry.key.data(), array ? "array of " : "",
                      gguf_type_name(array ? entry.element_type : entry.type), wanted);
}

// Loads a value of any integer type. A value beyond 63 bits becomes INT64_MAX with *fits = false.
bool load_int(const GgufEntry& entry, int64_t* out, bool* fits) {
  *fits = true;
  switch (entry.type) {
    case GgufType::kU8: *out = load<uint8_t>(entry.payload); return true;
    case GgufType::kI8: *out = load<int8_t>(entry.payload); return true;
    case GgufType::kU16: *out = load<uint16_t>(entry.payload); return true;
    case GgufType::kI16: *out = load<int16_t>(entry.payload); return true;
    case GgufType::kU32: *out = load<uint32_t>(entry.payload); return true;
    case GgufType::kI32: *out = load<int32_t>(entry.payload); return true;
    case GgufType::kI64: *out = load<int64_t>(entry.payload); return true;
    case GgufType::kU64: {
      const uint64_t value = load<uint64_t>(entry.payload);
      *fits = value <= uint64_t{INT64_MAX};
      *out = *fits ? static_cast<int64_t>(value) : INT64_MAX;
      return true;
    }
    default: return false;
  }
}

}  // namespace

const char* gguf_type_name(GgufType type) {
  switch (type) {
    case GgufType::kU8: return "u8";
    case GgufType::kI8: return "i8";
    case GgufType::kU16: return "u16";
    case GgufType::kI16: return "i16";
    case GgufType::kU32: return "u32";
    case GgufType::kI32: return "i32";
    case GgufType::kF32: return "f32";
    case GgufType::kBool: return "bool";
    case GgufType::kString: return "string";
    case GgufType::kArray: return "array";
    case GgufType::kU64: return "u64";
    case GgufType::kI64: return "i64";
    case GgufType::kF64: return "f64";
  }
  return "unknown";
}

std::string_view GgufStrings::next() {
  if (left_ == 0) return {};
  --left_;
  const uint64_t length = load<uint64_t>(at_);
  const std::string_view text(reinterpret_cast<const char*>(at_ + sizeof length), static_cast<size_t>(length));
  at_ += sizeof length + length;
  return text;
}

const GgufEntry* GgufFile::find(std::string_view key) const {
  const int32_t index = entry_table_.find(key);
  return index < 0 ? nullptr : &entries_[index];
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const int32_t index = tensor_table_.find(name);
  return index < 0 ? nullptr : &tensors_[index];
}

Status GgufFile::require_int(std::string_view key, int64_t least, int64_t most, int64_t* out) const {
  return find(key) == nullptr ? fail_missing(key) : read_int(key, least, most, out);
}

Status GgufFile::read_int(std::string_view key, int64_t least, int64_t most, int64_t* out) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return {};
  int64_t value = 0;
  bool fits = false;
  if (!load_int(*entry, &value, &fits)) return fail_type(*entry, "an integer");
  if (fits && value >= least && value <= most) {
    *out = value;
    return {};
  }
  if (!fits) {
    return OCELLUS_FAIL(Code::kBadFile,
                        "metadata key '%.*s' is %" PRIu64 ", but %" PRId64 " to %" PRId64 " are possible",
                        shown_bytes(key), key.data(), load<uint64_t>(entry->payload), least, most);
  }
  return OCELLUS_FAIL(Code::kBadFile, "metadata key '%.*s' is %" PRId64 ", but %" PRId64 " to %" PRId64 " are possible",
                      shown_bytes(key), key.data(), value, least, most);
}

Status GgufFile::require_float(std::string_view key, float* out) const {
  return find(key) == nullptr ? fail_missing(key) : read_float(key, out);
}

Status GgufFile::read_float(std::string_view key, float* out) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return {};
  if (entry->type != GgufType::kF32 && entry->type != GgufType::kF64)
    return fail_type(*entry, "a floating-point number");
  const double value = entry->type == GgufType::kF32 ? load<float>(entry->payload) : load<double>(entry->payload);
  if (!(std::fabs(value) <= FLT_MAX)) {
    return OCELLUS_FAIL(Code::kBadFile, "metadata key '%.*s' is %g, but a finite float is expected", shown_bytes(key),
                        key.data(), value);
  }
  *out = static_cast<float>(value);
  return {};
}

Status GgufFile::read_bool(std::string_view key, bool* out) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return {};
  if (entry->type != GgufType::kBool) return fail_type(*entry, "bool");
  *out = entry->payload[0] != 0;
  return {};
}

Status GgufFile::require_string(std::string_view key, std::string_view* out) const {
  return find(key) == nullptr ? fail_missing(key) : read_string(key, out);
}

Status GgufFile::read_string(std::string_view key, std::string_view* out) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return {};
  if (entry->type != GgufType::kString) return fail_type(*entry, "string");
  *out = {reinterpret_cast<const char*>(entry->payload), static_cast<size_t>(entry->payload_bytes)};
  return {};
}

Status GgufFile::read_array(std::string_view key, GgufType type, const GgufEntry** out) const {
  *out = nullptr;
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return {};
  const auto same_width = [](GgufType a, GgufType b) {
    return a == b || (a == GgufType::kI32 && b == GgufType::kU32) || (a == GgufType::kU32 && b == GgufType::kI32);
  };
  if (entry->type != GgufType::kArray || !same_width(entry->element_type, type)) {
    char wanted[32];
    std::snprintf(wanted, sizeof wanted, "array of %s", gguf_type_name(type));
    return fail_type(*entry, wanted);
  }
  *out = entry;
  return {};
}

Status GgufFile::require_floats(std::string_view key, int64_t count, float* out) const {
  const GgufEntry* entry = nullptr;
  OCELLUS_TRY(read_array(key, GgufType::kF32, &entry));
  if (entry == nullptr) return fail_missing(key);
  if (count < 0 || entry->count != static_cast<uint64_t>(count)) {
    return OCELLUS_FAIL(Code::kBadFile, "metadata key '%.*s' holds %" PRIu64 " numbers, but %" PRId64 " are expected",
                        shown_bytes(key), key.data(), entry->count, count);
  }
  for (int64_t i = 0; i < count; ++i) {
    out[i] = load<float>(entry->payload + i * int64_t{sizeof(float)});
    if (!std::isfinite(out[i])) {
      return OCELLUS_FAIL(Code::kBadFile,
                          "number %" PRId64 " of metadata key '%.*s' is %g, but a finite float is expected", i,
                          shown_bytes(key), key.data(), static_cast<double>(out[i]));
    }
  }
  return {};
}

}  // namespace ocellus
