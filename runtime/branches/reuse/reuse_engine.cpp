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
    links_.reset(new (std::nothrow) Reuse[static_cast<size_t>(shape.sessions)]);
    return links_ != nullptr ? Status() : OCELLUS_FAIL(Code::kIo, "the system has no memory for links to pictures");
  }
  PictureLinks* open(Conversation& conversation, PictureRows& pictures) override {
    Reuse& links = links_[static_cast<size_t>(conversation.slot())];
    links.open(conversation, pictures, blend_);
    return &links;
  }
  BranchScratch* choice() override { return blends_ ? &blend_ : nullptr; }

 private:
  bool blends_ = false;
  BlendScratch blend_;              // belongs to the session that reads
  std::unique_ptr<Reuse[]> links_;  // one per session
};

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
  if (text.local.window > 0 && s.reuse.text_alone())
    return OCELLUS_FAIL(Code::kUnsupported,
                        "%s models have layers in which a token sees the newest %d and no others, so that full reuse "
                        "cannot hide images from all but the last: plan MPIC, spread, carry, CacheBlend or prefix",
                        text.architecture->name, text.local.window);
  if (s.reuse.picks() == PickRule::kFirstOfTiles && s.pictures.preprocess.rules->has_map)
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
  return text.local.window > 0 && s.sessions > 1 && !r.shares() && !r.in_context();
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
  const int64_t tiles = r->picks() == PickRule::kFirstOfTiles ? pictures.views : 1;
  r->in_place = limits.reuse_rows < 0 ? pictures.rows : std::min(limits.reuse_rows * tiles, pictures.rows);
  r->input_rows = r->in_place;
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

const Branch kReuseBranch = {
    .facts = {.name = "reuse", .is_built = 1}, .check = check, .resolve_links = resolve_links, .lay_out = lay_out};

}  // namespace ocellus

ocellus_status ocellus_session_set_linking(ocellus_session* session, int32_t links) {
  return ocellus::on_session(session, __func__, [&](ocellus::Session& s) {
    if (ocellus::PictureLinks* const all = s.conversation().links()) all->set_linking(links != 0);
    return ocellus::Status();
  });
}
