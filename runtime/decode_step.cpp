#include "runtime/decode_step.h"

#include <algorithm>

#include "kernels/attend_one.h"
#include "kernels/elementwise.h"
#include "kernels/gather_rows.h"
#include "kernels/matmul.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/store_kv.h"

namespace ocellus {

template <>
struct TypeName<KvRun> {
  static constexpr const char* value = "run";
};

Status DecodeScratch::lay_out(const TextConfig& c, int64_t sessions, int64_t runs_per_session, int64_t slots,
                              int thread_count, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = Phase::kDecode;
  const int64_t widest_input = std::max({int64_t{c.width}, c.query_width(), int64_t{c.mlp_width}});
  OCELLUS_TRY(take_rows(sink, "decode tokens", kLife, kPhase, 1, sessions, &tokens));
  OCELLUS_TRY(take_rows(sink, "decode positions", kLife, kPhase, 1, sessions, &positions));
  OCELLUS_TRY(take_rows(sink, "decode run index", kLife, kPhase, 1, sessions + 1, &run_begin));
  OCELLUS_TRY(take_rows(sink, "decode runs", kLife, kPhase, sessions, runs_per_session, &runs));
  OCELLUS_TRY(take_rows(sink, "decode new runs", kLife, kPhase, 1, sessions, &new_runs));
  OCELLUS_TRY(take_rows(sink, "decode new slots", kLife, kPhase, 1, sessions, &new_slots));
  OCELLUS_TRY(take_rows(sink, "decode hidden", kLife, kPhase, sessions, c.width, &hidden));
  OCELLUS_TRY(take_rows(sink, "decode normed or mixed", kLife, kPhase, sessions,
                        std::max<int64_t>(c.width, c.query_width()), &normed_or_mixed));
  OCELLUS_TRY(take_rows(sink, "decode angles", kLife, kPhase, sessions, c.rope.rotated, &angles));
  OCELLUS_TRY(take_rows(sink, "decode qkv", kLife, kPhase, sessions, c.query_width() + 2 * c.kv_width(), &qkv));
  OCELLUS_TRY(take_rows(sink, "decode gate and up", kLife, kPhase, sessions, 2 * int64_t{c.mlp_width}, &gate_up));
  OCELLUS_TRY(take_rows(sink, "decode logits", kLife, kPhase, sessions, c.vocabulary, &logits));
  OCELLUS_TRY(take_rows(sink, "decode matmul", kLife, kPhase, 1,
                        matmul_scratch_bytes(sessions, widest_input, thread_count), &matmul_scratch));
  return take_rows(sink, "decode attention", kLife, kPhase, 1,
                   attend_one_scratch_bytes(sessions, runs_per_session, slots, c.query_heads, c.head_dim),
                   &attend_scratch);
}

void enqueue_logits(const TextModel& m, DeviceView<float> hidden, DeviceView<float> logits,
                    DeviceView<std::byte> matmul_scratch, Queue& q) {
  rmsnorm({.input = hidden, .weight = m.final_norm, .epsilon = m.config.epsilon, .output = hidden}, q);
  matmul({.input = hidden, .weights = {m.unembedding}, .outputs = {logits}, .scratch = matmul_scratch}, q);
}

Status enqueue_decode_step(const TextModel& m, int64_t count, const DecodeScratch& s, const StopSignal* stop, Queue& q) {
  const TextConfig& c = m.config;
  const DeviceView<float> hidden = s.hidden.slice_rows(0, count);
  const DeviceView<float> normed(s.normed_or_mixed.data, count, c.width);
  const DeviceView<float> mixed(s.normed_or_mixed.data, count, c.query_width());
  const DeviceView<float> angles = s.angles.slice_rows(0, count);
  const DeviceView<float> qkv = s.qkv.slice_rows(0, count);
  const DeviceView<float> query = qkv.slice_cols(0, c.query_width());
  const DeviceView<float> key = qkv.slice_cols(c.query_width(), c.kv_width());
  const DeviceView<float> value = qkv.slice_cols(c.query_width() + c.kv_width(), c.kv_width());
  const DeviceView<float> gate_up = s.gate_up.slice_rows(0, count);
  const DeviceView<float> gate = gate_up.slice_cols(0, c.mlp_width);
  const DeviceView<float> up = gate_up.slice_cols(c.mlp_width, c.mlp_width);

  gather_rows({.ids = s.tokens.data, .count = count, .table = m.embedding, .output = hidden}, q);
  rope_angles({.positions = s.positions.data, .count = count, .params = c.rope, .angles = angles}, q);
  for (int32_t layer = 0; layer < c.layer_count; ++layer) {
    if (q.stopped(stop)) return q.status();
    const TextLayer& w = m.layers[layer];
    rmsnorm({.input = hidden, .weight = w.attention_norm, .epsilon = c.epsilon, .output = normed}, q);
    matmul({.input = normed,
            .count = 3,
            .weights = {w.query.weight, w.key.weight, w.value.weight},
            .biases = {w.query.bias, w.key.bias, w.value.bias},
            .outputs = {query, key, value},
            .scratch = s.matmul_scratch},
           q);
    rotate({.values = query, .head_dim = c.head_dim, .params = c.rope, .angles = angles}, q);
    rotate({.values = key, .head_dim = c.head_dim, .params = c.rope, .angles = angles}, q);
    append_kv({.keys = key, .values = value, .head_dim = c.head_dim, .runs = s.new_runs.data,
               .slots = s.new_slots.data, .layer = layer}, q);
    attend_one({.query = query,
                .query_heads = c.query_heads,
                .kv_heads = c.kv_heads,
                .head_dim = c.head_dim,
                .runs = s.runs.data,
                .run_begin = s.run_begin.data,
                .layer = layer,
                .output = mixed,
                .scratch = s.attend_scratch},
               q);
    matmul({.input = mixed,
            .weights = {w.attention_output.weight},
            .biases = {w.attention_output.bias},
            .outputs = {hidden},
            .accumulate = true,
            .scratch = s.matmul_scratch},
           q);
    rmsnorm({.input = hidden, .weight = w.mlp_norm, .epsilon = c.epsilon, .output = normed}, q);
    matmul({.input = normed,
            .count = 2,
            .weights = {w.mlp_gate.weight, w.mlp_up.weight},
            .biases = {w.mlp_gate.bias, w.mlp_up.bias},
            .outputs = {gate, up},
            .scratch = s.matmul_scratch},
           q);
    gated_silu({.gate = gate, .up = up}, q);
    matmul({.input = gate,
            .weights = {w.mlp_down.weight},
            .biases = {w.mlp_down.bias},
            .outputs = {hidden},
            .accumulate = true,
            .scratch = s.matmul_scratch},
           q);
  }
  enqueue_logits(m, hidden, s.logits.slice_rows(0, count), s.matmul_scratch, q);
  return q.status();
}

}  // namespace ocellus
