#include "mm/tower/tower_attention.h"

#include "kernels/attention/attend_rows.h"
#include "mm/tower/tower_notes.h"

namespace ocellus {
namespace {

/// Keys and values of all rows of a view, laid out by head.
KvLayerRows stored_heads(const PassMemory& pass) {
  const VisionConfig& c = pass.config();
  const VisionScratch& s = pass.scratch();
  return KvLayerRows::head_major(s.keys.data, s.values.data, c.heads, c.head_dim(), pass.batch().rows_per_view());
}

/// f16 rows where they are.
KvLayerRows half_rows(const PassMemory& pass, const ActivationView& key, const ActivationView& value) {
  const int32_t length = pass.config().head_dim();
  const int64_t each = pass.batch().rows_per_view();
  return {key.half_row(0), value.half_row(0), pass.config().heads, length, each, key.stride, length, each * key.stride};
}

void attend_to(const PassMemory& pass, const LayerSight& sight, const HeadRows& heads, const KvLayerRows& rows) {
  attend_rows(
      {.query = heads.query,
       .query_heads = pass.config().heads,
       .rows = rows,
       .first_row = sight.in_windows ? heads.first : 0,
       .row_count = pass.batch().rows_per_view(),
       .bounds = sight.in_windows ? RowBounds::listed(pass.scratch().seen.data + heads.first) : RowBounds::all(),
       .sequences = pass.batch().views,
       .output = pass.normed(heads.query.rows),
       .scratch = pass.op_scratch()},
      pass.queue());
  note_attention(pass, sight.layer, heads.first, heads.query, rows);
}

}  // namespace

HeadRows head_rows(const PassMemory& pass, int64_t first, int64_t count, bool queries, bool keys) {
  const int64_t width = pass.config().width;
  const ActivationView all = pass.wide(count, ((queries ? 1 : 0) + (keys ? 2 : 0)) * width);
  int64_t at = 0;
  const auto take = [&] {
    const ActivationView rows = pass.plans() ? all : all.slice_cols(at, width);
    at += width;
    return rows;
  };
  HeadRows heads{.pass = pass, .first = first};
  if (queries) heads.query = take();
  if (!keys) return heads;
  heads.key = take();
  heads.value = take();
  return heads;
}

HiddenRows mixed_rows(const PassMemory& pass, int64_t first, int64_t count) {
  return {pass, first, count, pass.normed(count), pass.wide(count, pass.config().width)};
}

/// Attention reads f16 keys and values where they are; f32 ones are rounded and laid out by head.
void attend_views(const PassMemory& pass, const LayerSight& sight) {
  const HeadRows heads = head_rows(pass, 0, pass.rows(), true, true);
  if (heads.key.type == ActivationType::kF16)
    return attend_to(pass, sight, heads, half_rows(pass, heads.key, heads.value));
  store_heads(pass, heads);
  attend_to(pass, sight, heads, stored_heads(pass));
}

void store_heads(const PassMemory& pass, const HeadRows& heads) {
  if (pass.plans()) return;
  round_kv({.keys = heads.key, .values = heads.value, .first = heads.first, .out = stored_heads(pass)}, pass.queue());
}

void attend_stored(const PassMemory& pass, const LayerSight& sight, const HeadRows& heads) {
  if (!pass.plans()) attend_to(pass, sight, heads, stored_heads(pass));
}

}  // namespace ocellus
