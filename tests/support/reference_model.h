// A transformer as the papers write it, in double precision, over the same files the runtime reads: the language
// models (llama, internlm2, qwen2, qwen3, qwen3vl, gemma3), the SigLIP tower with the Idefics3 projector, the CLIP
// tower with LLaVA-1.5's. Loops only; written to be read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "quant/gguf.h"

namespace ocellus::test {

struct Matrix {
  Matrix() = default;
  Matrix(int64_t row_count, int64_t col_count)
      : rows(row_count), cols(col_count), values(static_cast<size_t>(row_count * col_count)) {}
  double* row(int64_t i) { return values.data() + i * cols; }
  const double* row(int64_t i) const { return values.data() + i * cols; }

  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<double> values;
};

/// |got - expected| / |expected|, Euclidean.
double relative_error(const float* got, const double* expected, int64_t count);

/// Intended roundings of the runtime. With both, a correct runtime differs from the reference by float arithmetic only
/// (and its consequences if a value lies so close to the middle of two codes that it rounds differently).
struct Rounding {
  bool inputs = true;  // inputs of matrices in block formats, to int8 by groups of 32
  bool kv = true;      // keys and values, to half precision
};

/// Rows [first, end).
struct RowsSeen {
  int64_t first = 0, end = 0;
};

/// Metadata and decoded weights of a file, and the operations on them by tensor name.
class ReferenceWeights {
 public:
  ReferenceWeights(const GgufFile& file, Rounding rounding) : file_(file), rounding_(rounding) {}

  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }
  double number(const std::string& key, double otherwise) const;
  std::string text(const std::string& key) const;
  /// An array of integers; empty if the key is missing.
  std::vector<int32_t> integers(const std::string& key) const;

  /// A tensor [rows, cols] decoded; a convolution kernel as one row per output channel.
  const Matrix& tensor(const std::string& name) const;
  /// y = W x + b of "<name>.weight" and, if there is one, "<name>.bias".
  Matrix linear(const Matrix& x, const std::string& name) const;
  /// Normalises rows, or every piece of a row that is as long as the weight.
  Matrix rms_norm(const Matrix& x, const std::string& name, double epsilon) const;
  Matrix layer_norm(const Matrix& x, const std::string& name, double epsilon) const;
  /// Softmax attention; head h reads key/value head h / (heads / kv_heads). `seen`: by row; empty: each sees all.
  /// `counts`: how often each row counts; empty: once. `of_last`: takes the attention of the last row, as a mean over
  /// the heads.
  Matrix attend(const Matrix& query, Matrix key, Matrix value, int64_t heads, int64_t kv_heads,
                const std::vector<RowsSeen>& seen = {}, const std::vector<int32_t>& counts = {},
                std::vector<double>* of_last = nullptr) const;

 private:
  const GgufFile& file_;
  Rounding rounding_;
  mutable std::map<std::string, Matrix> decoded_;
};

/// Keys, before their rotation, and values by layer; and the attention of the last row, as a mean over the heads.
struct KeysAndValues {
  std::vector<Matrix> keys, values;
  std::vector<std::vector<double>> last_attention;
};
/// Layers [first, end) of those that there are.
struct LayerRange {
  int64_t first = 0, end = INT64_MAX;
};
/// Rows whose keys and values, in every layer, are those of rows that were read elsewhere: row `to` has those of row
/// `from`. `carried`: rows whose mean change since then, of keys before their rotation, is added to all of these.
struct LinkedRows {
  struct Pair {
    int64_t to, from;
  };
  KeysAndValues source = {};
  std::vector<Pair> rows = {};
  std::vector<Pair> carried = {};
  /// If rows of a view see each other: by row, the end of its view, or of the row itself.
  std::vector<int64_t> ends = {};
  std::vector<int32_t> counts = {};  // see ReferenceWeights::attend
};

class ReferenceText {
 public:
  explicit ReferenceText(const GgufFile& file, Rounding rounding = {});
  Matrix embed(const std::vector<int32_t>& ids) const;
  /// Rows at positions 0, 1, 2, ... through all layers; or at these positions, of one number each or three.
  Matrix read(Matrix rows, const std::vector<int64_t>& positions = {}) const { return read(rows, positions, {}); }
  Matrix read(Matrix rows, const std::vector<int64_t>& positions, const LinkedRows& linked,
              KeysAndValues* taken = nullptr, LayerRange range = {}) const;
  /// One row of logits per row.
  Matrix logits(const Matrix& rows) const;

 private:
  std::vector<RowsSeen> seen_by(int64_t rows, int64_t layer, const std::vector<int64_t>& ends) const;
  bool is_local(int64_t layer) const { return window_ > 0 && (layer + 1) % window_period_ != 0; }
  void rotate(Matrix& x, const std::vector<int64_t>& positions, int64_t layer) const;
  Matrix mix(const Matrix& x, const std::vector<int64_t>& positions, int64_t layer, const LinkedRows& linked,
             KeysAndValues* taken) const;

  ReferenceWeights weights_;
  bool adjacent_pairs_ = false, is_gemma_ = false;
  int64_t window_ = 0, window_period_ = 1;  // gemma3
  double local_base_ = 0;
  int64_t layers_, width_, heads_, kv_heads_, head_dim_, rotated_;
  double epsilon_, base_, position_scale_;
  std::vector<int64_t> coordinates_;  // of pairs: 0 time, 1 line, 2 column
};

class ReferenceVision {
 public:
  explicit ReferenceVision(const GgufFile& file, Rounding rounding = {});
  /// Normalised planes [3 * side, side] of one view to rows of the language model.
  Matrix encode(const float* pixels) const;
  /// What a layer tells of the rows that rows `x`, which enter it, become: by row the attention that it receives, from
  /// the class row or else from all, and its key; means over heads and joined patches.
  Matrix notes(const Matrix& x, int64_t layer) const;

 private:
  Matrix embed_patches(const float* pixels) const;
  Matrix add_class_row(const Matrix& patches) const;
  Matrix run_layers(Matrix x) const;
  Matrix head_rows(const Matrix& normed, const std::string& name) const;
  Matrix norm(const Matrix& x, const std::string& name) const;
  Matrix drop_class_row(const Matrix& x) const;
  Matrix shuffle(const Matrix& x) const;
  Matrix project(const Matrix& joined) const;
  void add_branch(Matrix& x, Matrix branch, const std::string& scale) const;
  double activate(double x) const;

  ReferenceWeights weights_;
  int64_t side_, patch_, grid_, layers_, heads_, scale_;
  double epsilon_;
};

}  // namespace ocellus::test
