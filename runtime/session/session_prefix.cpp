// Prefix caching, in blocks of one image: an image is read in its prompt, behind all that stands before it, and comes
// from the library where exactly the same stands before it again. Its slots are then those of a prompt that is read as
// a whole. The text between images is read in any case: it is short beside them.
#include "platform/clock.h"
#include "runtime/engine/engine.h"
#include "runtime/session/session.h"

namespace ocellus {

void Session::note_prefix(const TokenId* tokens, int64_t count) {
  for (int64_t i = 0; i < count; ++i) prefix_hash_ = prefix_of(prefix_hash_, static_cast<uint64_t>(tokens[i]));
}

Status Session::add_in_context(const Picture& picture, const ViewPlan& plan) {
  EntryFacts facts;
  OCELLUS_TRY(describe_entry(picture, plan, &facts));
  bool found = false;
  if (library_ != nullptr) {
    int32_t ordinal = 0;
    OCELLUS_TRY(cache().reserve_image(&ordinal));
    Status status = load_entry(facts, -1, ordinal, &found);
    (found ? prompt_.library_hits : prompt_.library_misses) += 1;
    if (status.ok() && found) status = add_links(plan, ordinal);
    if (!status.ok() || !found) {
      engine_->queue().join_transfers();
      cache().release_reserved_image();
    }
    OCELLUS_TRY(status);
  }
  double spent_ms = 0;
  if (!found) OCELLUS_TRY(read_in_context(picture, plan, &spent_ms));
  if (!found && library_ != nullptr) (void)keep_entry(facts, cache().image_count() - 1, spent_ms);
  for (const uint64_t part : {facts.content.high, facts.content.low, static_cast<uint64_t>(facts.tile_cols)})
    prefix_hash_ = prefix_of(prefix_hash_, part);
  return engine_->queue().status();
}

/// Has what waits before the image read, and then the image by itself, so that its slots do not depend on how its
/// prompt was cut into chunks: packed images are seen as they were packed. The chunk is ours and empty afterwards.
Status Session::read_in_context(const Picture& picture, const ViewPlan& plan, double* spent_ms) {
  int32_t ordinal = 0;
  OCELLUS_TRY(read_chunk());
  take_chunk();
  const int64_t start = now_ns();
  PromptChunk& chunk = engine_->memory().chunk;
  OCELLUS_TRY(cache().reserve_image(&ordinal));
  if (library_ != nullptr) clear_blocks(ordinal);
  OCELLUS_TRY(add_views(picture, plan, chunk));
  OCELLUS_TRY(encode_last_views());
  if (library_ != nullptr) note_embedding(chunk);
  OCELLUS_TRY(read_chunk());
  take_chunk();
  *spent_ms = elapsed_ms(start, now_ns());
  return {};
}

}  // namespace ocellus
