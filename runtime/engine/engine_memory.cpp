#include "runtime/engine/engine_memory.h"

#include <sched.h>

#include <algorithm>

#include "mm/views/device_preprocess.h"
#include "runtime/engine/check_limits.h"
#include "runtime/engine/picture_source.h"
#include "runtime/models/clip.h"
#include "runtime/policy/eviction_rule.h"

namespace ocellus {
namespace {

constexpr double kMaxCacheBytes = 0x1p48;
/// Bytes of text accepted per planned token: prose has four to five, source code and lists fewer.
constexpr int64_t kTextBytesPerToken = 8;
constexpr int64_t kDefaultPromptRows = 2048;
constexpr int64_t kLeastBlockSlots = 16;
constexpr int64_t kDefaultViewBatch = 8;  // as fast for each view as 16, with half the scratch (tools/bench/NOTES.md)

int available_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::clamp(CPU_COUNT(&cores), 1, ThreadPool::kMaxThreads);
}

/// Resolves the device and its traits. Automatic: the first GPU if there is one, else the CPU.
Status resolve_device(const ocellus_limits& limits, EngineShape* out) {
  out->device = DeviceTraits(limits.thread_count > 0 ? limits.thread_count : available_cores());
  out->device.lean = limits.lean != 0;
  const bool cuda =
      limits.device == OCELLUS_DEVICE_CUDA || (limits.device == OCELLUS_DEVICE_AUTO && cuda_device_count() > 0);
  if (!cuda) return {};
  CudaFacts facts;
  OCELLUS_TRY(read_cuda_facts(limits.device_index, &facts));
  out->device_index = limits.device_index;
  out->device.kind = DeviceKind::kCuda;
  out->device.shares_memory = facts.integrated;
  return {};
}

/// The products of a crafted model's numbers and of large limits can exceed 63 bits. The cache is the largest of them:
/// if it stays in bounds, so does everything else.
Status check_cache(const EngineShape& s) {
  const double slots = static_cast<double>(s.slots_per_session()) * s.sessions;
  const double bytes = slots * static_cast<double>(s.kv.slot_bytes());
  if (bytes <= kMaxCacheBytes && s.kv.page_count <= INT32_MAX) return {};
  return OCELLUS_FAIL(
      Code::kBadArgument,
      "the model and the limits together ask for a cache of %.0f GB: plan fewer sessions, images or text "
      "tokens",
      bytes / 1e9);
}

/// One view at a time on devices that take rows in blocks: more would take memory and save nothing.
int32_t view_batch(const ocellus_limits& limits, const EngineShape& s) {
  if (s.device.in_blocks()) return 1;
  const int64_t all = int64_t{s.images_per_session} * s.views_per_image;
  const int64_t wanted = limits.max_encode_views > 0 ? limits.max_encode_views : kDefaultViewBatch;
  return static_cast<int32_t>(std::min(wanted, all));
}

/// Takes the tensor section of a file as one row of weights.
Status take_weights(const char* name, const GgufFile& file, RowSink& sink, DeviceView<std::byte>* out) {
  RowSpec row;
  row.name = name;
  row.lifetime = Lifetime::kWeights;
  row.dtype = format_info(usual_format(file)).name;
  row.shape[0] = row.bytes = file.data_bytes();
  std::byte* data = nullptr;
  OCELLUS_TRY(sink.take(row, &data));
  *out = {data, 1, row.bytes};
  return {};
}

/// Slots of a block: the policy's number, or `usual`.
int32_t block_slots(const CachePolicy& policy, int64_t image_slots, int64_t usual) {
  const int64_t wanted = policy.packs() && policy.block_slots > 0 ? policy.block_slots : usual;
  return static_cast<int32_t>(std::min(wanted, image_slots));
}

/// If rows compete, a block takes what an image leaves if all leave alike, so that a smaller share to keep takes
/// less memory. Fewer slots than kLeastBlockSlots would spend more on offsets and steps than on codes.
int64_t usual_block_slots(const CachePolicy& policy, int64_t image_slots) {
  if (!policy.packs() || !policy.lists_chunks()) return image_slots;
  return std::max(policy.kept_rows(image_slots), kLeastBlockSlots);
}

/// Sizes pages and blocks if all rows of a prompt compete, for any division of images into prompts: each image may be
/// the only one of its prompt, which leaves an incomplete page and an incomplete block.
void size_evicted(const ChunkFacts& all, int64_t slots_per_image, EngineShape* s) {
  const CachePolicy& policy = s->policy;
  const int64_t images = s->images_per_session;
  const Survivors left = policy.survivors(all);
  const int64_t text = s->text_tokens_per_session;
  const int64_t window = policy.packs() && !policy.pack_window ? images * left.window : 0;
  s->evictions_per_session = images;
  s->kv.image_slots = 0;
  // Surviving text replaces the text that came in; f16 images add to it.
  const int64_t f16_slots = policy.packs() ? text + window : text + policy.most_visual(all);
  s->pages_per_session = blocks_of(f16_slots, kPageSlots) + images;
  if (!policy.packs()) return;
  // At least one slot of every prompt stays, even where that is more than the share to keep.
  const bool packs_text = policy.packs_text();
  const int64_t visual = std::min(policy.most_visual(all) + images, packs_text ? all.rows : all.visual_rows);
  s->kv.block_slots = static_cast<int32_t>(std::min<int64_t>(s->kv.block_slots, visual));
  const int64_t block = s->kv.block_slots;
  s->blocks_per_session = (visual + images * (block - 1)) / block;
  if (!packs_text) s->blocks_per_session = std::min(s->blocks_per_session, images * blocks_of(slots_per_image, block));
}

/// Sizes them if all but the end of a prompt is packed, in whole blocks, text too. Every image may be the only one of
/// its prompt, whose end then stays f16.
void size_packed_oldest(const ChunkFacts& all, EngineShape* s) {
  const int64_t images = s->images_per_session, block = s->policy.block_slots;
  const int64_t f16_images = std::min(images * (s->policy.window + block - 1), all.visual_rows);
  s->evictions_per_session = images;
  s->kv.image_slots = 0;
  s->kv.block_slots = static_cast<int32_t>(block);
  s->pages_per_session = blocks_of(s->text_tokens_per_session + f16_images, kPageSlots) + images;
  s->blocks_per_session = all.rows / block;
}

/// The same where text alone competes. Whatever is dropped still counts as planned text, and every piece that competes
/// may leave a page that is not full: as many pages as these pieces, and the text that does not compete, may take.
void size_evicted_text(EngineShape* s) {
  s->evictions_per_session = s->text_tokens_per_session / kLeastCompetingText;
  s->pages_per_session =
      blocks_of(s->text_tokens_per_session + s->evictions_per_session * (kPageSlots - 1), kPageSlots);
  if (!s->policy.packs_oldest()) return;
  s->kv.block_slots = s->policy.block_slots;
  s->blocks_per_session = s->text_tokens_per_session / s->policy.block_slots;
}

/// Sizes one image with random slots: its survivors, in blocks of its own.
void size_synthetic(EngineShape* s) {
  const CachePolicy& policy = s->policy;
  const int64_t tokens = s->synthetic_tokens;
  KvShape& kv = s->kv;
  kv.image_slots = static_cast<int32_t>(
      policy.lists_rows() ? policy.survivors({.rows = tokens, .visual_rows = tokens}).slots() : tokens);
  kv.block_slots = block_slots(policy, kv.image_slots, kv.image_slots);
  s->blocks_per_session = kv.blocks_per_image();
}

/// Sizes the parts of a session's cache, by the policy.
void size_cache(int64_t slots_per_image, EngineShape* s) {
  const CachePolicy& policy = s->policy;
  KvShape& kv = s->kv;
  kv.format = policy.format;
  if (policy.evicts_answers()) {
    kv.has_ledger = true;
    kv.has_sums = policy.evict->answers().by_attention;
  }
  kv.layer_formats = policy.layer_formats;
  kv.scales = policy.scales;
  kv.image_slots = static_cast<int32_t>(slots_per_image);
  s->pages_per_session = blocks_of(s->text_tokens_per_session + s->images_per_session * s->linked_rows, kPageSlots);
  if (s->synthetic_tokens > 0) return size_synthetic(s);
  if (s->text_competes()) size_evicted_text(s);
  if (s->images_per_session == 0) return;
  const int64_t visual = s->images_per_session * slots_per_image;
  const ChunkFacts all{.rows = s->text_tokens_per_session + visual, .visual_rows = visual};
  if (policy.evicts_images())
    kv.image_slots = static_cast<int32_t>(policy.survivors({slots_per_image, slots_per_image}).slots());
  kv.block_slots = block_slots(policy, kv.image_slots, usual_block_slots(policy, kv.image_slots));
  if (policy.packs_oldest())
    size_packed_oldest(all, s);
  else if (policy.lists_chunks())
    size_evicted(all, slots_per_image, s);
  else
    s->blocks_per_session = s->images_per_session * kv.blocks_per_image();
}

/// Linked images keep the slots of another prompt.
Status check_links(const EngineShape& s) {
  if (!s.links) return {};
  if (s.policy.lists_rows())
    return OCELLUS_FAIL(Code::kBadArgument,
                        "linked images are the same in every prompt: plan them without an eviction method and kivi");
  if (s.carries && s.policy.packs())
    return OCELLUS_FAIL(Code::kBadArgument, "carry changes slots of 16 bits only: plan kv_bits of 16, or spread");
  if (s.blends() && s.policy.packs())
    return OCELLUS_FAIL(Code::kBadArgument, "CacheBlend compares rows with slots of 16 bits only: plan kv_bits of 16");
  if (s.picks == PickRule::kFirstOfTiles && s.preprocess.rules->has_map)
    return OCELLUS_FAIL(
        Code::kUnsupported,
        "the rows of this model's tiles are one map, so that no tile has first rows: plan MPIC or spread");
  if (s.prompt_rows > UINT16_MAX)
    return OCELLUS_FAIL(Code::kUnsupported, "images are linked into prompt chunks of at most %d rows, not %lld",
                        UINT16_MAX, static_cast<long long>(s.prompt_rows));
  return {};
}

/// Sizes an image in a library and on the way there, and the number that the memory tier holds, records included.
Status size_library(int64_t tier_bytes, int64_t width, EngineShape* s) {
  if (!s->has_library) return {};
  // Records are searched linearly: more would take longer than reading a file.
  constexpr int64_t kMaxEntries = 65536;
  s->library_entry_bytes =
      aligned_bytes(s->kv.image_bytes() + s->input_rows * (width * int64_t{sizeof(Half)} + int64_t{sizeof(int32_t)}));
  const int64_t each = s->library_entry_bytes + int64_t{sizeof(CachedEntry)};
  const int64_t padding = tier_bytes > 0 ? kRowAlignment : 0;  // the records are aligned
  s->library_cache_entries = std::min(std::max<int64_t>(tier_bytes - padding, 0) / each, kMaxEntries);
  if (tier_bytes == 0 || s->library_cache_entries > 0) return {};
  return OCELLUS_FAIL(Code::kBadArgument,
                      "the image library's memory tier of %lld bytes does not hold one image, which takes %lld",
                      static_cast<long long>(tier_bytes), static_cast<long long>(each + padding));
}

/// Checks that this build, this model and this device support the policy.
Status check_policy(const EngineShape& s, const TextConfig& text) {
  if (s.policy.packs_oldest() && text.head_dim % kValueGroup != 0)
    return OCELLUS_FAIL(Code::kUnsupported, "kivi packs values in groups of %d channels, and heads have %d",
                        kValueGroup, text.head_dim);
  if (s.policy.packs() && s.device.is_cuda() && (text.head_dim % 32 != 0 || text.head_dim > 256))
    return OCELLUS_FAIL(Code::kUnsupported, "packed caches on a GPU need heads of 32 to 256 values by 32, not %d",
                        text.head_dim);
  const int32_t listed = s.policy.layer_formats.count;
  if (listed > 0 && listed != text.layer_count)
    return OCELLUS_FAIL(Code::kBadArgument, "the model has %d layers, but bits are given for %d", text.layer_count,
                        listed);
  if (s.policy.lists_rows() && text.layer_count > NcarState::kMaxLayers)
    return OCELLUS_FAIL(Code::kUnsupported, "eviction is made for at most %d layers, not %d", NcarState::kMaxLayers,
                        text.layer_count);
  if (s.policy.evicts_images() && s.views_per_image > 1)
    return OCELLUS_FAIL(Code::kUnsupported,
                        "images of several views cannot be reduced one by one: plan one view, or compress at the "
                        "prompt's end");
  return {};
}

}  // namespace

