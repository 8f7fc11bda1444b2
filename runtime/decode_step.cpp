#include "runtime/decode_step.h"

#include "kernels/attend_one.h"
#include "kernels/gather_rows.h"
#include "kernels/matmul.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/store_kv.h"

namespace ocellus {

Status DecodeScratch::lay_out(const TextConfig& c, int64_t sessions, int64_t runs_per_session,
                              int64_t slots_per_session, int thread_count, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = Phase::kDecode;
  OCELLUS_TRY(take_rows(sink, "tokens", kLife, kPhase, 1, sessions, &tokens));
  OCELLUS_TRY(take_rows(sink, "positions", kLife, kPhase, 1, sessions, &positions));
  OCELLUS_TRY(take_rows(sink, "run index", kLife, kPhase, 1, sessions + 1, &run_begin));
  OCELLUS_TRY(take_rows(sink, "runs", kLife, kPhase, sessions, runs_per_session, &runs));
  OCELLUS_TRY(take_rows(sink, "new runs", kLife, kPhase, 1, sessions, &new_runs));
  OCELLUS_TRY(take_rows(sink, "new slots", kLife, kPhase, 1, sessions, &new_slots));
  OCELLUS_TRY(take_rows(sink, "hidden", kLife, kPhase, sessions, c.width, &hidden));
  OCELLUS_TRY(take_rows(sink, "angles", kLife, kPhase, sessions, c.rope.rotated, &angles));
  OCELLUS_TRY(layer.lay_out(c, sessions, thread_count, kPhase, sink));
  OCELLUS_TRY(take_rows(sink, "logits", kLife, kPhase, sessions, c.vocabulary, &logits));
  return take_rows(sink, "attention", kLife, kPhase, 1,
                   attend_one_scratch_bytes(sessions, slots_per_session, c.query_heads, c.head_dim), &attend_scratch);
}

void enqueue_logits(const TextModel& m, DeviceView<float> hidden, DeviceView<float> logits,
                    DeviceView<std::byte> matmul_scratch, Queue& q) {
  rmsnorm({.input = hidden, .weight = m.final_norm, .epsilon = m.config.epsilon, .output = hidden}, q);
  matmul({.input = hidden, .weights = {m.unembedding}, .outputs = {logits}, .scratch = matmul_scratch}, q);
}

Status enqueue_decode_step(const TextModel& m, int64_t count, const DecodeScratch& s, const StopSignal* stop,
                           Queue& q) {
  const TextConfig& c = m.config;
  const DeviceView<float> hidden = s.hidden.slice_rows(0, count);
  const DeviceView<float> angles = s.angles.slice_rows(0, count);
  const LayerRows rows = s.layer.view(c, count);

  gather_rows({.ids = s.tokens.data, .count = count, .table = m.embedding, .output = hidden}, q);
  rope_angles({.positions = s.positions.data, .count = count, .params = c.rope, .angles = angles}, q);
  for (int32_t layer = 0; layer < c.layer_count; ++layer) {
    if (q.stopped(stop)) return q.status();
    const TextLayer& w = m.layers[layer];
    project_qkv(c, w, hidden, angles, rows, q);
    append_kv({.keys = rows.key,
               .values = rows.value,
               .head_dim = c.head_dim,
               .runs = s.new_runs.data,
               .slots = s.new_slots.data,
               .layer = layer},
              q);
    attend_one({.query = rows.query,
                .query_heads = c.query_heads,
                .kv_heads = c.kv_heads,
                .head_dim = c.head_dim,
                .runs = s.runs.data,
                .run_begin = s.run_begin.data,
                .layer = layer,
                .output = rows.mixed,
                .scratch = s.attend_scratch},
               q);
    add_attention_output(w, rows, hidden, q);
    add_mlp(c, w, rows, hidden, q);
  }
  enqueue_logits(m, hidden, s.logits.slice_rows(0, count), s.layer.matmul_scratch, q);
  return q.status();
}

}  // namespace ocellus
