#include "runtime/engine/plan_work.h"

#include <algorithm>
#include <cstdio>

#include "runtime/engine/engine_shape.h"

namespace ocellus {
namespace {

/// A multiplication and an addition for each value of the matrices whose names begin so: their products with one row.
int64_t row_operations(const GgufFile& file, std::string_view prefix) {
  int64_t values = 0;
  for (const GgufTensor& tensor : file.tensors())
    if (tensor.name.starts_with(prefix) && tensor.rows() > 1 && tensor.cols() > 1)
      values += tensor.rows() * tensor.cols();
  return 2 * values;
}

int64_t layer_operations(const GgufFile& file, const char* format, int32_t layer) {
  char prefix[32];
  std::snprintf(prefix, sizeof prefix, format, layer);
  return row_operations(file, prefix);
}

/// Products of queries with keys and of weights with values, for `pairs` of a row and one that it sees.
int64_t attention_operations(int64_t width, int64_t pairs) { return 4 * width * pairs; }

/// Pairs of a row and one that it sees: itself and earlier ones, at most `window` of them.
int64_t causal_pairs(int64_t rows, int64_t window) {
  const int64_t growing = std::min(rows, window);
  return growing * (growing + 1) / 2 + (rows - growing) * window;
}

/// Windows of a tower may be cut off at a picture's edges: their attention is not counted.
int64_t view_operations(const Model& model, const ViewBatch& batch) {
  const VisionConfig& c = model.vision();
  const GgufFile& file = model.vision_file();
  const int64_t rows = batch.rows_per_view();
  int64_t total = row_operations(file, "v.patch_embd.") * batch.grid.count();
  for (int32_t i = 0; i < c.layer_count; ++i) {
    total += layer_operations(file, "v.blk.%d.", i) * rows;
    if (!c.has_windows(i)) total += attention_operations(c.width, rows * rows);
  }
  return total + row_operations(file, "mm.") * batch.tokens_per_view();
}

/// From the last layer with keys and values on, a prompt's last row alone has to be computed.
int64_t prompt_operations(const Model& model, int64_t rows) {
  const TextConfig& c = model.text();
  int64_t total = 0;
  for (int32_t i = 0; i + 1 < c.own_layers(); ++i)
    total += layer_operations(model.text_file(), "blk.%d.", i) * rows +
             attention_operations(c.query_width(i), causal_pairs(rows, c.local.has(i) ? c.local.window : rows));
  return total;
}

}  // namespace

Status plan_work(const Model& model, const ocellus_limits& limits, ocellus_work* out) {
  EngineShape shape;
  OCELLUS_TRY(resolve_shape(model, limits, &shape));
  *out = {};
  if (shape.pictures.planned())
    out->encode_operations = shape.pictures.views * view_operations(model, shape.pictures.batch);
  const int64_t picture_rows = shape.pictures.per_session * shape.pictures.rows;
  out->prompt_operations = prompt_operations(model, picture_rows + limits.max_text_tokens);
  return {};
}

}  // namespace ocellus