int32_t EngineShape::sink_slots() const {
  if (!policy.evicts_answers()) return 0;
  const AnswerRule rule = policy.evict->answers();
  return rule.moves_sinks ? static_cast<int32_t>(rule.first_slots) : 0;
}

LinkLimits EngineShape::link_limits() const {
  if (!links) return {};
  const int64_t images = images_per_session, between = std::min(linked_rows, kv.image_slots - linked_rows);
  return {.images = images,
          .slots = kv.image_slots,
          .in_place = linked_rows,
          .runs = images * (views_per_image + (blends() ? linked_rows : between)),
          .carries = carries,
          .blends = blends(),
          .text_alone = text_alone};
}

PrefillLimits EngineShape::prefill_limits() const {
  PrefillLimits limits;
  limits.compress = {.rows = prompt_rows,
                     .blocks = blocks_per_session,
                     .pages = std::max(pages_per_session, blocks_per_session),
                     .policy = policy,
                     .least_text = text_competes() ? kLeastCompetingText : INT64_MAX};
  limits.links = link_limits();
  limits.past_tiles = tiles_per_session() + limits.links.runs;
  limits.kv = kv;
  if (!device.is_cuda()) return limits;
  // Copies of packed and shifted runs are listed in tiles of f16; at the ends of a link one more begins.
  const int64_t copied = blocks_per_session * blocks_of(kv.block_slots, kPackedTileSlots) + most_holes();
  const bool expands = policy.packs() || links;
  limits.expanded_tiles = (expands ? copied : 0) + kMaxSinkPages;
  if (expands) limits.past_tiles = pages_per_session + copied * (kPackedTileSlots / kTileSlots + 1) + limits.links.runs;
  return limits;
}

