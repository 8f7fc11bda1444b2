// ShapeTensors: tensors of a generated header, under the names of a real file.
#pragma once

#include <cstdio>
#include <string_view>

#include "quant/gguf_header.h"
#include "runtime/models/file_type.h"

namespace ocellus {

/// Formatted text of at most 95 bytes.
class ShapeText {
 public:
  template <class... Values>
  explicit ShapeText(const char* format, Values... values) {
    std::snprintf(text_, sizeof text_, format, values...);
  }
  operator std::string_view() const { return text_; }
  const char* text() const { return text_; }

 private:
  char text_[96];
};

/// Adds tensors under "{prefix}{part}.weight" and ".bias".
class ShapeTensors {
 public:
  ShapeTensors(GgufHeaderWriter* file, const FileFormats& formats) : file_(file), formats_(formats) {}

  void matrix(std::string_view prefix, const char* part, int64_t rows, int64_t cols, bool biased = false) {
    const ShapeText weight = name(prefix, part, "weight");
    file_->add_tensor(weight, formats_.next(weight, cols), {cols, rows});
    if (biased) file_->add_tensor(name(prefix, part, "bias"), WeightFormat::kF32, {rows});
  }
  void norm(std::string_view prefix, const char* part, int64_t width, bool biased = false) {
    file_->add_tensor(name(prefix, part, "weight"), WeightFormat::kF32, {width});
    if (biased) file_->add_tensor(name(prefix, part, "bias"), WeightFormat::kF32, {width});
  }

 private:
  static ShapeText name(std::string_view prefix, const char* part, const char* suffix) {
    return ShapeText("%.*s%s.%s", static_cast<int>(prefix.size()), prefix.data(), part, suffix);
  }

  GgufHeaderWriter* file_;
  FileFormats formats_;
};

}  // namespace ocellus
