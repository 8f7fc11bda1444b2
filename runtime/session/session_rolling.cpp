// Rolling contexts: a session that goes on for hours. The newest images stay, the oldest ones are released; text stays
// within its planned pages, the beginning of the conversation (attention sinks; Xiao et al., StreamingLLM) included.
//
// Positions grow on. What attention sees is their differences, so nothing that stays has to change, but for the sinks:
// they are moved up behind what was released, by reading them with a query turned back as far. So no difference grows
// beyond what the model was made for.
#include <algorithm>

#include "runtime/engine/engine.h"
#include "runtime/session/session.h"

namespace ocellus {
namespace {

/// Far from where positions would no longer be exact: at 100 rows a second after four months.
constexpr int64_t kMostPosition = int64_t{1} << 30;

}  // namespace

Status Session::set_rolling(int32_t images, int32_t sink_tokens) {
  const EngineShape& shape = engine_->shape();
  const int32_t most_sinks = kMostSinkPages * kPageSlots;
  if (images < 0 || images > shape.images_per_session)
    return OCELLUS_FAIL(Code::kBadArgument, "a rolling context can keep 1 to %d images here, not %d",
                        shape.images_per_session, images);
  if (sink_tokens < 0 || sink_tokens > most_sinks)
    return OCELLUS_FAIL(Code::kBadArgument, "a rolling context keeps 0 to %d tokens of its beginning, not %d",
                        most_sinks, sink_tokens);
  if (shape.policy.lists_chunks())
    return OCELLUS_FAIL(Code::kBadArgument,
                        "a rolling context releases images one by one, so they must be compressed one by one: plan "
                        "eviction at the image's end");
  if (shape.links && images > 0)
    return OCELLUS_FAIL(Code::kUnsupported, "a rolling context cannot release linked images: plan it without reuse");
  const auto sink_pages = static_cast<int32_t>(blocks_of(sink_tokens, kPageSlots));
  if (images > 0 && sink_pages + 1 >= shape.pages_per_session)
    return OCELLUS_FAIL(Code::kBadArgument, "%d text tokens leave no room beside %d of the beginning: plan more",
                        static_cast<int>(shape.pages_per_session * kPageSlots), sink_tokens);
  rolling_images_ = images;
  sink_pages_ = images > 0 ? sink_pages : 0;
  return {};
}

/// Pages of the conversation's beginning that stay, as far as they are full: only then can they be moved.
int32_t Session::sinks() const {
  return static_cast<int32_t>(std::min<int64_t>(sink_pages_, cache().text_slots() / kPageSlots));
}

/// Brings the sinks up behind what was released.
void Session::move_sinks() {
  const int32_t pages = sinks();
  cache().move_pages(pages, cache().oldest_position(pages, next_position_));
}

/// Positions that the model has to tell apart: from the oldest row after the sinks to the next one, and the sinks'.
int64_t Session::live_span() const {
  if (cache().has_sinks()) return cache().live_slots();               // which are read as if nothing had been between
  if (engine_->shape().policy.lists_chunks()) return next_position_;  // nobody noted where rows stand that competed
  const int32_t pages = sinks();
  return next_position_ - cache().oldest_position(pages, next_position_) + cache().span_of_pages(pages);
}

bool Session::has_room(int64_t text_rows, int64_t image_rows) const {
  const int32_t images = next_image() + (image_rows > 0 ? 1 : 0);
  return images <= rolling_images_ && text_rows <= room_for_text() && text_rows + image_rows <= room_for_positions();
}

/// Whether so many rows would fit if all that may go went: the sinks and a page that is not full stay.
bool Session::can_have_room(int64_t text_rows, int64_t image_rows) const {
  const int64_t text = cache().text_slots() + waiting_text();
  const int64_t sink_text = std::min(text, int64_t{sink_pages_} * kPageSlots);
  const int64_t staying = sink_text + (text - sink_text) % kPageSlots;
  return text_rows <= most_text() - staying &&
         text_rows + image_rows <= engine_->text().config.context_length - sink_text;
}

/// Releases what is oldest, of the kind that is too much, unless it came after `until`. False if nothing can go.
bool Session::release_oldest(int64_t text_rows, int64_t image_rows, const SessionCache::Mark& until) {
  SessionCache& slots = cache();
  const bool has_image = until.image_count > 0;
  const bool has_text = until.text_slots / kPageSlots > sink_pages_;
  const bool many_images = slots.image_count() + (image_rows > 0 ? 1 : 0) > rolling_images_;
  const bool much_text = text_rows > room_for_text();
  SessionCache::Mark& kept = checkpoint_.cache;
  if (has_image && (many_images || (!much_text && slots.oldest_is_image(sinks())))) {
    slots.release_oldest_image();
    kept.image_count = std::max(0, kept.image_count - 1);
    return true;
  }
  if (!has_text) return false;
  slots.release_text_pages(sink_pages_, 1);
  const int64_t sink_text = int64_t{sink_pages_} * kPageSlots;
  if (kept.text_slots > sink_text) kept.text_slots = std::max(kept.text_slots - kPageSlots, sink_text);
  return true;
}

/// In a rolling context: releases what is oldest until so many rows fit. Nothing goes for what can never fit.
Status Session::make_room(int64_t text_rows, int64_t image_rows) {
  if (rolling_images_ == 0 || !can_have_room(text_rows, image_rows)) return {};
  if (next_position_ > kMostPosition)
    return OCELLUS_FAIL(Code::kFull, "the conversation has reached position %lld: reset the session",
                        static_cast<long long>(next_position_));
  while (!has_room(text_rows, image_rows)) {
    if (waiting_positions() > 0) {
      OCELLUS_TRY(read_chunk());
      take_chunk();
    } else if (!release_oldest(text_rows, image_rows, cache().mark())) {
      break;
    }
  }
  move_sinks();
  return {};
}

/// The same for an answer whose prompt was read: of what came before the prompt so much goes that the answer finds
/// room, but no more than half of the planned text: few answers are as long as they may be.
void Session::make_room_to_answer(int64_t text_rows) {
  if (rolling_images_ == 0) return;
  const int64_t wanted = std::min(text_rows, most_text() / 2);
  while (wanted > std::min(room_for_text(), room_for_positions()) && release_oldest(wanted, 0, checkpoint_.cache)) {
  }
  move_sinks();
}

}  // namespace ocellus