StepLimits EngineShape::step_limits() const {
  return {sessions, tiles_per_session(), slots_per_session(), kv, policy.calibration};
}

namespace {

void size_blend(int32_t percent, int64_t slots_per_image, EngineShape* s) {
  s->blend_percent = percent < 0 ? 100 : percent;
  s->linked_rows = blocks_of(slots_per_image * s->blend_percent, 100);
  s->input_rows = slots_per_image;
}

}  // namespace

Status resolve_shape(const Model& model, const ocellus_limits& limits, EngineShape* out) {
  OCELLUS_TRY(check_limits(model, limits));
  EngineShape s;
  const TextConfig& text = model.text();
  OCELLUS_TRY(resolve_device(limits, &s));
  OCELLUS_TRY(resolve_cache_policy(limits.cache, &s.policy));
  s.sessions = limits.max_sessions;
  s.images_per_session = planned_images(limits);
  s.clip_frames = limits.max_clip_frames;
  s.synthetic_tokens = limits.synthetic_tokens;
  s.text_tokens_per_session = limits.max_text_tokens;
  s.kv = {.layer_count = text.layer_count, .kv_heads = text.kv_heads, .head_dim = text.head_dim};
  int64_t rows_per_image = 0, slots_per_image = 0;
  if (s.images_per_session > 0) {
    s.image_limits = image_limits(limits);
    s.device_image_limits = device_image_limits(limits);
    s.preprocess = preprocess_config(model.vision(), limits);
    const ViewBounds bounds = s.preprocess.rules->bounds(s.preprocess, s.image_limits);
    s.views_per_image = bounds.tiles + 1;
    s.view_batch = view_batch(limits, s);
    slots_per_image = bounds.rows;
    const int64_t delimiters = model.delimiter_tokens(bounds);
    int64_t clip_words = 0;
    if (limits.max_clip_frames > 0) OCELLUS_TRY(count_clip_tokens(model, limits.max_clip_frames, &clip_words));
    s.text_tokens_per_session += s.images_per_session * delimiters + clip_words;
    rows_per_image = slots_per_image + delimiters;
    s.links = limits.reuse != OCELLUS_REUSE_NONE;
    s.in_context = limits.reuse == OCELLUS_REUSE_PREFIX;
    if (limits.reuse == OCELLUS_REUSE_SPREAD || limits.reuse == OCELLUS_REUSE_CARRY) s.picks = PickRule::kSpread;
    if (limits.reuse == OCELLUS_REUSE_TILES) s.picks = PickRule::kFirstOfTiles;
    if (limits.reuse == OCELLUS_REUSE_BLEND) s.picks = PickRule::kMostChanged;
    s.carries = limits.reuse == OCELLUS_REUSE_CARRY;
    s.text_alone = limits.reuse == OCELLUS_REUSE_FULL;
    s.has_library = s.links && limits.library != 0;
  }
  if (s.links) {
    s.image_rows = rows_per_image + 1;  // the start token
    const int64_t tiles = s.picks == PickRule::kFirstOfTiles ? s.views_per_image : 1;
    s.linked_rows = limits.reuse_rows < 0 ? slots_per_image : std::min(limits.reuse_rows * tiles, slots_per_image);
    if (s.text_alone || s.in_context) s.linked_rows = 0;
    s.input_rows = s.linked_rows;
    if (s.blends()) size_blend(limits.reuse_rows, slots_per_image, &s);
  }
  // Only visual slots are packed.
  if (s.images_per_session == 0 && s.synthetic_tokens == 0 && !s.policy.packs_oldest()) s.policy.leave_f16();
  OCELLUS_TRY(check_policy(s, text));
  const int64_t whole_session = s.text_tokens_per_session + s.images_per_session * slots_per_image;
  const int64_t wanted = limits.max_prompt_rows > 0 ? limits.max_prompt_rows : kDefaultPromptRows;
  // An image's rows are read together, so a chunk must hold at least one image.
  s.prompt_rows = std::max({std::min(wanted, whole_session), rows_per_image, s.image_rows});
  OCELLUS_TRY(check_links(s));
  size_cache(slots_per_image, &s);
  OCELLUS_TRY(size_library(limits.library_cache_bytes, text.width, &s));
  s.kv.page_count = s.pages_per_session * s.sessions;
  s.kv.block_count = s.blocks_per_session * s.sessions;
  OCELLUS_TRY(check_cache(s));
  s.text_bytes = s.text_tokens_per_session * kTextBytesPerToken + 1024;
  *out = s;
  return {};
}

