// The branch reuse: what an engine plans and makes for it.
#include <algorithm>
#include <new>

#include "runtime/api/handles.h"
#include "runtime/branches/all.h"
#include "runtime/branches/reuse/reuse.h"
#include "runtime/engine/check_limits.h"
#include "runtime/engine/engine_memory.h"
#include "runtime/models/clip.h"
#include "runtime/models/family.h"

namespace ocellus {
namespace {

/// The links of all sessions.
class Linker final : public PictureLinker {
 public:
  Status make(const EngineShape& shape) {
    blends_ = shape.reuse.blends();
    if (shape.reuse.carries()) carry_ = make_carry();
    if (shape.reuse.staged) staged_ = make_staged_images();
    links_.reset(new (std::nothrow) Reuse[static_cast<size_t>(shape.sessions)]);
    const bool has_steps = (carry_ != nullptr) == shape.reuse.carries() && (staged_ != nullptr) == shape.reuse.staged;
    return links_ != nullptr && has_steps ? Status()
                                          : OCELLUS_FAIL(Code::kIo, "the system has no memory for links to pictures");
  }
  PictureLinks* open(Conversation& conversation, PictureRows& pictures) override {
    Reuse& links = links_[static_cast<size_t>(conversation.slot())];
    links.open(conversation, pictures, blend_, spread_);
    return &links;
  }
  BranchScratch* choice() override { return blends_ ? &blend_ : nullptr; }
  Status lay_out(const Model& model, const EngineShape& shape, RowSink& sink, EngineMemory* memory) override;
  LinkJoin* join() override { return staged_.get(); }
  LinkChange* change() override { return carry_.get(); }

