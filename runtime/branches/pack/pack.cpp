// The branch pack: KIVI. All but the end of what a prompt keeps is packed, in whole blocks, text too; and during an
// answer the oldest text in pages, a block at a time, as newer text exceeds the window.
#include <algorithm>
#include <new>
#include <numeric>

#include "kernels/cache/expand_kv.h"
#include "runtime/branches/all.h"
#include "runtime/engine/engine_memory.h"
#include "runtime/policy/packing_scheme.h"
#include "runtime/policy/row_rule.h"

namespace ocellus {
namespace {

/// Rows whose keys share an offset and a step.
constexpr int32_t kKiviGroup = 32;

/// Keeps all rows: those before the window in whole blocks.
class KiviRule final : public RowRule {
 public:
  explicit constexpr KiviRule(const ocellus_method& method) : RowRule(method) {}
  void choose(const LayerToCompress& a, Queue& queue) const override {
    select_slots(selection(a, SelectStage::kUnified), queue);
  }
};

constexpr KiviRule kKiviRule(kKiviMethod);

class OldestText final : public TextPacker {
 public:
  explicit OldestText(const CachePolicy& policy) : policy_(policy) {}

  Status lay_out_steps(const KvShape& kv, RowSink& sink) override;
  bool is_due(const SessionCache& cache, int32_t more) const override {
    return cache.has_text_to_pack(policy_.residual - more);
  }
  Status pack(const TextModel& model, SessionCache& cache, Queue& queue) override;

 private:
  void pack_layers(const TextModel& model, const KvShape& kv, Queue& queue);

  CachePolicy policy_;
  StagedRows<KvRun> pages_;         // [1, pages that fill a block]
  StagedRows<int32_t> rows_;        // [1, slots of a block] 0, 1, 2, ...
  StagedRows<PackJob> job_;         // [1, 1]
  DeviceView<Half> keys_, values_;  // one layer's [G * slots of a block, E]
};

Status OldestText::lay_out_steps(const KvShape& kv, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kDecodePhase;
  const int64_t slots = kv.block_slots;
  OCELLUS_TRY(pages_.lay_out(sink, "pages to pack", kLife, kPhase, 1, slots / kPageSlots));
  OCELLUS_TRY(rows_.lay_out(sink, "rows to pack", kLife, kPhase, 1, slots));
  OCELLUS_TRY(job_.lay_out(sink, "block to pack", kLife, kPhase, 1, 1));
  OCELLUS_TRY(take_rows(sink, "keys to pack", kLife, kPhase, kv.kv_heads * slots, kv.head_dim, &keys_));
  return take_rows(sink, "values to pack", kLife, kPhase, kv.kv_heads * slots, kv.head_dim, &values_);
}

/// Packs all layers of the pages that are listed, one after the other.
void OldestText::pack_layers(const TextModel& model, const KvShape& kv, Queue& queue) {
  const KvLayerRows rows = KvLayerRows::head_major(keys_.data, values_.data, kv.kv_heads, kv.head_dim, rows_.host.cols);
  for (int32_t layer = 0; layer < kv.layer_count; ++layer) {
    expand_kv({.runs = pages_.device.data,
               .run_count = static_cast<int32_t>(pages_.host.cols),
               .layer = kv.layer(layer),
               .rope = model.config.rope,
               .out = rows,
               .rows_per_run = kPageSlots,
               .last_run_slots = kPageSlots},
              queue);
    pack_kv({.rows = rows,
             .indices = rows_.device.data,
             .jobs = job_.device.data,
             .job_count = 1,
             .layer = kv.layer(layer),
             .key_range = policy_.key_range,
             .value_range = policy_.value_range},
            queue);
  }
}

Status OldestText::pack(const TextModel& model, SessionCache& cache, Queue& queue) {
  std::iota(rows_.host.data, rows_.host.data + rows_.host.cols, 0);
  queue.upload(rows_, rows_.host.cols);
  while (is_due(cache, 0)) {
    PackJob& job = *job_.host.data;
    job = PackJob();
    OCELLUS_TRY(cache.reserve_text_block(&job.out));
    int32_t slot = 0;
    for (int64_t page = 0; page < pages_.host.cols; ++page)
      pages_.host.data[page] = cache.text_place(page * kPageSlots, &slot);
    queue.upload(pages_, pages_.host.cols);
    queue.upload(job_, 1);
    pack_layers(model, cache.shape(), queue);
    OCELLUS_TRY(queue.finish());  // the lists are read until then
    cache.commit_text_block();
  }
  return {};
}

/// Sizes the parts of a session's cache. Every image may be the only one of its prompt, whose end then stays f16.
void size_images(EngineShape* s) {
  const CachePolicy& policy = s->policy;
  SessionShape& session = s->session;
  const int64_t images = s->pictures.per_session, block = policy.block_slots, visual = images * s->pictures.rows;
  const int64_t f16_images = std::min(images * (policy.residual + block - 1), visual);
  session.kept_prompts = images;
  s->kv.image_slots = 0;
  session.pages = blocks_of(session.text_tokens + f16_images, kPageSlots) + images;
  // Text of prompts without images and of answers is packed without being evicted.
  const int64_t of_images = policy.most_visual({.rows = visual, .visual_rows = visual}, images);
  session.blocks = std::min(of_images + images + session.text_tokens, session.text_tokens + visual) / block;
}

Status size(const TextConfig& text, EngineShape* s) {
  if (!s->policy.packs_oldest()) return {};
  if (text.head_dim % kValueGroup != 0)
    return OCELLUS_FAIL(Code::kUnsupported, "kivi packs values in groups of %d channels, and heads have %d",
                        kValueGroup, text.head_dim);
  if (s->pictures.planned()) size_images(s);
  if (s->text_competes()) s->session.blocks = s->session.text_tokens / s->policy.block_slots;
  if (s->pictures.planned() || s->text_competes()) s->kv.block_slots = s->policy.block_slots;
  s->session.text_blocks = s->session.text_tokens / s->kv.block_slots;
  return {};
}

Status lay_out(const Model&, const EngineShape& shape, RowSink&, EngineMemory* memory) {
  if (!shape.policy.packs_oldest()) return {};
  memory->branches.packer.reset(new (std::nothrow) OldestText(shape.policy));
  if (memory->branches.packer != nullptr) return {};
  return OCELLUS_FAIL(Code::kIo, "the system has no memory for packing text");
}

}  // namespace

const Branch kPackBranch = {.facts = {.name = "pack", .is_built = 1}, .size = size, .lay_out = lay_out};

void apply_kivi(const MethodValues& options, CachePolicy* out) {
  out->scales = KvScaleForm::kByToken;
  out->block_slots = kKiviGroup;
  out->residual = static_cast<int32_t>(options.number("residual"));
  out->pack_text = true;
  if (out->rule == nullptr) out->rule = &kKiviRule;
}

}  // namespace ocellus