Status EngineMemory::lay_out(const Model& model, const EngineShape& shape, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(take_weights("text weights", model.text_file(), sink, &text_weights));
  if (shape.images_per_session > 0)
    OCELLUS_TRY(take_weights("vision weights", model.vision_file(), sink, &vision_weights));
  OCELLUS_TRY(tokenizer.build(model.text_file(), model.vocabulary(), sink));
  OCELLUS_TRY(pools.lay_out(shape.kv, sink));
  OCELLUS_TRY(caches.resize(shape.sessions));
  for (SessionCache& cache : caches) {
    OCELLUS_TRY(cache.lay_out(shape.kv, shape.session_limits(), sink));
    cache.set_sinks(shape.sink_slots());
  }
  OCELLUS_TRY(take_rows(sink, "recent tokens", kLife, Phase::kNone, shape.sessions, kRecentTokens, &recent_tokens));
  OCELLUS_TRY(
      take_rows(sink, "last hidden rows", kLife, Phase::kNone, shape.sessions, model.text().width, &last_hidden));
  OCELLUS_TRY(chunk.lay_out(shape.prompt_rows, model.text().width, shape.link_limits(), sink));
  if (shape.links) OCELLUS_TRY(lay_out_links(model, shape, sink));
  if (shape.images_per_session > 0)
    OCELLUS_TRY(waiting_views.lay_out(model.vision(), shape.view_batch, shape.device, sink));
  if (shape.images_per_session > 0 && shape.device.is_cuda())
    OCELLUS_TRY(take_rows(sink, "picture staging", kLife, Phase::kNone, 1, PictureSource::staging_bytes(shape),
                          &picture_staging));
  if (shape.policy.watches_ncar() && shape.images_per_session > 0)
    OCELLUS_TRY(take_rows(sink, "ncar by session", kLife, Phase::kNone, 1, shape.sessions, &ncar));
  OCELLUS_TRY(take_rows(sink, "token ids", kLife, Phase::kNone, 1, shape.text_tokens_per_session, &token_ids));
  return take_rows(sink, "token times", kLife, Phase::kNone, 1, shape.text_tokens_per_session, &token_times);
}

