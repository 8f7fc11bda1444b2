// Conversion of pictures to rows of the prompt chunk.
#include "runtime/engine/engine.h"
#include "runtime/engine/picture_source.h"
#include "runtime/session/prompt.h"

namespace ocellus {

namespace {

/// Waiting rows that are read once more with every image after them that is read in its prompt: see Reuse. A prompt is
/// cut where there are as many, whether the image is found or not.
constexpr int64_t kMostRowsAgain = 64;

}  // namespace

Status Prompt::add_picture(const Picture& picture, bool is_numbered) {
  Engine& engine = conversation_.engine();
  const TraceRange range(engine.trace(), "add image");
  const EngineShape& shape = engine.shape();
  if (!shape.pictures.planned()) return OCELLUS_FAIL(Code::kFull, "no images were planned: plan at least one");
  ViewPlan plan;
  OCELLUS_TRY(plan_picture(shape.pictures, picture, &plan));
  const PictureRole role{.is_frame = picture.is_of_clip, .is_numbered = is_numbered};
  OCELLUS_TRY(prepare_picture(plan, role));
  const KeptText kept(conversation_);
  const Checkpoint before = mark();
  if (const Status status = begin_picture(plan, role); !status.ok()) return end_picture(status, before);
  if (reuse_.links() || shape.reuse.in_context()) return end_picture(reuse_.link(picture, plan, chunk()), before);
  int32_t ordinal = before.images;
  // Beside linked images every image has its blocks from the beginning: see reserve_rows.
  if (shape.reuse.links() && !shape.reuse.staged) {
    if (const Status status = conversation_.cache().reserve_image(&ordinal); !status.ok())
      return end_picture(status, before);
  }
  return end_picture(pictures_.add(picture, plan, ordinal, chunk()), before);
}

Status Prompt::add_library_image(const LibraryKey& key, bool is_numbered) {
  const TraceRange range(conversation_.engine().trace(), "add image");
  EntryFacts facts;
  ViewPlan plan;
  OCELLUS_TRY(reuse_.require_library());
  conversation_.begin_prompt();
  OCELLUS_TRY(conversation_.stop().check());
  OCELLUS_TRY(reuse_.find(key, &facts, &plan));
  const PictureRole role{.is_numbered = is_numbered};
  OCELLUS_TRY(prepare_picture(plan, role));
  const KeptText kept(conversation_);
  const Checkpoint before = mark();
  if (const Status status = begin_picture(plan, role); !status.ok()) return end_picture(status, before);
  return end_picture(reuse_.link_entry(facts, plan, chunk()), before);
}

Status Prompt::write_before(const ViewPlan& plan, const PictureRole& role) {
  if (!role.is_frame) OCELLUS_TRY(writer().begin_picture(false, role.is_numbered));
  return write_line_breaks(plan.rules->marks.line_breaks);
}

Status Prompt::write_after(const ViewPlan& plan, const PictureRole& role) {
  OCELLUS_TRY(write_line_breaks(plan.rules->marks.line_breaks));
  return role.is_frame ? Status() : writer().end_picture(role.is_numbered);
}

Status Prompt::write_line_breaks(int32_t count) {
  for (int32_t i = 0; i < count; ++i) OCELLUS_TRY(write_head("\n"));
  return {};
}

/// Counts the tokens of the text before a picture, as it will be.
Status Prompt::count_before(const ViewPlan& plan, const PictureRole& role, int64_t* count) {
  ConversationState& state = conversation_.state();
  const TextRange text = state.text;
  const MessageState message = state.message;
  const KeptText kept(conversation_);
  Status status = write_before(plan, role);
  if (status.ok())
    status = encode_text(conversation_.engine(), conversation_.text().head(), state.text.continues, count);
  state.text = text;
  state.message = message;
  return status;
}

/// Makes room in the chunk and the cache for a picture's rows and the texts around its views.
Status Prompt::prepare_picture(const ViewPlan& plan, const PictureRole& role) {
  const EngineShape& shape = conversation_.engine().shape();
  OCELLUS_TRY(start());
  conversation_.characters().finish();
  int64_t text_rows = 0, before = 0;
  OCELLUS_TRY(count_delimiters(conversation_.engine().tokenizer(), plan, &text_rows));
  OCELLUS_TRY(count_before(plan, role, &before));
  text_rows += before;
  const int64_t image_rows = plan.row_count();
  const RowNeed need{.text = text_rows, .images = 1, .positions = text_rows + plan.position_count()};
  OCELLUS_TRY(roll(need));
  if (conversation_.cache().image_count() + waiting().images >= shape.pictures.per_session)
    return OCELLUS_FAIL(Code::kFull, "the session holds its planned %d images already: plan more images",
                        shape.pictures.per_session);
  OCELLUS_TRY(add_start_token());
  OCELLUS_TRY(room_.check(need, waiting()));
  const bool in_context = shape.reuse.in_context(), links = reuse_.links() && !in_context;
  const int64_t rows = text_rows + (links ? std::min(image_rows, shape.reuse.input_rows) : image_rows);
  const bool reads = chunk().room() < rows || (in_context && chunk().row_count >= kMostRowsAgain);
  return reads ? read_and_borrow() : Status();
}

/// Tokenises the text before a picture; that after it waits.
Status Prompt::begin_picture(const ViewPlan& plan, const PictureRole& role) {
  OCELLUS_TRY(write_before(plan, role));
  OCELLUS_TRY(flush_head());
  conversation_.state().text.continues = false;
  return write_after(plan, role);
}

/// Ends the addition of a picture, whose rows are in the chunk or failed half way.
Status Prompt::end_picture(Status status, const Checkpoint& before) {
  Engine& engine = conversation_.engine();
  if (status.ok() && engine.memory().waiting_views.full()) status = pictures_.encode();
  if (!status.ok()) {
    pictures_.forget_from(before.chunk.row_count);
    go_back(before);
    return status;
  }
  const CachePolicy& policy = engine.shape().policy;
  return policy.compresses() && policy.when == CompressAt::kImageEnd ? read() : Status();
}

}  // namespace ocellus
