#include "runtime/session/session_retrieve.h"

#include <utility>

#include "runtime/engine/engine.h"
#include "runtime/engine/picture_source.h"
#include "runtime/session/session.h"

namespace ocellus {
namespace {

/// The views of an entry as they stand in a prompt, which asks for no more of a plan.
ViewPlan view_plan(const EntryFacts& facts, const PreprocessConfig& config) {
  ViewPlan plan;
  plan.rules = config.rules;
  plan.view_rows = config.view_rows;
  plan.tile_cols = facts.tile_cols;
  plan.tile_rows = facts.tile_cols == 0 ? 0 : (facts.view_count - 1) / facts.tile_cols;
  if (config.rules->has_map) plan.map = {.lines = 1, .cols = facts.token_count - plan.view_rows - 1};  // their number
  return plan;
}

bool has_sound_views(const EntryFacts& facts, const PreprocessConfig& config) {
  if (config.rules->has_map && facts.token_count <= config.view_rows) return false;
  if (facts.token_count > max_row_count(config)) return false;
  if (facts.tile_cols == 0) return facts.view_count == 1;
  return facts.tile_cols > 0 && facts.view_count > 1 && (facts.view_count - 1) % facts.tile_cols == 0;
}

}  // namespace

Status Retrieval::require_library() const {
  if (session_.library_ != nullptr) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "the session has no image library: set one first");
}

const SessionKeep& Retrieval::keep() {
  if (session_.keep_.outcome != SessionKeep::Outcome::kStoring) return session_.keep_;
  const StoredEntry stored = session_.engine().library_traffic().last_stored();
  session_.keep_.note_stored(stored.key, stored.status, stored.failure);
  return session_.keep_;
}

ImageLibrary* Retrieval::library() const { return session_.library_; }

std::string_view Retrieval::owner() const { return session_.owner_.view(); }

Status Retrieval::set_keep(const EntryLabels& labels, LibraryPart part, bool only_there) {
  OCELLUS_TRY(require_library());
  // Now rather than when a picture has been computed.
  OCELLUS_TRY(library()->check_writer(owner(), part));
  session_.keep_.labels = labels;
  session_.keep_.part = part;
  session_.keep_.only_there = only_there;
  return {};
}

Status Retrieval::find_entry(const LibraryKey& key, EntryFacts* facts) {
  LibraryEntry entry;
  bool found = false;
  OCELLUS_TRY(library()->find_key(owner(), key, &entry, &found));
  if (!found)
    return OCELLUS_FAIL(Code::kBadArgument, "the library has no entry %s that %s sees", key_text(key).text,
                        session_.owner_.c_str());
  *facts = entry.facts();
  return {};
}

/// Whether the session's cache takes the entry as it is.
Status Retrieval::check_fits(const LibraryKey& key, const EntryFacts& facts) {
  const KeyText name = key_text(key);
  if (session_.engine().shape().in_context)
    return OCELLUS_FAIL(Code::kUnsupported,
                        "with prefix caching an image is found by all that stands before it, not by its key");
  const PreprocessConfig& preprocess = session_.engine().shape().preprocess;
  EntryFacts expected = entry_facts(session_.engine(), facts.view_count, view_plan(facts, preprocess).row_count());
  if (facts.model != expected.model)
    return OCELLUS_FAIL(Code::kBadArgument, "library entry %s was made by another model", name.text);
  if (facts.bits != expected.bits)
    return OCELLUS_FAIL(Code::kBadArgument, "library entry %s holds keys and values of %d bits, the session of %d",
                        name.text, facts.bits, expected.bits);
  if (facts.stored_input_rows != expected.stored_input_rows)
    return OCELLUS_FAIL(Code::kBadArgument,
                        "library entry %s was stored to have %d rows read in place, and the session reads %d",
                        name.text, facts.stored_input_rows, expected.stored_input_rows);
  if (facts.block_rows != expected.block_rows)
    return OCELLUS_FAIL(Code::kBadArgument, "library entry %s is packed in blocks of %d slots, the session's are of %d",
                        name.text, facts.block_rows, expected.block_rows);
  if (facts.view_count > max_view_count(preprocess))
    return OCELLUS_FAIL(Code::kFull, "library entry %s has %d views, more than were planned", name.text,
                        facts.view_count);
  expected.content = facts.content;
  expected.tile_cols = facts.tile_cols;
  if (facts == expected && has_sound_views(facts, preprocess)) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "library entry %s was made with other settings of the cache", name.text);
}