Status SpreadMemory::lay_out(int64_t rows, int64_t width, int64_t most_picks, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(picks.lay_out(sink, "spread rows", kLife, Phase::kNone, 1, most_picks));
  OCELLUS_TRY(take_rows(sink, "spread distances", kLife, Phase::kNone, 1, rows, &least));
  return take_rows(sink, "mean image row", kLife, Phase::kNone, 1, width, &mean);
}

Status EngineMemory::lay_out_links(const Model& model, const EngineShape& shape, RowSink& sink) {
  OCELLUS_TRY(image_chunk.lay_out_alone(shape.image_rows, chunk, shape.input_rows, sink));
  if (shape.picks == PickRule::kSpread)
    OCELLUS_TRY(spread.lay_out(shape.image_rows, model.text().width, shape.linked_rows, sink));
  OCELLUS_TRY(take_activations(sink, "rows of linked images", Lifetime::kSession, Phase::kNone,
                               shape.has_library ? ActivationType::kF16 : ActivationType::kF32,
                               shape.images_per_session * shape.input_rows, model.text().width, &linked_rows));
  return shape.has_library ? lay_out_library(model, shape, sink) : Status();
}

Status EngineMemory::lay_out_library(const Model& model, const EngineShape& shape, RowSink& sink) {
  const auto take = [&](const char* name, int64_t rows, int64_t bytes, HostView<std::byte>* out) {
    return take_rows(sink, name, Lifetime::kSession, Phase::kNone, rows, bytes, out);
  };
  const auto take_mean = [&](const char* name, HostView<float>* out) {
    return take_rows(sink, name, Lifetime::kSession, Phase::kNone, 1, model.text().width, out);
  };
  const int64_t row_bytes = model.text().width * int64_t{sizeof(float)};
  const int64_t entry = shape.library_entry_bytes, cached = shape.library_cache_entries;
  TrafficMemory& traffic = library_traffic;
  OCELLUS_TRY(
      take("library staging", 1, std::max(shape.kv.block_bytes(), shape.image_rows * row_bytes), &library_staging));
  OCELLUS_TRY(take_mean("library embedding", &library_embedding));
  OCELLUS_TRY(take("library loads", LibraryTraffic::kLoads, entry, &traffic.loads));
  OCELLUS_TRY(take("library store", 1, entry, &traffic.store));
  OCELLUS_TRY(take_mean("library store embedding", &traffic.embedding));
  OCELLUS_TRY(take("pictures ahead", shape.images_per_session, sizeof(EntryFacts), &pictures_ahead));
  if (cached == 0) return {};
  OCELLUS_TRY(take("library cache", cached, entry, &traffic.cache));
  return take("library cache records", cached, sizeof(CachedEntry), &traffic.cache_records);
}

