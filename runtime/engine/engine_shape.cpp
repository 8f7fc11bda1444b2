#include "runtime/engine/engine_shape.h"

#include <sched.h>

#include <algorithm>

#include "kernels/cache/select_slots.h"
#include "platform/round_up.h"
#include "platform/threads.h"
#include "runtime/engine/branch.h"
#include "runtime/engine/check_limits.h"
#include "runtime/forward/decode_step.h"
#include "runtime/models/clip.h"

namespace ocellus {
namespace {

constexpr double kMaxCacheBytes = 0x1p48;
/// Bytes of text accepted per planned token: prose has four to five, source code and lists fewer.
constexpr int64_t kTextBytesPerToken = 8;
constexpr int64_t kDefaultPromptRows = 2048;
constexpr int64_t kLeastBlockSlots = 16;
constexpr int64_t kDefaultViewBatch = 8;  // as fast as 16, half the scratch (tools/bench/notes/cuda_prompts.md)

int available_cores() {
  cpu_set_t cores = {};
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::clamp(CPU_COUNT(&cores), 1, ThreadPool::kMaxThreads);
}

/// Resolves the device and its traits. Automatic: the first GPU if there is one, else the CPU. Of a GPU nothing is
/// asked but whether it shares the host's memory, and that only if the limits do not say it.
Status resolve_device(const ocellus_limits& limits, EngineShape* s) {
  s->device = DeviceTraits(limits.thread_count > 0 ? limits.thread_count : available_cores());
  s->device.lean = limits.lean != 0;
  s->device.cpu_math = limits.cpu_math == OCELLUS_CPU_MATH_BF16 ? CpuMath::kBf16 : CpuMath::kF16;
  const bool cuda =
      limits.device == OCELLUS_DEVICE_CUDA || (limits.device == OCELLUS_DEVICE_AUTO && cuda_device_count() > 0);
  if (!cuda) return {};
  CudaFacts facts = {.integrated = limits.gpu_memory != OCELLUS_GPU_MEMORY_DEVICE};
  if (limits.gpu_memory == OCELLUS_GPU_MEMORY_AUTO) OCELLUS_TRY(read_cuda_facts(limits.device_index, &facts));
  s->device_index = limits.device_index;
  s->device.kind = DeviceKind::kCuda;
  s->device.shares_memory = facts.integrated;
  s->device.maps_weights = limits.gpu_memory == OCELLUS_GPU_MEMORY_MAPPED;
  return {};
}

/// One view at a time on devices that take rows in blocks: more would take memory and save nothing. A view of any size
/// with the most rows, `view_rows`, is as large as one of a single line. Invariant ones do not depend on which others
/// are known.
ViewBatch largest_batch(const VisionConfig& vision, const ocellus_limits& limits, const DeviceTraits& device,
                        const PictureShape& pictures, int64_t view_rows) {
  if (vision.any_size) {
    const Size line = {static_cast<int32_t>(view_rows) * vision.row_side(), vision.row_side()};
    return {vision, 1, line, pictures.clip_frames > 1 ? pictures.clip_group : 1};
  }
  const bool alone = device.in_blocks() || (limits.batch_invariant != 0 && limits.kept_views > 0);
  const int64_t wanted = alone ? 1 : limits.max_encode_views > 0 ? limits.max_encode_views : kDefaultViewBatch;
  return {vision, std::min(wanted, int64_t{pictures.per_session} * pictures.views), vision.view_size()};
}

Status resolve_pictures(const Model& model, const ocellus_limits& limits, const DeviceTraits& device, PictureShape* p) {
  p->per_session = planned_images(model, limits);
  if (!p->planned()) return {};
  p->clip_frames = limits.max_clip_frames;
  p->clip_group = clips_of(model.vision()).group;
  p->limits = image_limits(limits);
  p->device_limits = device_image_limits(limits);
  p->preprocess = preprocess_config(model.vision(), limits);
  const ViewBounds bounds = view_bounds(p->preprocess, p->limits);
  p->views = bounds.tiles + 1;
  p->rows = p->encoded_rows = p->are_stored ? max_row_count(p->preprocess) : bounds.rows;
  p->delimiters = model.delimiter_tokens(bounds);
  p->kept_views = {.count = limits.kept_views, .change = limits.view_change};
  const int64_t area = int64_t{p->preprocess.row_side} * p->preprocess.row_side;
  const int64_t view_rows = bounds.tiles > 0 && area > 0 ? bounds.view_pixels / area : p->encoded_rows;
  p->batch = largest_batch(model.vision(), limits, device, *p, view_rows);
  return {};
}

/// The text around pictures and the frames of one clip is added to what was asked for.
Status resolve_tokens(const Model& model, const ocellus_limits& limits, EngineShape* s) {
  int64_t clip_words = 0;
  if (limits.max_clip_frames > 0) OCELLUS_TRY(count_clip_tokens(model, limits.max_clip_frames, &clip_words));
  s->session.images += s->pictures.per_session;
  s->session.text_tokens = limits.max_text_tokens + s->pictures.per_session * s->pictures.delimiters + clip_words;
  return {};
}

/// Checks that this build, this model and this device support the policy.
Status check_policy(const EngineShape& s, const TextConfig& text) {
  if (s.policy.packs() && s.device.is_cuda() && text.head_dim % 32 != 0)
    return OCELLUS_FAIL(Code::kUnsupported, "packed caches on a GPU need heads of a multiple of 32 values, not %d",
                        text.head_dim);
  const int32_t listed = s.policy.layer_formats.count;
  if (listed > 0 && listed != text.layer_count)
    return OCELLUS_FAIL(Code::kBadArgument, "the model has %d layers, but bits are given for %d", text.layer_count,
                        listed);
  if (s.policy.lists_rows() && text.global_layers() > NcarState::kMaxLayers)
    return OCELLUS_FAIL(Code::kUnsupported, "eviction is made for at most %d layers, not %d", NcarState::kMaxLayers,
                        text.global_layers());
  return {};
}

/// A picture's rows are read together, so a chunk must hold at least one picture. If rows compete, it holds all rows of
/// a session: an eviction method scores a prompt's rows by its last ones, so the first ones wait for these. So do
/// images with one range, and pictures of whose rows some are chosen together.
void size_prompt(const ocellus_limits& limits, EngineShape* s) {
  const PictureShape& p = s->pictures;
  const int64_t encoded = p.encoded_rows;  // they wait before some of them are chosen
  const int64_t whole_session = s->session.text_tokens + p.per_session * encoded;
  const int64_t wanted = limits.max_prompt_rows > 0 ? limits.max_prompt_rows : kDefaultPromptRows;
  s->rows_at_once = std::max({std::min(wanted, whole_session), encoded + p.delimiters, s->reuse.alone_rows});
  s->prompt_rows = s->rows_at_once;
  if (!s->policy.waits_for_prompt() && !p.chosen_together) return;
  // Whole multiples, so that a GPU can pad the last rows.
  const int64_t rows = s->session.text_tokens + p.per_session * (s->reuse.staged ? s->reuse.input_rows : encoded);
  s->prompt_rows = s->device.is_cuda() ? round_up(rows, s->rows_at_once) : std::max(rows, s->rows_at_once);
}

void size_chunk(const ocellus_limits& limits, EngineShape* s) {
  size_prompt(limits, s);
  s->stored_rows = s->prompt_rows;
  if (!s->reuse.staged) return;
  const int64_t text = std::min(s->prompt_rows, round_up(s->session.text_tokens, int64_t{kPageSlots}));
  s->stored_rows = text + s->pictures.per_session * s->pictures.rows;
}

/// If rows compete, a block takes what an image leaves if all leave alike, so that a smaller share to keep takes
/// less memory. Fewer slots than kLeastBlockSlots would spend more on offsets and steps than on codes.
int64_t usual_block_slots(const CachePolicy& policy, int64_t image_slots) {
  if (!policy.packs() || !policy.lists_chunks()) return image_slots;
  return std::max(policy.kept_rows(image_slots), kLeastBlockSlots);
}

/// Sizes the parts of a session's cache, by the policy; branches have sizes of their own.
Status size_session(const TextConfig& text, EngineShape* s) {
  const CachePolicy& policy = s->policy;
  const PictureShape& pictures = s->pictures;
  SessionShape& session = s->session;
  KvShape& kv = s->kv;
  kv.image_slots = static_cast<int32_t>(pictures.rows);
  session.pages = blocks_of(session.text_tokens, kPageSlots);
  if (s->text_competes()) {
    // Whatever is dropped still counts as planned text, and every piece that competes may leave a page that is not
    // full: as many pages as these pieces, and the text that does not compete, may take.
    session.kept_prompts = session.text_tokens / kLeastCompetingText;
    session.pages = blocks_of(session.text_tokens + session.kept_prompts * (kPageSlots - 1), kPageSlots);
  }
  if (pictures.planned()) {
    if (policy.cuts_images())
      kv.image_slots = static_cast<int32_t>(policy.survivors({pictures.rows, pictures.rows}).slots());
    kv.block_slots = policy.slots_of_block(kv.image_slots, usual_block_slots(policy, kv.image_slots));
    session.blocks = pictures.per_session * kv.blocks_per_image();
  }
  for (const Branch* branch : all_branches())
    if (branch->size != nullptr) OCELLUS_TRY(branch->size(text, s));
  return {};
}

/// Sizes the slots of layers with a window or a convolution.
void size_rings(const TextConfig& text, EngineShape* s) {
  const bool links = s->reuse.links() && !s->reuse.staged;
  const int64_t rows =
      std::max(s->stored_rows, s->answer_rows) + (links ? s->pictures.per_session * s->pictures.rows : 0);
  const bool convolves = text.local.convolve();
  s->kv.local = {.layers = text.local_layers(),
                 .window = text.local.window,
                 .kv_heads = convolves ? 1 : text.kv_heads,
                 .head_dim = convolves ? text.width : text.local.head_dim,
                 .slots = LocalShape::slots_for(text.local.window, rows),
                 .rings = s->sessions,
                 .convolves = convolves};
}

/// Layers with a window pack nothing, and those that share another's keys and values have none.
KvFormatList formats_of_global_layers(const KvFormatList& all, const TextConfig& text) {
  KvFormatList global;
  for (int32_t layer = 0; layer < all.count; ++layer)
    if (!text.local.has(layer) && !text.shares(layer)) global.formats[global.count++] = all.formats[layer];
  return global;
}

/// Sizes the cache of all sessions. The products of a crafted model's numbers and of large limits can exceed 63 bits.
/// The cache is the largest of them: if it stays in bounds, so does everything else.
Status size_cache(const TextConfig& text, EngineShape* s) {
  const CachePolicy& policy = s->policy;
  KvShape& kv = s->kv;
  kv = {.layer_count = text.global_layers(), .kv_heads = text.kv_heads, .head_dim = text.head_dim};
  kv.format = policy.format;
  kv.layer_formats = formats_of_global_layers(policy.layer_formats, text);
  if (text.local.window > 0) size_rings(text, s);
  kv.scales = policy.scales;
  kv.has_ledger = policy.facts.answers.drops_slots;
  kv.notes_frames = policy.thin.on() && s->pictures.planned();
  kv.has_sums = kv.has_ledger && policy.facts.answers.by_attention;
  OCELLUS_TRY(size_session(text, s));
  kv.page_count = s->session.pages * s->sessions;
  kv.block_count = kv.shared_images * kv.blocks_per_image() + (kv.owns_images() ? s->session.blocks * s->sessions : 0);
  const int64_t visual = kv.block_count * kv.block_slots + s->staged_kv.block_count * s->staged_kv.block_slots;
  const int64_t local = kv.block_count * kv.local_slots + s->staged_kv.block_count * s->staged_kv.local_slots;
  const double slots = static_cast<double>(s->session.pages * kPageSlots) * s->sessions + static_cast<double>(visual);
  const double bytes = slots * static_cast<double>(kv.slot_bytes()) +
                       static_cast<double>(local) * static_cast<double>(kv.local.slot_bytes()) +
                       static_cast<double>(kv.local.ring_bytes() + kKeptStates * kv.local.state_bytes()) *
                           static_cast<double>(kv.local.rings);
  if (bytes <= kMaxCacheBytes && kv.page_count <= INT32_MAX) return {};
  return OCELLUS_FAIL(
      Code::kBadArgument,
      "the model and the limits together ask for a cache of %.0f GB: plan fewer sessions, images or text "
      "tokens",
      bytes / 1e9);
}

/// Sizes a decode step, and what branches add.
Status size_steps(const ocellus_limits& limits, EngineShape* s) {
  s->step_rows = most_step_rows(s->sessions, s->device);
  s->top_logprobs = limits.max_top_logprobs;
  for (const Branch* branch : all_branches())
    if (branch->resolve != nullptr) OCELLUS_TRY(branch->resolve(limits, s));
  return limits.batch_invariant != 0 ? make_batch_invariant(" (batch_invariant)", s) : Status();
}

}  // namespace

int64_t SessionShape::text_bytes() const { return text_tokens * kTextBytesPerToken + 1024; }

int64_t EngineShape::tiles_per_session() const {
  const int64_t sinks = policy.facts.answers.drops_slots ? 1 : 0;  // a tile of their own
  const TileLimits most = TileLimits::of_steps(device, kv.scales);
  return kv.tiles_of(session.pages, session.blocks, most) + sinks + links.holes +
         again_tiles(most.of(is_packed(kv.format)));
}

/// Each time a picture is read again a part of its slots is, from the first on: a tile of them may be short, in a block
/// that tiles do not divide one more.
int64_t EngineShape::again_tiles(int64_t tile_slots) const {
  if (!pictures.weighs_rows) return 0;
  const int64_t short_tiles = kv.block_slots % tile_slots == 0 ? 1 : divide_up(pictures.rows, kv.block_slots);
  return pictures.per_session * (divide_up(pictures.again_slots(), tile_slots) + (kMostRowWeight - 1) * short_tiles);
}

Status make_batch_invariant(const char* reason, EngineShape* shape) {
  shape->device.batch_invariant = true;
  if (shape->sessions <= DeviceTraits::kInvariantRows) return {};
  return OCELLUS_FAIL(Code::kBadArgument,
                      "the answers of at most %d sessions can be independent of each other%s: plan fewer than %d",
                      static_cast<int>(DeviceTraits::kInvariantRows), reason, shape->sessions);
}

Status resolve_shape(const Model& model, const ocellus_limits& limits, EngineShape* out) {
  OCELLUS_TRY(check_limits(model, limits));
  EngineShape s;
  s.limits = limits;
  s.sessions = limits.max_sessions;
  OCELLUS_TRY(resolve_device(limits, &s));
  OCELLUS_TRY(resolve_cache_policy(limits.cache, &s.policy));
  OCELLUS_TRY(size_steps(limits, &s));
  OCELLUS_TRY(resolve_pictures(model, limits, s.device, &s.pictures));
  OCELLUS_TRY(resolve_tokens(model, limits, &s));
  for (const Branch* branch : all_branches())
    if (s.pictures.planned() && branch->resolve_links != nullptr) OCELLUS_TRY(branch->resolve_links(model, limits, &s));
  OCELLUS_TRY(check_pairs(s));
  // Only visual slots are packed.
  if (s.session.images == 0 && !s.policy.packs_oldest()) s.policy.leave_f16();
  OCELLUS_TRY(check_policy(s, model.text()));
  for (const Branch* branch : all_branches())
    if (s.pictures.planned() && branch->resolve_pictures != nullptr)
      OCELLUS_TRY(branch->resolve_pictures(model, limits, &s));
  size_chunk(limits, &s);
  OCELLUS_TRY(size_cache(model.text(), &s));
  *out = s;
  return {};
}

}  // namespace ocellus
