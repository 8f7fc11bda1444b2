#include "runtime/branches/roll/roll.h"

#include <algorithm>
#include <new>

#include "runtime/api/handles.h"
#include "runtime/branches/all.h"
#include "runtime/branches/feature_pairs.h"
#include "runtime/branches/roll/thin_frames.h"
#include "runtime/engine/engine.h"

namespace ocellus {
namespace {

/// Maximum position, far below where positions lose precision: reached at 100 rows a second after four months.
constexpr int64_t kMaxPosition = int64_t{1} << 30;

class OldestFirst final : public Roller {
 public:
  Status lay_out(const EngineShape& shape, RowSink& sink) {
    if (!shape.kv.notes_frames) return {};
    return thinning_.lay_out(shape.kv, shape.pictures.per_session, shape.device, sink);
  }
  bool can_release(const Room& room, const RowNeed& need, const RowNeed& waiting) const override;
  bool begins(const Room& room, const RowNeed& need, const RowNeed& waiting) const override;
  Status release(Room& room, const RowNeed& need) const override;
  void release_for_answer(Room& room, int64_t text_rows) const override;

 private:
  Status thin(Room& room, const RowNeed& need) const;

  ThinMemory thinning_;  // if a method thins images
};

Status resolve_pictures(const Model&, const ocellus_limits&, EngineShape* s) {
  if (!s->policy.thin.on() || s->pictures.per_session > 1) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "%s (evict) thins older images for newer ones: plan at least two",
                      s->policy.thin.method);
}

Status lay_out_pictures(const Model&, const EngineShape& shape, RowSink& sink, EngineMemory* memory) {
  std::unique_ptr<OldestFirst> made(new (std::nothrow) OldestFirst);
  if (made == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for rolling contexts");
  OCELLUS_TRY(made->lay_out(shape, sink));
  memory->branches.roller = std::move(made);
  return {};
}

/// The sinks and an incomplete page are kept.
bool OldestFirst::can_release(const Room& room, const RowNeed& need, const RowNeed& waiting) const {
  const Conversation& conversation = room.conversation();
  const int64_t text = conversation.cache().text_slots() + waiting.text;
  const int64_t sink_text = std::min(text, int64_t{room.sink_pages()} * kPageSlots);
  const int64_t staying = sink_text + (text - sink_text) % kPageSlots;
  return need.text <= room.most_text(waiting) - staying &&
         need.positions <= conversation.engine().text().config.context_length - sink_text;
}

bool OldestFirst::begins(const Room& room, const RowNeed& need, const RowNeed& waiting) const {
  const Conversation& conversation = room.conversation();
  return room.sink_pages() > 0 && conversation.engine().shape().policy.lists_chunks() && need.images > 0 &&
         waiting.images == 0 && conversation.cache().rows() == 0;
}

/// Moves the sinks up to the rows that stayed.
void move_sinks(Room& room) {
  SessionCache& cache = room.conversation().cache();
  cache.move_pages(room.sinks(), cache.oldest_position(room.sinks(), room.conversation().state().next_position));
}

/// Thins the images if the needed ones are too many. What is left cannot be told apart: a prompt that fails takes all
/// of it if some of the images are its own.
Status OldestFirst::thin(Room& room, const RowNeed& need) const {
  Engine& engine = room.conversation().engine();
  const EngineShape& shape = engine.shape();
  SessionCache& cache = room.conversation().cache();
  const int32_t count = cache.image_count();
  if (!shape.policy.thin.on() || count + need.images <= room.images() || !can_thin(cache)) return {};
  const int32_t kept = std::min(shape.policy.thin.kept(room.images()), room.images() - need.images);
  if (kept < 1 || kept >= count) return {};
  int32_t& until = room.conversation().checkpoint().cache.image_count;
  until = until < count ? 0 : kept;
  const Status status = thin_frames(shape.policy.thin, thinning_, kept, shape.pictures.rows / shape.pictures.views,
                                    cache, engine.queue());
  if (!status.ok()) engine.queue().clear();
  return status;
}

/// Releases the oldest rows of the kind that is too much, unless they came after `until`. False if nothing can be
/// released.
bool release_oldest(Room& room, const RowNeed& need, const CacheMark& until) {
  SessionCache& cache = room.conversation().cache();
  CacheMark& kept = room.conversation().checkpoint().cache;
  const bool has_image = until.image_count > 0;
  const bool has_text = until.text_slots / kPageSlots > room.sink_pages();
  const bool many_images = cache.image_count() + need.images > room.images();
  const bool much_text = need.text > room.for_text({});
  if (until.kept_count > 0 && (many_images || !has_text || cache.oldest_is_image(room.sinks()))) {
    kept.image_count = std::max(0, kept.image_count - cache.kept().rows(0).images);
    kept.kept_count = std::max(0, kept.kept_count - 1);
    cache.release_oldest_kept();
    return true;
  }
  if (until.kept_count == 0 && has_image && (many_images || (!much_text && cache.oldest_is_image(room.sinks())))) {
    cache.release_oldest_image();
    kept.image_count = std::max(0, kept.image_count - 1);
    return true;
  }
  if (!has_text) return false;
  cache.release_text_pages(room.sink_pages(), 1);
  const int64_t sink_text = int64_t{room.sink_pages()} * kPageSlots;
  if (kept.text_slots > sink_text) kept.text_slots = std::max(kept.text_slots - kPageSlots, sink_text);
  return true;
}

Status OldestFirst::release(Room& room, const RowNeed& need) const {
  const int64_t position = room.conversation().state().next_position;
  if (position > kMaxPosition)
    return OCELLUS_FAIL(Code::kFull, "the conversation has reached position %lld: reset the session",
                        static_cast<long long>(position));
  OCELLUS_TRY(thin(room, need));
  while (!room.has(need, {}) && release_oldest(room, need, room.conversation().cache().mark())) {
  }
  move_sinks(room);
  return {};
}

void OldestFirst::release_for_answer(Room& room, int64_t text_rows) const {
  const int64_t wanted = std::min(text_rows, room.most_text({}) / 2);
  const RowNeed need{.text = wanted};
  while (wanted > std::min(room.for_text({}), room.for_positions({})) &&
         release_oldest(room, need, room.conversation().checkpoint().cache)) {
  }
  move_sinks(room);
}

}  // namespace

const Branch kRollBranch = {.facts = {.name = "roll", .is_built = 1},
                            .resolve_pictures = resolve_pictures,
                            .lay_out_pictures = lay_out_pictures};

Status set_rolling(Session& session, int32_t images, int32_t sink_tokens) {
  const EngineShape& shape = session.engine().shape();
  const int32_t most_sinks = kMaxSinkPages * kPageSlots;
  if (images < 0 || images > shape.pictures.per_session)
    return OCELLUS_FAIL(Code::kBadArgument, "a rolling context can keep 1 to %d images here, not %d",
                        shape.pictures.per_session, images);
  if (sink_tokens < 0 || sink_tokens > most_sinks)
    return OCELLUS_FAIL(Code::kBadArgument, "a rolling context keeps 0 to %d tokens of its beginning, not %d",
                        most_sinks, sink_tokens);
  if (images > 0) OCELLUS_TRY(check_pairs_with(Feature::kRollingContext, shape));
  if (shape.policy.thin.on() && images == 1)
    return OCELLUS_FAIL(Code::kBadArgument, "%s (evict) thins older images for newer ones: keep at least two",
                        shape.policy.thin.method);
  const auto sink_pages = static_cast<int32_t>(blocks_of(sink_tokens, kPageSlots));
  if (images > 0 && sink_pages + 1 >= shape.session.pages)
    return OCELLUS_FAIL(Code::kBadArgument, "%d text tokens leave no room besides %d of the beginning: plan more",
                        static_cast<int>(shape.session.pages * kPageSlots), sink_tokens);
  session.room().roll(images, images > 0 ? sink_pages : 0);
  return {};
}

}  // namespace ocellus

ocellus_status ocellus_session_set_rolling(ocellus_session* session, int32_t images, int32_t sink_tokens) {
  return ocellus::on_session(session, __func__,
                             [&](ocellus::Session& s) { return set_rolling(s, images, sink_tokens); });
}