Status TextScratch::lay_out(const EngineShape& shape, RowSink& sink) {
  constexpr Phase kPhase{"text"};
  return take_rows(sink, "tokenizer workspace", Lifetime::kScratch, kPhase, 1,
                   Tokenizer::workspace_bytes(shape.text_bytes), &workspace);
}

Status ImageScratch::lay_out(const Model& model, const EngineShape& shape, HostView<std::byte> staging, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  const Phase phase = shape.picture_phase();
  if (phase == kImagePhase)
    OCELLUS_TRY(vision.lay_out(model.vision(), shape.view_batch, shape.device, sink));
  else
    OCELLUS_TRY(vision.lay_out_pixels(model.vision(), shape.view_batch, shape.device, phase, sink));
  if (!shape.device.is_cuda())
    return picture.lay_out(sink, "picture and views", kLife, phase, 1,
                           image_scratch_bytes(shape.preprocess, shape.image_limits));
  picture = {staging, {staging.data, 1, staging.cols}};
  if (!sink.shares_host_memory())
    OCELLUS_TRY(take_rows(sink, "picture", kLife, phase, 1, PictureSource::upload_bytes(shape), &picture.device));
  return take_rows(sink, "picture and views", kLife, phase, 1,
                   device_picture_scratch_bytes(shape.preprocess, shape.device_image_limits), &view_scratch);
}

Status lay_out_phases(const Model& model, const EngineShape& shape, RowSink& sink) {
  TextScratch text;
  OCELLUS_TRY(text.lay_out(shape, sink));
  if (shape.images_per_session > 0) {
    ImageScratch image;
    const HostView<std::byte> staging(nullptr, 1, shape.device.is_cuda() ? PictureSource::staging_bytes(shape) : 0);
    OCELLUS_TRY(image.lay_out(model, shape, staging, sink));
    if (shape.picture_phase() != kImagePhase)
      OCELLUS_TRY(image.vision.lay_out(model.vision(), shape.view_batch, shape.device, sink));
  }
  PrefillScratch prefill;
  OCELLUS_TRY(prefill.lay_out(model.text(), shape.prefill_limits(), shape.device, sink));
  StepScratch step;
  return step.lay_out(model.text(), shape.step_limits(), shape.device, sink);
}

}  // namespace ocellus
