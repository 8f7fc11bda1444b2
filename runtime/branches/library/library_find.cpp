// Entries of a library by their keys, and by their likeness to a picture.
#include <algorithm>

#include "runtime/branches/library/library_session.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/picture_source.h"
#include "runtime/session/session.h"

namespace ocellus {
namespace {

/// Views of one model's pictures.
struct ViewFacts {
  const PreprocessConfig& config;
  bool has_grid = false;  // the lines and columns of a view's rows are positions

  static ViewFacts of(Engine& engine) {
    return {engine.shape().pictures.preprocess, engine.text().config.rope.coordinates() > 1};
  }
};

/// The only view of an entry whose views have any size.
void set_view_of_any_size(const EntryFacts& facts, bool has_grid, ViewPlan* plan) {
  plan->view_rows = facts.token_count;
  plan->view_positions = facts.token_count - facts.shared_rows;
  if (!has_grid) return;
  const int32_t shorter = plan->view_positions > 0 ? plan->view_rows / plan->view_positions : 0;
  plan->view_cols = facts.tile_cols != 0 ? shorter : plan->view_positions;
}

/// The tiles of an entry before such a view: all have the same sides.
void set_square_tiles(const EntryFacts& facts, const PreprocessConfig& config, ViewPlan* plan) {
  const int32_t side = config.longest_edge / config.row_side;
  plan->rows_per_tile = side * side;
  plan->tile_cols = facts.tile_cols;
  plan->tile_rows = (facts.view_count - 1) / facts.tile_cols;
  const int64_t rows = facts.token_count - int64_t{plan->tile_count()} * plan->rows_per_tile;
  plan->view_rows = plan->view_positions = static_cast<int32_t>(std::max<int64_t>(rows, 0));
}

/// The views of an entry in a prompt, as much of a plan as that needs.
ViewPlan view_plan(const EntryFacts& facts, const ViewFacts& views) {
  const PreprocessConfig& config = views.config;
  ViewPlan plan;
  plan.rules = config.rules;
  if (config.row_side > 0) {
    set_view_of_any_size(facts, views.has_grid, &plan);
    const bool has_tiles = facts.view_count > 1 && facts.tile_cols > 0 && config.longest_edge >= config.row_side;
    if (has_tiles) set_square_tiles(facts, config, &plan);
    return plan;
  }
  plan.view_rows = config.view_rows;
  plan.view_positions = config.view_rows - facts.shared_rows / std::max(facts.view_count, 1);
  plan.tile_cols = facts.tile_cols;
  plan.tile_rows = facts.tile_cols == 0 ? 0 : (facts.view_count - 1) / facts.tile_cols;
  if (config.rules->has_map) plan.map = {.lines = 1, .cols = facts.token_count - plan.view_rows - 1};  // number of rows
  return plan;
}

bool has_sound_views(const EntryFacts& facts, const ViewFacts& views) {
  const PreprocessConfig& config = views.config;
  if (facts.token_count > max_row_count(config)) return false;
  const ViewPlan plan = view_plan(facts, views);
  if (plan.view_positions < 1) return false;
  if (config.row_side > 0)  // whole lines, the longer side's rows
    return facts.view_count == 1 + plan.tile_count() && (plan.tile_count() == 0 || facts.shared_rows == 0) &&
           plan.view_rows % plan.view_positions == 0 && plan.view_rows / plan.view_positions <= plan.view_positions;
  if (config.rules->has_map && facts.token_count <= config.view_rows) return false;
  if (facts.shared_rows != 0 && (config.rules->has_map || facts.shared_rows % facts.view_count != 0)) return false;
  if (facts.tile_cols == 0) return facts.view_count == 1;
  return facts.tile_cols > 0 && facts.view_count > 1 && (facts.view_count - 1) % facts.tile_cols == 0;
}

/// Fails if the cache of a session does not take the entry as it is.
Status check_fits(const LibraryKey& key, const EntryFacts& facts, const Conversation& conversation) {
  Engine& engine = conversation.engine();
  const KeyText name = key_text(key);
  if (engine.shape().reuse.in_context())
    return OCELLUS_FAIL(Code::kUnsupported,
                        "with prefix caching an image is found by the prompt before it, not by its key");
  const ViewFacts views = ViewFacts::of(engine);
  EntryFacts expected = conversation.links()->facts_of(facts.view_count, view_plan(facts, views).row_count());
  if (facts.model != expected.model)
    return OCELLUS_FAIL(Code::kBadArgument, "library entry %s was made by another model", name.text);
  if (facts.bits != expected.bits)
    return OCELLUS_FAIL(Code::kBadArgument, "library entry %s holds keys and values of %d bits, the session of %d",
                        name.text, facts.bits, expected.bits);
  if (facts.stored_input_rows != expected.stored_input_rows)
    return OCELLUS_FAIL(Code::kBadArgument,
                        "library entry %s was stored with %d rows computed in place, and the session computes %d",
                        name.text, facts.stored_input_rows, expected.stored_input_rows);
  if (facts.block_rows != expected.block_rows)
    return OCELLUS_FAIL(Code::kBadArgument, "library entry %s is packed in blocks of %d slots, the session's are of %d",
                        name.text, facts.block_rows, expected.block_rows);
  if (facts.view_count > max_view_count(views.config))
    return OCELLUS_FAIL(Code::kFull, "library entry %s has %d views, more than were planned", name.text,
                        facts.view_count);
  expected.content = facts.content;
  expected.tile_cols = facts.tile_cols;
  expected.shared_rows = facts.shared_rows;
  if (facts == expected && has_sound_views(facts, views)) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "library entry %s was made with other settings of the cache", name.text);
}

/// Computes the mean of the picture's rows in its planned memory. With linked images the prompt has no rows there yet,
/// so no waiting row is overwritten.
Status embed(Session& session, const uint8_t* bytes, int64_t byte_count) {
  Engine& engine = session.engine();
  const PictureShape& shape = engine.shape().pictures;
  PictureRows& pictures = session.pictures();
  PromptChunk& alone = engine.memory().linked.chunk;
  ImageFacts image;
  ViewPlan plan;
  OCELLUS_TRY(probe_image(bytes, byte_count, shape.limits, &image));
  const Picture picture = encoded_picture(bytes, byte_count, image);
  OCELLUS_TRY(plan_picture(shape, picture, &plan));
  alone.clear();
  Status status = pictures.add(picture, plan, 0, alone);
  if (status.ok()) status = pictures.encode();
  if (status.ok()) status = session.store()->note_rows(alone, engine.queue());
  if (status.ok()) status = engine.queue().status();
  alone.clear();
  if (!status.ok()) pictures.forget_from(0);
  return status;
}

}  // namespace

