#include "runtime/policy/compress.h"

#include <algorithm>

#include "kernels/cache/gather_kv.h"
#include "runtime/cache/prompt_chunk.h"
#include "runtime/models/text_layer.h"
#include "runtime/policy/row_rule.h"

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
  const KeptSlots& kept = cache.kept();
  const int32_t prompt = kept.count();
  plan->text_counts = kept.text_counts(prompt);
  plan->visual_counts = kept.visual_counts(prompt);
  plan->ledger = cache.ledger();
  for (int32_t p = 0; p < kept.pages(prompt); ++p) s.pages.host.data[plan->page_count++] = kept.page(prompt, p);
  for (int32_t b = 0; b < kept.blocks(prompt); ++b) {
    PackJob job;
    job.out = kept.block(prompt, b);
    job.first_index = job.out.counted_before;
    if (s.policy.one_range) job.range_count = kept.rows(prompt).visual;
    s.jobs.host.data[plan->job_count++] = job;
    if (plan->ledger.kept()) s.pages.host.data[plan->page_count + plan->noted_blocks++] = job.out;
  }
  if (plan->ledger.kept()) plan->block_counts = kept.block_counts();
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
  const RowRule& rows_rule = *policy.rule;
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
  const bool at_once = policy.facts.is_late && !policy.looks_first();
  const int64_t score_rows = at_once ? int64_t{c.global_layers()} * c.kv_heads : c.kv_heads;
  OCELLUS_TRY(take_rows(sink, "row scores", kLife, kPhase, score_rows, limits.rows, &scores));
  if (policy.facts.is_late) OCELLUS_TRY(rows_rule.lay_out_late(c, limits, this, sink));
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

CompressPlan plan_compression(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache,
                              const CompressScratch& s, Queue& queue) {
  CompressPlan plan;
  plan.facts = {
      .rows = chunk.row_count, .visual_rows = chunk.row_count - chunk.text_count, .image_end = end_of_images(chunk)};
  if (!s.policy.compresses() || (plan.facts.visual_rows == 0 && plan.facts.rows < s.least_text)) return plan;
  plan.active = true;
  plan.first_position = static_cast<int32_t>(first_position);
  plan.lists_rows = s.policy.lists_rows();
  plan.one_image = s.policy.cuts_images();
  plan.looks = s.policy.looks_first();
  plan.is_late = s.policy.facts.is_late && !plan.looks;
  const int64_t image_rows = list_image_rows(chunk, s);
  if (plan.one_image) {
    plan.survivors = s.policy.survivors({.rows = image_rows, .visual_rows = image_rows});
    const int64_t text_in_window = count_text(chunk, plan.survivors.window);
    plan.image_budget = plan.survivors.budget + text_in_window;
    plan.text_before_window = chunk.text_count - text_in_window;
    for_each_image(chunk, [&](int32_t ordinal, int64_t, int64_t) { add_kept_image(cache, ordinal, s, &plan); });
  } else if (plan.lists_rows) {
    plan.survivors = s.policy.survivors(plan.facts);
    if (s.policy.facts.keeps_text) plan.survivors.budget = budget_beside_text(chunk, plan.survivors.window, s.policy);
    add_survivors(cache, s, &plan);
  } else {
    for_each_image(chunk, [&](int32_t ordinal, int64_t first, int64_t rows) {
      add_image_jobs(cache, ordinal, first, rows, image_rows, s, &plan);
    });
  }
  if (plan.lists_rows) plan.observed = s.policy.rule->observed_rows(plan.survivors.window, plan.facts);
  plan.observers = plan.observed;
  if (image_rows > 0) queue.upload(s.image_rows, image_rows);
  if (plan.job_count > 0) queue.upload(s.jobs, plan.job_count);
  if (plan.page_count + plan.noted_blocks > 0) queue.upload(s.pages, plan.page_count + plan.noted_blocks);
  if (plan.lists_rows) queue.upload(s.is_visual, chunk.row_count);
  return plan;
}

void store_rows(const LayerToCompress& a, Queue& queue) {
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

SelectSlotsArgs selection(const LayerToCompress& a, SelectStage stage) {
  const CachePolicy& policy = a.scratch.policy;
  const CompressPlan& plan = a.plan;
  SelectSlotsArgs args;
  args.scores = a.scores();
  args.rows.count = plan.facts.rows;
  args.rows.is_visual = a.scratch.is_visual.device.data;
  args.rows.visual_count = plan.facts.visual_rows;
  args.window = plan.survivors.window;
  args.ncar.layer = a.layer.index;
  args.ncar.state = a.scratch.ncar.data;
  args.kept.text = a.scratch.kept_text;
  args.kept.visual = a.scratch.kept_visual;
  args.scratch = a.scratch.selection;
  const int64_t counts_at = int64_t{a.layer.index} * a.config.kv_heads;
  args.kept.text_counts = plan.text_counts + counts_at;
  args.kept.visual_counts = plan.visual_counts + counts_at;
  args.stage = stage;
  args.budget = plan.survivors.budget;
  args.kept.is_split = policy.packs();
  args.kept.pack_window = policy.pack_window;
  args.kept.pack_text = policy.packs_text();
  args.kept.first_text = policy.first_f16_rows();
  if (policy.packs_oldest()) args.kept.last_text = policy.f16_tail(plan.survivors.slots());
  return args;
}

void RowRule::compress(const LayerToCompress& a, Queue& queue) const {
  if (a.plan.looks) return observe(a, queue);
  choose(a, queue);
  store_rows(a, queue);
  if (a.plan.ledger.kept()) note_stored(a, queue);
}

void compress_layer(const LayerToCompress& a, Queue& queue) {
  if (!a.plan.active) return;
  if (a.plan.lists_rows) return a.scratch.policy.rule->compress(a, queue);
  store_rows(a, queue);
}

}  // namespace ocellus
