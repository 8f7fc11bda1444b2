#include "runtime/branches/measure/embed.h"

#include <cmath>

#include "kernels/linear/rmsnorm.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/picture_source.h"

namespace ocellus {
namespace {

Status take_width(int64_t width, Embedding* out) {
  out->width = static_cast<int32_t>(width);
  if (out->values != nullptr && out->capacity >= width) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "an embedding has %d values, and there is room for %d", out->width,
                      out->capacity);
}

void scale_to_length_one(const Embedding& embedding) {
  double square = 0;
  for (int32_t i = 0; i < embedding.width; ++i) square += double{embedding.values[i]} * double{embedding.values[i]};
  const auto scale = static_cast<float>(square > 0 ? 1 / std::sqrt(square) : 0);
  for (int32_t i = 0; i < embedding.width; ++i) embedding.values[i] *= scale;
}

/// Adds the picture's rows to a chunk that nothing else uses, and computes their mean.
Status average_picture(Session& session, PictureRows& pictures, const Picture& picture, const ViewPlan& plan,
                       Embedding* out) {
  Engine& engine = session.engine();
  OCELLUS_TRY(session.prompt().start());  // lends the chunk, in whose memory the other one lies
  PromptChunk& rows = engine.shape().reuse.links() ? engine.memory().linked.chunk : engine.memory().chunk;
  int64_t text_rows = 0;
  OCELLUS_TRY(count_delimiters(engine.tokenizer(), plan, &text_rows));
  rows.clear();
  if (rows.room() < plan.row_count() + text_rows)
    return OCELLUS_FAIL(Code::kFull, "the picture has %lld rows, and %lld were planned for a prompt: plan more text",
                        static_cast<long long>(plan.row_count() + text_rows), static_cast<long long>(rows.room()));
  Buffer<float> copied;
  OCELLUS_TRY(copied.resize(plan.row_count() * rows.inputs.cols));
  OCELLUS_TRY(pictures.add(picture, plan, 0, rows));
  OCELLUS_TRY(pictures.encode());
  return average_image_rows(rows, {copied.data(), plan.row_count(), rows.inputs.cols}, out->values, engine.queue());
}

}  // namespace

Status embed_prompt(Session& session, Embedding* out) {
  const TextModel& text = session.engine().text();
  Queue& queue = session.engine().queue();
  OCELLUS_TRY(take_width(text.config.width, out));
  OCELLUS_TRY(session.prompt().read_to_answer());
  ConversationState& state = session.conversation().state();
  if (!state.is_answerable)
    return OCELLUS_FAIL(Code::kBadArgument, "there is nothing to embed: add a text after what was read before");
  const DeviceView<float> row(session.conversation().last_hidden(), 1, text.config.width);
  rmsnorm({.input = row, .weight = text.final_norm, .epsilon = text.config.epsilon, .output = row}, queue);
  state.is_answerable = false;  // the row was changed
  session.conversation().set_checkpoint();
  queue.copy(out->values, row.data, int64_t{out->width} * static_cast<int64_t>(sizeof(float)));
  OCELLUS_TRY(queue.finish());
  scale_to_length_one(*out);
  return {};
}

Status embed_picture(Session& session, const Picture& picture, Embedding* out) {
  Engine& engine = session.engine();
  if (!engine.shape().pictures.planned()) return OCELLUS_FAIL(Code::kFull, "no images were planned: plan at least one");
  OCELLUS_TRY(take_width(engine.memory().chunk.inputs.cols, out));
  ViewPlan plan;
  OCELLUS_TRY(plan_picture(engine.shape().pictures, picture, &plan));
  session.reset();
  PictureRows pictures(session.conversation());
  const Status status = average_picture(session, pictures, picture, plan, out);
  if (!status.ok()) pictures.forget_from(0);
  session.reset();
  if (status.ok()) scale_to_length_one(*out);
  return status;
}

}  // namespace ocellus
