// FileType: which format each matrix of a file has, as llama.cpp's quantiser chooses it (llama-quant.cpp of October
// 2026, without an importance matrix). Published files are mixtures: "Q4_K_M" has some matrices in Q6_K, and those
// whose rows blocks of 256 do not divide in Q5_0 and Q8_0.
#pragma once

#include <cstdint>
#include <string_view>

#include "platform/status.h"
#include "quant/weight_format.h"

namespace ocellus {

/// Rules for the matrices of a type. kPure: one format for all; kUsual: but for the output.
enum class Mixture : uint8_t { kPure, kUsual, kQ2_K, kQ2_K_S, kQ3_K_M, kQ3_K_L, kQ4_K_S, kQ4_K_M, kQ5_K_M, kIQ4 };

struct FileType {
  FileType() = default;
  /// One format for all matrices.
  FileType(WeightFormat format) : main(format) {}
  FileType(WeightFormat format, Mixture rules) : main(format), mixture(rules) {}

  WeightFormat main = WeightFormat::kF16;
  Mixture mixture = Mixture::kPure;
};

/// Finds a type by llama.cpp's name, as "Q4_K_M", ignoring case; "-pure" after a name: one format for all matrices.
/// kBadArgument lists the names.
Status find_file_type(const char* name, FileType* out);

/// Returns the format of a matrix with rows of `cols` weights for which `format` was chosen: `format` itself if its
/// blocks divide the row, else what the quantiser falls back to, else F16.
WeightFormat format_that_fits(WeightFormat format, int64_t cols);

/// Formats of the matrices of one file.
class FileFormats {
 public:
  /// Facts that the choice depends on: layers, those with values of their own, query heads of a key head, whether the
  /// embedding is the output, too.
  struct Model {
    int32_t layers = 0, value_layers = 0, group = 1;
    bool tied = false;
  };
  FileFormats(FileType type, const Model& model) : type_(type), model_(model) {}

  /// Returns the format of the next matrix; layers come in their order.
  WeightFormat next(std::string_view name, int64_t cols);

 private:
  WeightFormat choose(std::string_view name, int64_t cols);
  WeightFormat choose_values(int32_t layer) const;
  WeightFormat choose_down(int32_t layer) const;

  FileType type_;
  Model model_;
  int32_t next_values_ = 0, next_down_ = 0;
};

}  // namespace ocellus
