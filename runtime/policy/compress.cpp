#include "runtime/policy/compress.h"

#include <algorithm>

#include "kernels/cache/expand_kv.h"
#include "kernels/cache/gather_kv.h"
#include "kernels/cache/note_slots.h"
#include "runtime/cache/prompt_chunk.h"
#include "runtime/models/text_layer.h"
#include "runtime/policy/eviction_rule.h"

namespace ocellus {
namespace {

bool is_image(const Piece& piece) { return piece.kind == RowKind::kImage; }

/// Lists the rows of images in the order of their slots, and marks them. Returns their number.
int64_t list_image_rows(const PromptChunk& chunk, const CompressScratch& s) {
  int64_t count = 0, first = 0;
  ImageSlots slots(chunk);
  for (int64_t p = 0; p < chunk.piece_count; ++p) {
    const Piece& piece = chunk.pieces.data[p];
    if (is_image(piece) && slots.begin(piece.image_ordinal)) first = count;
    for (int64_t i = 0; i < piece.row_count; ++i) {
      const int64_t row = piece.first_row + i;
      if (is_image(piece)) {
        s.image_rows.host.data[first + slots.next(row)] = static_cast<int32_t>(row);
        ++count;
      }
      if (s.is_visual.host.data != nullptr) s.is_visual.host.data[row] = is_image(piece) ? 1 : 0;
    }
  }
  return count;
}

/// Number of rows up to the end of the last image; 0 without one.
int64_t end_of_images(const PromptChunk& chunk) {
  int64_t end = 0;
  for (int64_t p = 0; p < chunk.piece_count; ++p) {
    const Piece& piece = chunk.pieces.data[p];
    if (is_image(piece)) end = piece.first_row + piece.row_count;
  }
  return end;
}

/// Number of text rows among the last `rows` rows.
int64_t count_text(const PromptChunk& chunk, int64_t rows) {
  int64_t count = 0;
  for (int64_t p = 0; p < chunk.piece_count; ++p) {
    const Piece& piece = chunk.pieces.data[p];
    const int64_t first = std::max<int64_t>(piece.first_row, chunk.row_count - rows);
    if (!is_image(piece)) count += std::max<int64_t>(0, piece.first_row + piece.row_count - first);
  }
  return count;
}

/// Number of rows kept before the window if all text is: the share, or text that exceeds it.
int64_t budget_beside_text(const PromptChunk& chunk, int64_t window, const CachePolicy& policy) {
  const int64_t text_before_window = chunk.text_count - count_text(chunk, window);
  return std::max(policy.kept_rows(chunk.row_count) - window, text_before_window);
}

/// Calls visit(ordinal, rows before it in the list, its rows) for each image of the chunk.
template <class Visit>
void for_each_image(const PromptChunk& chunk, Visit visit) {
  int64_t first = 0, count = 0;
  int32_t ordinal = -1;
  for (int64_t p = 0; p < chunk.piece_count; ++p) {
    const Piece& piece = chunk.pieces.data[p];
    if (!is_image(piece)) continue;
    if (piece.image_ordinal != ordinal && count > 0) visit(ordinal, first, count);
    if (piece.image_ordinal != ordinal) {
      first += count;
      count = 0;
    }
    ordinal = piece.image_ordinal;
    count += piece.row_count;
  }
  if (count > 0) visit(ordinal, first, count);
}

/// Adds the jobs that fill an image's blocks with `slots` entries of a list from `first` on.
void add_image_jobs(const SessionCache& cache, int32_t ordinal, int64_t first, int64_t slots, int64_t all_rows,
                    const CompressScratch& s, CompressPlan* plan) {
  for (int32_t b = 0; b < cache.blocks_per_image(); ++b) {
    PackJob job;
    job.out = cache.image_block(ordinal, b);
    const int64_t before = int64_t{b} * job.out.capacity;
    job.out.slots = static_cast<int32_t>(std::clamp<int64_t>(slots - before, 0, job.out.capacity));
    job.first_index = static_cast<int32_t>(first + before);
    if (s.policy.one_range) job.range_count = static_cast<int32_t>(all_rows);
    if (job.out.slots > 0) s.jobs.host.data[plan->job_count++] = job;
  }
}

/// Directs survivors to the pages and blocks that the cache has reserved.
void add_survivors(const SessionCache& cache, const CompressScratch& s, CompressPlan* plan) {
  const int32_t eviction = cache.eviction_count();
  plan->text_counts = cache.text_counts(eviction);
  plan->visual_counts = cache.visual_counts(eviction);
  plan->ledger = cache.ledger();
  if (s.policy.evicts())
    plan->stay = static_cast<int32_t>(s.policy.evict->answers(s.policy.options).stay(plan->survivors.slots()));
  for (int32_t p = 0; p < cache.evicted_pages(eviction); ++p)
    s.pages.host.data[plan->page_count++] = cache.evicted_page(eviction, p);
  for (int32_t b = 0; b < cache.evicted_blocks(eviction); ++b) {
    PackJob job;
    job.out = cache.evicted_block(eviction, b);
    job.first_index = job.out.counted_before;
    if (s.policy.one_range) job.range_count = cache.evicted(eviction).visual;
    s.jobs.host.data[plan->job_count++] = job;
    if (plan->ledger.kept()) s.pages.host.data[plan->page_count + plan->noted_blocks++] = job.out;
  }
  if (plan->ledger.kept()) plan->block_counts = cache.block_counts();
}

/// Lists the pages once more, for reading before anything is counted.
void list_whole_pages(const CompressScratch& s, int64_t count, Queue& queue) {
  for (int64_t p = 0; p < count; ++p) {
    s.whole_pages.host.data[p] = s.pages.host.data[p];
    s.whole_pages.host.data[p].counts = nullptr;
  }
  queue.upload(s.whole_pages, count);
}

/// Adds an image that keeps some of its slots, the same number in every head: blocks of f16 are filled like pages.
void add_kept_image(const SessionCache& cache, int32_t ordinal, const CompressScratch& s, CompressPlan* plan) {
  const int64_t slots = plan->survivors.slots();
  if (s.policy.packs()) return add_image_jobs(cache, ordinal, 0, slots, slots, s, plan);
  for (int32_t b = 0; b < cache.blocks_per_image(); ++b) {
    KvRun run = cache.image_block(ordinal, b);
    run.counted_before = b * run.capacity;
    run.slots = static_cast<int32_t>(std::clamp<int64_t>(slots - run.counted_before, 0, run.capacity));
    s.pages.host.data[plan->page_count++] = run;
  }
}

/// Records survivors for eviction during answers.
void note_survivors(const LayerToCompress& a, Queue& queue) {
  const CompressScratch& s = a.scratch;
  NoteSlotsArgs args{.ledger = a.plan.ledger,
                     .runs = s.pages.device.data,
                     .run_count = a.plan.page_count,
                     .rows = {.indices = s.kept_text.data,
                              .index_stride = s.kept_text.cols,
                              .others = s.policy.packs() ? s.kept_visual.data : nullptr,
                              .other_counts = a.plan.visual_counts},
                     .first_position = a.plan.first_position,
                     .stay = a.plan.stay,
                     .first_layer = a.layer.index,
                     .kv_heads = a.config.kv_heads};
  if (args.ledger.sums.data != nullptr) args.scores = s.scores;
  if (args.run_count > 0) note_slots(args, queue);
  if (a.plan.noted_blocks == 0) return;
  args.runs += a.plan.page_count;
  args.run_count = a.plan.noted_blocks;
  args.rows.indices = s.kept_visual.data;
  args.rows.others = s.kept_text.data;
  args.rows.other_counts = a.plan.text_counts;
  args.live_counts = a.plan.block_counts;
  note_slots(args, queue);
}

/// Gathers and packs a layer's survivors.
void store_survivors(const LayerToCompress& a, Queue& queue) {
  const CompressScratch& s = a.scratch;
  const DeviceView<int32_t>& f16_rows = a.plan.one_image ? s.kept_visual : s.kept_text;
  if (a.plan.page_count > 0)
    gather_kv({.rows = a.rows,
               .indices = f16_rows.data,
               .index_stride = f16_rows.cols,
               .runs = s.pages.device.data,
               .run_count = a.plan.page_count,
               .layer = a.layer.index},
              queue);
  if (a.plan.ledger.kept()) note_survivors(a, queue);
  if (a.plan.job_count > 0)
    pack_kv({.rows = a.rows,
             .indices = a.plan.lists_rows ? s.kept_visual.data : s.image_rows.device.data,
             .index_stride = a.plan.lists_rows ? s.kept_visual.cols : 0,
             .jobs = s.jobs.device.data,
             .job_count = a.plan.job_count,
             .layer = a.layer,
             .key_range = s.policy.key_range,
             .value_range = s.policy.value_range,
             .global_values = s.policy.global_values},
            queue);
}

/// Copies the layers' facts to the host, and computes shares. False if the queue has failed.
bool share_slots(const TextConfig& config, const CompressPlan& plan, const CompressScratch& s, Queue& queue) {
  const StagedRows<float>& facts = s.layer_facts;
  const int32_t layers = config.global_layers();
  if (facts.host.data != facts.device.data)
    queue.copy(facts.host.data, facts.device.data, layers * static_cast<int64_t>(sizeof(float)));
  if (!queue.finish().ok()) return false;
  const auto lines = static_cast<float>(config.kv_heads * std::max<int64_t>(plan.observers, 1));
  for (int32_t layer = 0; layer < layers; ++layer) facts.host.data[layer] /= lines;
  share_layers(s.policy.evict->layer_shares(), facts.host.data, layers, static_cast<double>(s.policy.keep),
               s.layer_shares.data);
  return true;
}

/// The plan of one layer, whose share is known.
CompressPlan plan_of_layer(const LayerToCompress& a, int32_t layer) {
  CompressPlan plan = a.plan;
  const CachePolicy& policy = a.scratch.policy;
  plan.survivors = policy.evict->survivors_of_layer(policy, plan.facts, a.scratch.layer_shares.data[layer]);
  return plan;
}

void compress_by_share(const LayerToCompress& a, Queue& queue) {
  LayerToCompress layer = a;
  layer.plan = plan_of_layer(a, a.layer.index);
  a.scratch.policy.evict->observe(layer, queue);  // there are scores of one layer only
  a.scratch.policy.evict->choose(layer, queue);
  store_survivors(layer, queue);
}

}  // namespace

Status CompressScratch::lay_out(const TextConfig& c, const CompressLimits& limits, const DeviceTraits& device,
                                RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  policy = limits.policy;
  least_text = limits.least_text;
  if (!policy.compresses()) return {};
  OCELLUS_TRY(image_rows.lay_out(sink, "rows of images", kLife, kPhase, 1, limits.rows));
  if (policy.packs()) OCELLUS_TRY(jobs.lay_out(sink, "blocks to pack", kLife, kPhase, 1, limits.blocks));
  if (!policy.lists_rows()) return {};
  const RowRule& rows_rule = *policy.row_rule();
  const int64_t window = policy.survivors({.rows = limits.rows, .visual_rows = limits.rows}).window;
  const int64_t most = rows_rule.observed_rows(window, {.rows = limits.rows, .visual_rows = 0});
  OCELLUS_TRY(is_visual.lay_out(sink, "rows by modality", kLife, kPhase, 1, limits.rows));
  OCELLUS_TRY(pages.lay_out(sink, "pages of survivors", kLife, kPhase, 1, limits.pages));
  const auto take_queries = [&](const char* name, int64_t rows, ActivationView* out) {
    return take_activations(sink, name, kLife, kPhase, device.activations(), rows, int64_t{c.query_heads} * c.head_dim,
                            out);
  };
  if (limits.in_blocks && device.is_cuda())
    OCELLUS_TRY(take_queries("observed queries", limits.read_rows, &all_queries));
  if (limits.joins || (limits.in_blocks && !device.is_cuda()))
    OCELLUS_TRY(take_queries(device.is_cuda() ? "joined queries" : "observed queries", most, &last_queries));
  const bool at_once = policy.is_late() && !policy.looks_first();
  const int64_t score_rows = at_once ? int64_t{c.global_layers()} * c.kv_heads : c.kv_heads;
  OCELLUS_TRY(take_rows(sink, "row scores", kLife, kPhase, score_rows, limits.rows, &scores));
  if (policy.is_late()) OCELLUS_TRY(lay_out_late(c, limits, sink));
  OCELLUS_TRY(take_rows(sink, "kept text", kLife, kPhase, c.kv_heads, limits.rows, &kept_text));
  OCELLUS_TRY(take_rows(sink, "kept visual", kLife, kPhase, c.kv_heads, limits.rows, &kept_visual));
  OCELLUS_TRY(take_rows(sink, "kept counts", kLife, kPhase, 2, c.kv_heads, &counts));
  OCELLUS_TRY(take_rows(sink, "ncar", kLife, kPhase, 1, 1, &ncar));
  OCELLUS_TRY(
      take_rows(sink, "scoring", kLife, kPhase, 1, rows_rule.scratch_bytes(c, most, limits.rows, device), &rule));
  OCELLUS_TRY(take_rows(sink, "selection", kLife, kPhase, 1,
                        select_slots_scratch_bytes(limits.rows, c.kv_heads, device), &selection));
  if (!policy.looks_first()) return {};
  return take_rows(sink, "rows of the second pass", kLife, kPhase, limits.read_rows, c.width, &inputs);
}

Status CompressScratch::lay_out_late(const TextConfig& c, const CompressLimits& limits, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  OCELLUS_TRY(layer_facts.lay_out(sink, "facts of layers", kLife, kPhase, 1, c.global_layers()));
  OCELLUS_TRY(take_rows(sink, "shares of layers", kLife, kPhase, 1, c.global_layers(), &layer_shares));
  if (policy.looks_first()) return {};
  return whole_pages.lay_out(sink, "pages of all rows", kLife, kPhase, 1, limits.pages);
}

CompressPlan plan_compression(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache,
                              const CompressScratch& s, Queue& queue) {
  CompressPlan plan;
  plan.facts = {
      .rows = chunk.row_count, .visual_rows = chunk.row_count - chunk.text_count, .image_end = end_of_images(chunk)};
  if (!s.policy.compresses() || (plan.facts.visual_rows == 0 && plan.facts.rows < s.least_text)) return plan;
  plan.active = true;
  plan.first_position = static_cast<int32_t>(first_position);
  plan.lists_rows = s.policy.lists_rows();
  plan.one_image = s.policy.evicts_images();
  plan.looks = s.policy.looks_first();
  plan.is_late = s.policy.is_late() && !plan.looks;
  const int64_t image_rows = list_image_rows(chunk, s);
  if (plan.one_image) {
    plan.survivors = s.policy.survivors({.rows = image_rows, .visual_rows = image_rows});
    const int64_t text_in_window = count_text(chunk, plan.survivors.window);
    plan.image_budget = plan.survivors.budget + text_in_window;
    plan.text_before_window = chunk.text_count - text_in_window;
    for_each_image(chunk, [&](int32_t ordinal, int64_t, int64_t) { add_kept_image(cache, ordinal, s, &plan); });
  } else if (plan.lists_rows) {
    plan.survivors = s.policy.survivors(plan.facts);
    if (s.policy.keeps_text()) plan.survivors.budget = budget_beside_text(chunk, plan.survivors.window, s.policy);
    add_survivors(cache, s, &plan);
  } else {
    for_each_image(chunk, [&](int32_t ordinal, int64_t first, int64_t rows) {
      add_image_jobs(cache, ordinal, first, rows, image_rows, s, &plan);
    });
  }
  if (plan.lists_rows) plan.observed = s.policy.row_rule()->observed_rows(plan.survivors.window, plan.facts);
  plan.observers = plan.observed;
  if (plan.is_late) list_whole_pages(s, plan.page_count, queue);
  if (image_rows > 0) queue.upload(s.image_rows, image_rows);
  if (plan.job_count > 0) queue.upload(s.jobs, plan.job_count);
  if (plan.page_count + plan.noted_blocks > 0) queue.upload(s.pages, plan.page_count + plan.noted_blocks);
  if (plan.lists_rows) queue.upload(s.is_visual, chunk.row_count);
  return plan;
}

void compress_layer(const LayerToCompress& a, Queue& queue) {
  const CompressScratch& s = a.scratch;
  if (!a.plan.active) return;
  if (a.plan.is_late || a.plan.looks) return s.policy.evict->observe(a, queue);
  if (a.plan.shares) return compress_by_share(a, queue);
  if (a.plan.lists_rows) s.policy.row_rule()->choose(a, queue);
  store_survivors(a, queue);
}

void compress_all_layers(const LayerToCompress& last, Queue& queue) {
  const CompressScratch& s = last.scratch;
  const EvictionRule& rule = *s.policy.evict;
  if (!share_slots(last.config, last.plan, s, queue)) return;
  for (int32_t layer = 0; layer < last.config.global_layers(); ++layer) {
    const CompressPlan plan = plan_of_layer(last, layer);
    const LayerToCompress a{
        .config = last.config, .plan = plan, .scratch = s, .rows = last.rows, .layer = KvLayer{.index = layer}};
    expand_kv({.runs = s.whole_pages.device.data,
               .run_count = plan.page_count,
               .layer = KvLayer{.index = layer},
               .rope = a.config.rope,
               .out = a.rows,
               .rows_per_run = kPageSlots,
               .last_run_slots = (plan.facts.rows - 1) % kPageSlots + 1},
              queue);
    rule.choose(a, queue);
    store_survivors(a, queue);
  }
}

bool end_looks(const TextConfig& config, const CompressScratch& scratch, CompressPlan* plan, Queue& queue) {
  plan->looks = false;
  plan->shares = scratch.policy.is_late();
  return plan->shares ? share_slots(config, *plan, scratch, queue) : queue.ok();
}

}  // namespace ocellus