Status LibrarySession::find(Conversation& conversation, const OwnerName& owner, std::string_view name,
                            EntryFacts* facts, ViewPlan* plan) {
  LibraryKey key;
  LibraryEntry entry;
  bool found = false;
  if (!parse_key(name, &key)) return OCELLUS_FAIL(Code::kBadArgument, "a key has 32 hexadecimal digits");
  conversation.begin_prompt();
  OCELLUS_TRY(conversation.stop().check());
  OCELLUS_TRY(library_->find_key(owner.view(), key, &entry, &found));
  if (!found)
    return OCELLUS_FAIL(Code::kBadArgument, "the library has no entry %s that %s sees", key_text(key).text,
                        owner.c_str());
  *facts = entry.facts();
  OCELLUS_TRY(check_fits(key, *facts, conversation));
  *plan = view_plan(*facts, ViewFacts::of(conversation.engine()));
  return {};
}

Status search_library(Session& session, const uint8_t* bytes, int64_t byte_count, int32_t count,
                      Buffer<NearEntry>* out) {
  Engine& engine = session.engine();
  LibrarySession* const own = library_of(session);
  *out = {};
  if (own == nullptr) return no_store();
  session.conversation().forget_late_cancel();
  OCELLUS_TRY(session.stop_signal().check());
  OCELLUS_TRY(embed(session, bytes, byte_count));
  return own->nearest(session.owner().view(), engine.model_fingerprint(), count, out);
}

Status LibrarySession::nearest(std::string_view owner, const Hash128& model, int32_t count, Buffer<NearEntry>* out) {
  const HostView<float>& mean = stores_->memory().embedding;
  return library_->nearest(owner, model, {mean.data, static_cast<size_t>(mean.cols)}, count, out);
}

}  // namespace ocellus
