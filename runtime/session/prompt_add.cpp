// Conversion of tokens and pictures to rows of the prompt chunk.
#include <algorithm>

#include "runtime/engine/engine.h"
#include "runtime/engine/picture_source.h"
#include "runtime/session/prompt.h"

namespace ocellus {

Status check_tokens(const TextConfig& config, const TokenId* tokens, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (tokens[i] < 0 || tokens[i] >= config.vocabulary)
      return OCELLUS_FAIL(Code::kBadArgument, "token %d at index %lld is not in the vocabulary of %d", tokens[i],
                          static_cast<long long>(i), config.vocabulary);
  return {};
}

Status Prompt::add_tokens(const TokenId* tokens, int64_t count) {
  const TraceRange range(conversation_.engine().trace(), "add text");
  OCELLUS_TRY(start());
  conversation_.characters().finish();
  OCELLUS_TRY(check_tokens(conversation_.engine().text().config, tokens, count));
  OCELLUS_TRY(text_.flush());
  OCELLUS_TRY(make_room(RowNeed::of_text(count)));
  conversation_.state().has_text = true;
  OCELLUS_TRY(append(tokens, count));
  for (int64_t i = 0; i < count; ++i) conversation_.remember(tokens[i]);
  conversation_.state().text.continues = false;
  return {};
}

Status Prompt::add_start_token() {
  const TokenId start = conversation_.engine().tokenizer().facts().start_token();
  bool& has_text = conversation_.state().has_text;
  if (!has_text && start != kNoToken) {
    OCELLUS_TRY(make_room(RowNeed::of_text(1)));
    OCELLUS_TRY(append(&start, 1));
  }
  has_text = true;
  return {};
}

/// Appends tokens to the chunk, and reads the chunk whenever it is full.
Status Prompt::append(const TokenId* tokens, int64_t count) {
  PromptChunk& chunk = this->chunk();
  for (int64_t done = 0; done < count;) {
    if (chunk.room() == 0) OCELLUS_TRY(read_and_borrow());
    const int64_t piece = std::min(count - done, chunk.room());
    chunk.add_text(tokens + done, piece);
    done += piece;
  }
  conversation_.note_prompt(tokens, count);
  return {};
}

Status Prompt::add_picture(const Picture& picture, bool is_numbered) {
  const Engine& engine = conversation_.engine();
  const TraceRange range(engine.trace(), "add image");
  const PictureShape& shape = engine.shape().pictures;
  if (!shape.planned()) return OCELLUS_FAIL(Code::kFull, "no images were planned: plan at least one");
  ViewPlan plan;
  OCELLUS_TRY(plan_picture(shape, picture, &plan));
  return add_views(plan, {.is_frame = picture.is_of_clip, .is_numbered = is_numbered}, [&](int32_t ordinal) {
    PictureLinks* const links = conversation_.links();
    return links != nullptr ? links->add(picture, plan, ordinal, chunk())
                            : pictures_.add(picture, plan, ordinal, chunk());
  });
}

Status Prompt::add_named_picture(std::string_view name, bool is_numbered) {
  const TraceRange range(conversation_.engine().trace(), "add image");
  PictureLinks* const links = conversation_.links();
  if (links == nullptr || links->store() == nullptr) return no_store();
  EntryFacts facts;
  ViewPlan plan;
  OCELLUS_TRY(links->store()->find(conversation_, links->owner(), name, &facts, &plan));
  return add_views(plan, {.is_numbered = is_numbered},
                   [&](int32_t) { return links->link_named(facts, plan, chunk()); });
}

/// Rows of a picture that are in the chunk at a time.
int64_t Prompt::rows_in_chunk(const ViewPlan& plan) const {
  const PictureLinks* const links = conversation_.links();
  return links == nullptr ? plan.row_count() : links->rows_in_chunk(plan);
}

/// Adds the texts around a picture, and its rows by add(number of the image), or nothing.
template <class Add>
Status Prompt::add_views(const ViewPlan& plan, const PictureRole& role, const Add& add) {
  int64_t marks = 0;
  OCELLUS_TRY(prepare_picture(plan, role, &marks));
  const KeptText kept(conversation_);
  const Checkpoint before = mark();
  Status status = begin_picture(plan, role, marks);
  if (status.ok()) status = add(before.images);
  return end_picture(status, before);
}

/// Makes room in the chunk and the cache for a picture's rows and the texts around its views, which have *marks tokens.
Status Prompt::prepare_picture(const ViewPlan& plan, const PictureRole& role, int64_t* marks) {
  const int32_t most_images = conversation_.engine().shape().pictures.per_session;
  OCELLUS_TRY(start());
  conversation_.characters().finish();
  int64_t before = 0;
  OCELLUS_TRY(count_delimiters(conversation_.engine().tokenizer(), plan, marks));
  OCELLUS_TRY(text_.count_before(plan, role, &before));
  const int64_t text_rows = *marks + before;
  const RowNeed need{.text = text_rows, .images = 1, .positions = text_rows + plan.position_count()};
  OCELLUS_TRY(roll(need));
  if (conversation_.cache().image_count() + waiting().images >= most_images)
    return OCELLUS_FAIL(Code::kFull, "the session holds its planned %d images already: plan more images", most_images);
  OCELLUS_TRY(add_start_token());
  OCELLUS_TRY(room_.check(need, waiting()));
  const bool is_full = chunk().row_count > 0 && chunk().room() < text_rows + rows_in_chunk(plan);
  const PictureLinks* const links = conversation_.links();
  return is_full || (links != nullptr && links->reads_before(chunk())) ? read_and_borrow() : Status();
}

/// Adds the text before a picture. Where it is long it leaves no room for the picture beside it.
Status Prompt::begin_picture(const ViewPlan& plan, const PictureRole& role, int64_t marks) {
  OCELLUS_TRY(text_.begin_picture(plan, role));
  return chunk().room() < marks + rows_in_chunk(plan) ? read_and_borrow() : Status();
}

/// Ends the addition of a picture, whose rows are in the chunk or failed half way.
Status Prompt::end_picture(Status status, const Checkpoint& before) {
  Engine& engine = conversation_.engine();
  if (status.ok() && engine.memory().pictures.waiting.full()) status = pictures_.encode();
  if (!status.ok()) {
    pictures_.forget_from(before.chunk.row_count);
    go_back(before);
    return status;
  }
  const CachePolicy& policy = engine.shape().policy;
  return policy.compresses() && policy.when == CompressAt::kImageEnd ? read() : Status();
}

}  // namespace ocellus
