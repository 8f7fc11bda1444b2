// TextKeys: the keys of a text model's architecture in a file.
#pragma once

#include <cstdio>
#include <cstring>
#include <string_view>

#include "quant/gguf.h"
#include "runtime/models/text_model.h"

namespace ocellus {

// Bounds far above any real model and far below an overflow of products.
inline constexpr int64_t kMaxWidth = 1 << 17;
inline constexpr int64_t kMaxLayers = LayerSet::kMostLayers;
inline constexpr int32_t kConvolutionTaps = 3;
inline constexpr int64_t kMaxHeads = 1024;
inline constexpr int64_t kMaxVocabulary = 1 << 22;
inline constexpr int64_t kMaxContext = 1 << 24;

/// Reads "{architecture}.{name}" keys.
class TextKeys {
 public:
  TextKeys(const GgufFile& file, const char* architecture) : file_(file), architecture_(architecture) {}

  const char* key(const char* name) {
    std::snprintf(text_, sizeof text_, "%s.%s", architecture_, name);
    return text_;
  }
  Status require(const char* name, int64_t most, int32_t* out) {
    int64_t value = 0;
    OCELLUS_TRY(file_.require_int(key(name), 1, most, &value));
    *out = static_cast<int32_t>(value);
    return {};
  }
  Status read(const char* name, int64_t most, int32_t* out) {
    int64_t value = *out;
    OCELLUS_TRY(file_.read_int(key(name), 0, most, &value));
    *out = static_cast<int32_t>(value);
    return {};
  }
  /// Layers [first, end) of all.
  struct Layers {
    int32_t first, end, all;
  };
  /// Reads a count that may be one number or one per layer; these layers must agree. `none`: gets the layers for which
  /// it is 0, if that is allowed.
  Status read_count(const char* name, int64_t most, const Layers& layers, int32_t* out, LayerSet* none = nullptr) {
    const GgufEntry* entry = file_.find(key(name));
    if (entry == nullptr || entry->type != GgufType::kArray) return read(name, most, out);
    OCELLUS_TRY(file_.read_array(text_, GgufType::kI32, &entry));
    if (entry->count != static_cast<uint64_t>(layers.all))
      return OCELLUS_FAIL(Code::kBadFile, "%s has %llu values for %d layers", text_,
                          static_cast<unsigned long long>(entry->count), layers.all);
    int32_t found = 0;
    for (int32_t i = layers.first; i < layers.end; ++i) {
      int32_t value = 0;
      std::memcpy(&value, entry->payload + size_t(i) * sizeof value, sizeof value);
      if (value == 0 && none != nullptr) {
        none->add(i);
        continue;
      }
      if (value < 1 || value > most) return OCELLUS_FAIL(Code::kBadFile, "%s holds the value %d", text_, value);
      if (found > 0 && value != found) return OCELLUS_FAIL(Code::kUnsupported, "%s differs between layers", text_);
      found = value;
    }
    if (found > 0) *out = found;
    return {};
  }
  /// Requires an array of 32-bit integers of `least` or more, up to `most`; missing values at its end stay.
  Status require_list(const char* name, uint64_t least, uint64_t most, int32_t* out) {
    const GgufEntry* entry = nullptr;
    OCELLUS_TRY(file_.read_array(key(name), GgufType::kI32, &entry));
    if (entry == nullptr) return OCELLUS_FAIL(Code::kBadFile, "key '%s' is missing", text_);
    if (entry->count < least || entry->count > most)
      return OCELLUS_FAIL(Code::kBadFile, "%s has %llu values, not %llu to %llu", text_,
                          static_cast<unsigned long long>(entry->count), static_cast<unsigned long long>(least),
                          static_cast<unsigned long long>(most));
    std::memcpy(out, entry->payload, entry->count * sizeof *out);
    return {};
  }
  Status read(const char* name, float* out) { return file_.read_float(key(name), out); }
  Status require(const char* name, float* out) { return file_.require_float(key(name), out); }
  Status read(const char* name, std::string_view* out) { return file_.read_string(key(name), out); }

 private:
  const GgufFile& file_;
  const char* architecture_;
  char text_[128];
};

}  // namespace ocellus
