#include "runtime/session/room.h"

#include <algorithm>

#include "runtime/engine/engine.h"

namespace ocellus {

Roller* Room::roller() const { return is_rolling() ? conversation_.engine().memory().branches.roller.get() : nullptr; }

/// Returns the maximum of text tokens in the session. If rows compete, pages are also planned for survivors of images,
/// and evicted text still counts, so that the planned images fit whatever comes before them. The same holds for rows of
/// linked images still to come.
int64_t Room::most_text(const RowNeed& waiting) const {
  const EngineShape& shape = conversation_.engine().shape();
  if (shape.policy.lists_chunks()) return shape.session.text_tokens;
  const int32_t images = conversation_.cache().image_count() + waiting.images;
  return shape.session.pages * kPageSlots - (shape.pictures.per_session - images) * shape.links.rows_in_text();
}

/// Returns the range of positions that the model must distinguish: from the oldest row after the sinks to the next one,
/// and the sinks'.
int64_t Room::live_span() const {
  const SessionCache& cache = conversation_.cache();
  const int64_t next = conversation_.state().next_position;
  if (cache.kept().has_sinks()) return cache.live_slots();  // read at consecutive positions
  if (cache.mark().text_block_count > 0) return next;       // it has no record of positions
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

bool Room::has(const RowNeed& need, const RowNeed& waiting) const {
  const int32_t images = conversation_.cache().image_count() + waiting.images + need.images;
  return images <= images_ && need.text <= for_text(waiting) && need.positions <= for_positions(waiting);
}

/// Only full pages can be moved.
int32_t Room::sinks() const {
  return static_cast<int32_t>(std::min<int64_t>(sink_pages_, conversation_.cache().text_slots() / kPageSlots));
}

}  // namespace ocellus
