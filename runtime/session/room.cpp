#include "runtime/session/room.h"

#include <algorithm>

#include "runtime/engine/engine.h"
#include "runtime/engine/feature_pairs.h"
#include "runtime/policy/thin_frames.h"

namespace ocellus {
namespace {

/// Maximum position, far below where positions lose precision: reached at 100 rows a second after four months.
constexpr int64_t kMaxPosition = int64_t{1} << 30;

}  // namespace

Status Room::set_rolling(int32_t images, int32_t sink_tokens) {
  const EngineShape& shape = conversation_.engine().shape();
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
                        infinipot_rule().method().name);
  const auto sink_pages = static_cast<int32_t>(blocks_of(sink_tokens, kPageSlots));
  if (images > 0 && sink_pages + 1 >= shape.session.pages)
    return OCELLUS_FAIL(Code::kBadArgument, "%d text tokens leave no room besides %d of the beginning: plan more",
                        static_cast<int>(shape.session.pages * kPageSlots), sink_tokens);
  images_ = images;
  sink_pages_ = images > 0 ? sink_pages : 0;
  return {};
}

/// Returns the maximum of text tokens in the session. If rows compete, pages are also planned for survivors of images,
/// and evicted text still counts, so that the planned images fit whatever comes before them. The same holds for rows of
/// linked images still to come.
int64_t Room::most_text(const RowNeed& waiting) const {
  const EngineShape& shape = conversation_.engine().shape();
  if (shape.policy.lists_chunks()) return shape.session.text_tokens;
  const int32_t images = conversation_.cache().image_count() + waiting.images;
  return shape.session.pages * kPageSlots - (shape.pictures.per_session - images) * shape.reuse.rows_in_text();
}

/// Returns the range of positions that the model must distinguish: from the oldest row after the sinks to the next one,
/// and the sinks'.
int64_t Room::live_span() const {
  const SessionCache& cache = conversation_.cache();
  const int64_t next = conversation_.state().next_position;
  if (cache.has_sinks()) return cache.live_slots();    // read at consecutive positions
  if (cache.mark().text_block_count > 0) return next;  // it has no record of positions
  return next - cache.oldest_position(sinks(), next) + cache.span_of_pages(sinks());
}

int64_t Room::for_text(const RowNeed& waiting) const {
  return most_text(waiting) - conversation_.cache().text_rows() - waiting.text;
}

int64_t Room::for_positions(const RowNeed& waiting) const {
  return conversation_.engine().text().config.context_length - live_span() - waiting.positions;
}

Status Room::check(const RowNeed& need, const RowNeed& waiting) const {
  const int64_t left = for_text(waiting);
  if (need.text > left)
    return OCELLUS_FAIL(
        Code::kFull, "%lld more text tokens do not fit: the session has room for %lld of %lld; plan more text tokens",
        static_cast<long long>(need.text), static_cast<long long>(left), static_cast<long long>(most_text(waiting)));
  const int64_t position = conversation_.state().next_position + waiting.positions + need.positions;
  if (need.positions > for_positions(waiting))
    return OCELLUS_FAIL(
        Code::kFull,
        "the conversation would reach position %lld, but the model has %d: reset the session or "
        "use fewer images and less text%s",
        static_cast<long long>(position), conversation_.engine().text().config.context_length,
        conversation_.engine().shape().pictures.views > 1 ? ", or plan fewer tiles per picture (max_tiles)" : "");
  return {};
}

/// The last of the tokens is not read yet.
Status Room::check_to_score(int64_t count, const RowNeed& waiting) const {
  const int64_t rows = count - 1 + (conversation_.state().unread_token != kNoToken ? 1 : 0);
  if (!is_rolling()) return check(RowNeed::of_text(rows), waiting);
  const int64_t most = most_text(waiting);
  if (count - 1 <= most / 2 || rows <= std::min(for_text(waiting), for_positions(waiting))) return {};
  return OCELLUS_FAIL(Code::kFull, "%lld tokens are more than a rolling context of %lld makes room for at once",
                      static_cast<long long>(count), static_cast<long long>(most));
}

/// The sinks and an incomplete page are kept.
bool Room::can_roll(const RowNeed& need, const RowNeed& waiting) const {
  if (!is_rolling()) return false;
  const int64_t text = conversation_.cache().text_slots() + waiting.text;
  const int64_t sink_text = std::min(text, int64_t{sink_pages_} * kPageSlots);
  const int64_t staying = sink_text + (text - sink_text) % kPageSlots;
  return need.text <= most_text(waiting) - staying &&
         need.positions <= conversation_.engine().text().config.context_length - sink_text;
}