 private:
  bool blends_ = false;
  BlendScratch blend_;   // belongs to the session that reads
  SpreadMemory spread_;  // likewise
  std::unique_ptr<LinkChange> carry_;
  std::unique_ptr<LinkJoin> staged_;
  std::unique_ptr<Reuse[]> links_;  // one per session
};

Status lay_out_shared(const EngineShape& shape, int64_t width, RowSink& sink, LinkedMemory* linked) {
  constexpr Lifetime kLife = Lifetime::kSession;
  const int64_t count = shape.reuse.shared_images, input_rows = shape.reuse.input_rows;
  SharedImageMemory& shared = linked->shared_memory;
  OCELLUS_TRY(
      take_rows(sink, "records of shared images", kLife, Phase::kNone, count, sizeof(SharedImage), &shared.records));
  OCELLUS_TRY(take_rows(sink, "picks of shared images", kLife, Phase::kNone, count, input_rows, &shared.picks));
  return take_activations(sink, "rows of shared images", kLife, Phase::kNone, linked->rows.type, count * input_rows,
                          width, &shared.rows);
}

Status Linker::lay_out(const Model& model, const EngineShape& shape, RowSink& sink, EngineMemory* memory) {
  const TextConfig& text = model.text();
  LinkedMemory& linked = memory->linked;
  OCELLUS_TRY(linked.chunk.lay_out_alone(shape.reuse.alone_rows, memory->chunk, shape.reuse.input_rows, sink));
  if (pick_rule(shape.reuse) == PickRule::kSpread)
    OCELLUS_TRY(spread_.lay_out(shape.reuse.alone_rows, text.width, shape.reuse.in_place, sink));
  OCELLUS_TRY(take_activations(sink, "rows of linked images", Lifetime::kSession, Phase::kNone,
                               shape.pictures.are_stored ? ActivationType::kF16 : ActivationType::kF32,
                               shape.pictures.per_session * shape.reuse.input_rows, text.input_width(), &linked.rows));
  if (shape.reuse.shares()) OCELLUS_TRY(lay_out_shared(shape, text.input_width(), sink, &linked));
  return staged_ != nullptr ? staged_->lay_out_images(shape, sink) : Status();
}

Status check(const ocellus_limits& limits) {
  OCELLUS_TRY(check_range("the number of shared images", limits.shared_images, 0, kMaxImages));
  const bool has_images = limits.max_images > 0 || limits.max_clip_frames > 0;
  if (limits.shared_images > 0 && (limits.reuse == OCELLUS_REUSE_NONE || !has_images))
    return OCELLUS_FAIL(Code::kBadArgument, "sessions share linked images: plan images and reuse, or no shared images");
  OCELLUS_TRY(check_range("the way to reuse images", limits.reuse, OCELLUS_REUSE_NONE, OCELLUS_REUSE_BLEND));
  OCELLUS_TRY(
      check_range("the rows of a linked image that are computed in place", limits.reuse_rows, -1, kMaxTextTokens));
  if (limits.reuse != OCELLUS_REUSE_BLEND) return {};
  return check_range("the percentage of linked images' rows that is computed in place", limits.reuse_rows, -1, 100);
}

/// Refuses links that a model cannot have.
Status check_model(const Model& model, const ocellus_limits& limits, const EngineShape& s) {
  const TextConfig& text = model.text();
  if (limits.max_clip_frames > 0 && clips_of(model.vision()).time_step != nullptr)
    return OCELLUS_FAIL(Code::kUnsupported,
                        "%s has the frames of a clip in one block, each at its time, while pictures are linked one by "
                        "one: plan no reuse (reuse), or no clips (max_clip_frames)",
                        family_of(model.vision())->name);
  if (text.local.convolve() && (pick_rule(s.reuse) != PickRule::kFirst || s.reuse.text_alone()))
    return OCELLUS_FAIL(Code::kUnsupported,
                        "%s models have layers with a convolution over the newest %d rows, so that rows of images are "
                        "computed in place only from the first one on, and seen by all after them: plan MPIC or prefix "
                        "(reuse)",
                        text.architecture->name, text.local.window);
  if (text.local.window > 0 && s.reuse.text_alone())
    return OCELLUS_FAIL(Code::kUnsupported,
                        "%s models have layers in which a token sees the newest %d and no others, so that full reuse "
                        "cannot hide images from all but the last: plan MPIC, spread, carry, CacheBlend or prefix",
                        text.architecture->name, text.local.window);
  if (pick_rule(s.reuse) == PickRule::kFirstOfTiles && s.pictures.preprocess.rules->has_map)
    return OCELLUS_FAIL(
        Code::kUnsupported,
        "the rows of this model's tiles are one map, so that no tile has first rows: plan MPIC or spread");
  return {};
}

/// True if linked pictures are staged: see ReuseShape. A session of a model that has layers with a window keeps no
/// linked rows in them after the prompt; a single session has nothing to gain from that.
bool is_staged(const EngineShape& s, const TextConfig& text) {
  const ReuseShape& r = s.reuse;
  if (s.policy.lists_rows() || s.policy.one_range) return true;
  if (s.policy.packs() && (r.carries() || r.blends())) return true;
  return text.has_windows() && s.sessions > 1 && !r.shares() && !r.in_context();
}

/// Sizes links to pictures, which are planned.
Status resolve_links(const Model& model, const ocellus_limits& limits, EngineShape* s) {
  const PictureShape& pictures = s->pictures;
  ReuseShape* const r = &s->reuse;
  r->method = static_cast<ocellus_reuse>(limits.reuse);
  if (!r->links()) return {};
  OCELLUS_TRY(check_model(model, limits, *s));
  r->shared_images = limits.shared_images;
  r->staged = is_staged(*s, model.text());
  r->alone_rows = pictures.rows + pictures.delimiters + 1;
  if (r->in_context() || r->text_alone()) return {};
  if (r->blends()) {
    r->blend_percent = limits.reuse_rows < 0 ? 100 : limits.reuse_rows;
    r->in_place = blocks_of(pictures.rows * r->blend_percent, 100);
    r->input_rows = pictures.rows;
    return {};
  }
  const int64_t tiles = pick_rule(*r) == PickRule::kFirstOfTiles ? pictures.views : 1;
  r->in_place = limits.reuse_rows < 0 ? pictures.rows : std::min(limits.reuse_rows * tiles, pictures.rows);
  r->input_rows = r->in_place;
  return {};
}

/// Slots of layers with a window in a block of linked pictures. With convolutions these are the states after its views,
/// which pictures have in turn in their blocks.
int32_t linked_local_slots(const KvShape& kv, const PictureShape& pictures) {
  if (!kv.local.convolves) return kv.local.layers > 0 ? kv.block_slots : 0;
  const int64_t views = blocks_of(pictures.views, std::max<int64_t>(kv.blocks_per_image(), 1));
  return static_cast<int32_t>(views * (kv.local.window - 1));
}

/// Sizes the blocks of f16 slots in which the pictures of a prompt are staged.
void size_staged(EngineShape* s) {
  KvShape& kv = s->staged_kv;
  kv = {.layer_count = s->kv.layer_count, .kv_heads = s->kv.kv_heads, .head_dim = s->kv.head_dim};
  kv.local = s->kv.local;
  kv.local.rings = 0;
  kv.block_slots = kv.image_slots = static_cast<int32_t>(s->pictures.rows);
  kv.local_slots = linked_local_slots(kv, s->pictures);
  kv.block_count = s->pictures.per_session;
}

/// Links have the rows of a chunk as 16-bit numbers.
Status size(const TextConfig&, EngineShape* s) {
  const ReuseShape& reuse = s->reuse;
  if (!reuse.links()) return {};
  if (s->prompt_rows > UINT16_MAX)
    return OCELLUS_FAIL(Code::kUnsupported, "images are linked into prompt chunks of at most %d rows, not %lld",
                        UINT16_MAX, static_cast<long long>(s->prompt_rows));
  s->kv.shared_images = reuse.shared_images;
  s->kv.copies_shared = reuse.copies_shared();
  const int64_t images = s->pictures.per_session;
  if (reuse.staged) {
    size_staged(s);
  } else {
    s->session.pages = blocks_of(s->session.text_tokens + images * reuse.in_place, kPageSlots);
    s->session.holes = reuse.blends() ? s->kv.image_slots : 0;
    s->kv.local_slots = linked_local_slots(s->kv, s->pictures);
  }
  const KvShape& from = reuse.staged ? s->staged_kv : s->kv;
  const int64_t slots = from.image_slots;
  const int64_t between = reuse.blends() ? reuse.in_place : std::min(reuse.in_place, slots - reuse.in_place);
  const int64_t runs = images * (s->pictures.views + between);
  s->links = {.images = images,
              .slots = slots,
              .in_place = reuse.in_place,
              .runs = runs,
              .copies = runs + images * (blocks_of(slots, kPackedTileSlots) + from.blocks_per_image()),
              .holes = s->session.holes > 0 ? images * reuse.in_place : 0,
              .text_alone = reuse.text_alone(),
              .staged = reuse.staged,
              .state_slots = from.local.convolves ? from.local_slots : 0};
  return {};
}

Status lay_out(const Model&, const EngineShape& shape, RowSink&, EngineMemory* memory) {
  if (!shape.reuse.links()) return {};
  std::unique_ptr<Linker> made(new (std::nothrow) Linker);
  if (made == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for links to pictures");
  OCELLUS_TRY(made->make(shape));
  memory->branches.linker = std::move(made);
  return {};
}

}  // namespace

PickRule pick_rule(const ReuseShape& reuse) {
  switch (reuse.method) {
    case OCELLUS_REUSE_SPREAD:
    case OCELLUS_REUSE_CARRY: return PickRule::kSpread;
    case OCELLUS_REUSE_TILES: return PickRule::kFirstOfTiles;
    case OCELLUS_REUSE_BLEND: return PickRule::kMostChanged;
    default: return PickRule::kFirst;
  }
}

int64_t input_rows_of(const EngineShape& shape, int64_t views, int64_t rows) {
  const ReuseShape& reuse = shape.reuse;
  return pick_rule(reuse) == PickRule::kFirstOfTiles ? reuse.input_rows * views / shape.pictures.views
                                                     : std::min(reuse.input_rows, rows);
}

Status SpreadMemory::lay_out(int64_t rows, int64_t width, int64_t most_picks, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(picks.lay_out(sink, "spread rows", kLife, Phase::kNone, 1, most_picks));
  OCELLUS_TRY(take_rows(sink, "spread distances", kLife, Phase::kNone, 1, rows, &least));
  return take_rows(sink, "mean image row", kLife, Phase::kNone, 1, width, &mean);
}

const Branch kReuseBranch = {.facts = {.name = "reuse", .is_built = 1},
                             .check = check,
                             .resolve_links = resolve_links,
                             .size = size,
                             .lay_out = lay_out};

}  // namespace ocellus

ocellus_status ocellus_session_set_linking(ocellus_session* session, int32_t links) {
  return ocellus::on_session(session, __func__, [&](ocellus::Session& s) {
    if (ocellus::PictureLinks* const all = s.conversation().links()) all->set_linking(links != 0);
    return ocellus::Status();
  });
}