Status Retrieval::add_image(const LibraryKey& key) {
  const TraceRange range(session_.engine().trace(), "add image");
  EntryFacts facts;
  OCELLUS_TRY(require_library());
  session_.begin_prompt();
  OCELLUS_TRY(session_.stop_.check());
  OCELLUS_TRY(find_entry(key, &facts));
  OCELLUS_TRY(check_fits(key, facts));
  const ViewPlan plan = view_plan(facts, session_.engine().shape().preprocess);
  OCELLUS_TRY(session_.prepare_rows(plan));
  PromptChunk& chunk = session_.engine().memory().chunk;
  const PromptChunk::Mark mark = chunk.mark();
  const Status status = link(facts, plan);
  if (!status.ok()) {
    session_.engine().queue().clear();
    chunk.rewind(mark);
    return status;
  }
  ++session_.prompt_.library_hits;
  const CachePolicy& policy = session_.engine().shape().policy;
  return policy.compresses() && policy.when == CompressAt::kImageEnd ? session_.read_chunk() : Status();
}

Status Retrieval::link(const EntryFacts& facts, const ViewPlan& plan) {
  int32_t ordinal = 0;
  bool found = false;
  OCELLUS_TRY(session_.cache().reserve_image(&ordinal));
  // Where computed images are kept does not matter here.
  const bool only_there = std::exchange(session_.keep_.only_there, false);
  Status status = session_.load_entry(facts, -1, ordinal, &found);
  session_.keep_.only_there = only_there;
  if (status.ok()) status = session_.engine().queue().status();
  if (status.ok() && !found)
    status = OCELLUS_FAIL(Code::kBadFile, "the library's entry is damaged or went while it was read: add the picture");
  if (status.ok()) status = session_.add_links(plan, ordinal);
  if (!status.ok()) session_.cache().release_reserved_image();
  return status;
}

/// Leaves the mean of the picture's rows in the memory that is planned for it. Rows of the prompt are not there yet
/// where images are linked, so nothing that waits is overwritten.
Status Retrieval::embed(const uint8_t* bytes, int64_t byte_count) {
  EngineMemory& memory = session_.engine().memory();
  const EngineShape& shape = session_.engine().shape();
  ImageFacts image;
  ViewPlan plan;
  OCELLUS_TRY(probe_image(bytes, byte_count, shape.image_limits, &image));
  OCELLUS_TRY(check_image_size(shape.image_limits, "picture", image.width, image.height));
  OCELLUS_TRY(plan_views(shape.preprocess, image.width, image.height, &plan));
  const Picture picture = encoded_picture(bytes, byte_count, image);
  memory.image_chunk.clear();
  Status status = session_.add_views(picture, plan, memory.image_chunk);
  if (status.ok()) status = session_.encode_last_views();
  if (status.ok()) session_.note_embedding(memory.image_chunk);
  if (status.ok()) status = session_.engine().queue().status();
  memory.image_chunk.clear();
  if (status.ok()) return {};
  session_.engine().queue().clear();
  session_.encode_timed_ = false;
  memory.waiting_views.clear();
  return status;
}

Status Retrieval::search(const uint8_t* bytes, int64_t byte_count, int32_t count, Buffer<NearEntry>* out) {
  *out = {};
  OCELLUS_TRY(require_library());
  session_.forget_late_cancel();
  OCELLUS_TRY(session_.stop_.check());
  if (session_.engine().shape().images_per_session == 0)
    return OCELLUS_FAIL(Code::kFull, "no images were planned: plan at least one");
  OCELLUS_TRY(embed(bytes, byte_count));
  const HostView<float>& mean = session_.engine().memory().library_embedding;
  return library()->nearest(owner(), session_.engine().model_fingerprint(), {mean.data, static_cast<size_t>(mean.cols)},
                            count, out);
}

}  // namespace ocellus