bool Room::begins(const RowNeed& need, const RowNeed& waiting) const {
  return is_rolling() && sink_pages_ > 0 && conversation_.engine().shape().policy.lists_chunks() && need.images > 0 &&
         waiting.images == 0 && conversation_.cache().rows() == 0;
}

bool Room::has(const RowNeed& need, const RowNeed& waiting) const {
  const int32_t images = conversation_.cache().image_count() + waiting.images + need.images;
  return images <= images_ && need.text <= for_text(waiting) && need.positions <= for_positions(waiting);
}

/// Number of full sink pages at the conversation's beginning: only full pages can be moved.
int32_t Room::sinks() const {
  return static_cast<int32_t>(std::min<int64_t>(sink_pages_, conversation_.cache().text_slots() / kPageSlots));
}

/// Moves the sinks up to the rows that stayed.
void Room::move_sinks() {
  SessionCache& cache = conversation_.cache();
  cache.move_pages(sinks(), cache.oldest_position(sinks(), conversation_.state().next_position));
}

/// Thins the images if the needed ones are too many. What is left cannot be told apart: a prompt that fails takes all
/// of it if some of the images are its own.
Status Room::thin(const RowNeed& need) {
  Engine& engine = conversation_.engine();
  const EngineShape& shape = engine.shape();
  SessionCache& cache = conversation_.cache();
  const int32_t count = cache.image_count();
  if (!shape.policy.thin.on() || count + need.images <= images_ || !can_thin(cache)) return {};
  const int32_t kept = std::min(shape.policy.thin.kept(images_), images_ - need.images);
  if (kept < 1 || kept >= count) return {};
  int32_t& until = conversation_.checkpoint().cache.image_count;
  until = until < count ? 0 : kept;
  const Status status = thin_frames(shape.policy.thin, engine.memory().thinning, kept,
                                    shape.pictures.rows / shape.pictures.views, cache, engine.queue());
  if (!status.ok()) engine.queue().clear();
  return status;
}

/// Releases the oldest rows of the kind that is too much, unless they came after `until`. False if nothing can be
/// released.
bool Room::release_oldest(const RowNeed& need, const CacheMark& until) {
  SessionCache& cache = conversation_.cache();
  CacheMark& kept = conversation_.checkpoint().cache;
  const bool has_image = until.image_count > 0;
  const bool has_text = until.text_slots / kPageSlots > sink_pages_;
  const bool many_images = cache.image_count() + need.images > images_;
  const bool much_text = need.text > for_text({});
  if (until.eviction_count > 0 && (many_images || !has_text || cache.oldest_is_image(sinks()))) {
    kept.image_count = std::max(0, kept.image_count - cache.evicted(0).images);
    kept.eviction_count = std::max(0, kept.eviction_count - 1);
    cache.release_oldest_evicted();
    return true;
  }
  if (until.eviction_count == 0 && has_image && (many_images || (!much_text && cache.oldest_is_image(sinks())))) {
    cache.release_oldest_image();
    kept.image_count = std::max(0, kept.image_count - 1);
    return true;
  }
  if (!has_text) return false;
  cache.release_text_pages(sink_pages_, 1);
  const int64_t sink_text = int64_t{sink_pages_} * kPageSlots;
  if (kept.text_slots > sink_text) kept.text_slots = std::max(kept.text_slots - kPageSlots, sink_text);
  return true;
}

Status Room::release(const RowNeed& need) {
  const int64_t position = conversation_.state().next_position;
  if (position > kMaxPosition)
    return OCELLUS_FAIL(Code::kFull, "the conversation has reached position %lld: reset the session",
                        static_cast<long long>(position));
  OCELLUS_TRY(thin(need));
  while (!has(need, {}) && release_oldest(need, conversation_.cache().mark())) {
  }
  move_sinks();
  return {};
}

void Room::release_for_answer(int64_t text_rows) {
  if (!is_rolling()) return;
  const int64_t wanted = std::min(text_rows, most_text({}) / 2);
  const RowNeed need{.text = wanted};
  while (wanted > std::min(for_text({}), for_positions({})) && release_oldest(need, conversation_.checkpoint().cache)) {
  }
  move_sinks();
}

}  // namespace ocellus
