#include "apps/serve/chat_prompt.h"

#include <algorithm>
#include <vector>

#include "apps/serve/kept_files.h"
#include "apps/serve/request_error.h"

namespace ocellus::app {
namespace {

void check_added(Status status, std::string_view param, bool* was_cancelled) {
  if (status) return;
  *was_cancelled = status.code() == OCELLUS_CANCELLED;
  throw library_error(status.code(), std::string(param));
}

Status add_tokens(Session* session, std::string_view bytes) {
  std::vector<int32_t> tokens(bytes.size() / sizeof(int32_t));
  std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<char*>(tokens.data()));
  return session->add_tokens(tokens);
}

// A clip of encoded frames, and what it points to.
struct EncodedClip {
  explicit EncodedClip(const ChatPart& part) {
    for (const std::string_view frame : part.frames) {
      seconds.push_back(static_cast<double>(frames.size()) / part.frames_per_second);
      frames.push_back(make_part(OCELLUS_PART_IMAGE, frame));
    }
    clip = {static_cast<int32_t>(frames.size()), frames.data(), seconds.data(),
            static_cast<double>(frames.size()) / part.frames_per_second};
  }
  EncodedClip(const EncodedClip&) = delete;
  EncodedClip& operator=(const EncodedClip&) = delete;

  std::vector<ocellus_part> frames;
  std::vector<double> seconds;
  ocellus_clip clip;
};

Status add_clip(Session* session, const ChatPart& part, uint32_t flags) {
  const EncodedClip encoded(part);
  const ocellus_part clip = make_part(encoded.clip, flags);
  return session->add_parts({&clip, 1});
}

bool is_part(const PromptStep& step) { return step.kind == StepKind::kText || step.kind == StepKind::kPicture; }

// Adds texts and pictures in one call, which reads known pictures while others are computed.
void add_parts(Session* session, std::span<const PromptStep> steps, bool* was_cancelled) {
  std::vector<ocellus_part> parts;
  for (const PromptStep& step : steps) {
    parts.push_back(
        make_part(step.kind == StepKind::kPicture ? OCELLUS_PART_IMAGE : OCELLUS_PART_TEXT, step.content, step.flags));
  }
  int32_t failed = -1;
  const Status status = session->add_parts(parts, &failed);
  check_added(status, failed >= 0 ? steps[static_cast<size_t>(failed)].param : "messages", was_cancelled);
}

void check_entry(Status status, std::string_view param, bool* was_cancelled) {
  if (status.code() == OCELLUS_BAD_FILE) throw no_such_file(std::string(param));  // damaged, or removed just now
  check_added(status, param, was_cancelled);
}

// An answer that goes on has no thought before it, so a model that always thinks gets an empty one.
Status begin_message(Session* session, const ocellus_model* model, const PromptStep& step) {
  const auto role = static_cast<ocellus_role>(step.flags & ~kGoesOn);
  const Status status = session->begin_message(role);
  if (!status || role != OCELLUS_ROLE_ASSISTANT || (step.flags & kGoesOn) == 0) return status;
  ocellus_model_facts facts;
  const Status known = ocellus_model_get_facts(model, &facts);
  if (!known || facts.thinking != OCELLUS_THINKS_ALWAYS) return known;
  return session->add_text("<think>\n\n</think>\n\n", OCELLUS_TEXT_PARSE_SPECIAL);
}

Status add_entry(Session* session, const PromptStep& step) {
  const ocellus_part entry = make_part(OCELLUS_PART_ENTRY, step.content, step.flags);
  return session->add_parts({&entry, 1});
}

void add_step(Session* session, const ocellus_model* model, const PromptStep& step, bool* was_cancelled) {
  const auto check = [&](Status status) { check_added(status, step.param, was_cancelled); };
  switch (step.kind) {
    case StepKind::kThink: return check(session->let_think(step.flags != 0));
    case StepKind::kBegin: return check(begin_message(session, model, step));
    case StepKind::kEnd: return check(session->end_message());
    case StepKind::kEndTurn: return check(session->end_turn());
    case StepKind::kOpenAnswer: return check(session->open_answer());
    case StepKind::kClip: return check(add_clip(session, *step.clip, step.flags));
    case StepKind::kTokens: return check(add_tokens(session, step.content));
    case StepKind::kEntry: return check_entry(add_entry(session, step), step.param, was_cancelled);
    case StepKind::kText:
    case StepKind::kPicture: return add_parts(session, {&step, 1}, was_cancelled);
  }
}

}  // namespace

void add_kept_picture(Session* session, std::string_view key, std::string_view param, bool* was_cancelled) {
  check_entry(session->add_library_image(std::string(key).c_str()), param, was_cancelled);
}

void add_answer_text(Session* session, const std::string& text, bool* was_cancelled) {
  check_added(session->add_text(text), "", was_cancelled);
}

void add_steps(Session* session, const ocellus_model* model, std::span<const PromptStep> steps, bool* was_cancelled) {
  *was_cancelled = false;
  for (size_t i = 0; i < steps.size();) {
    size_t end = i;
    while (end < steps.size() && is_part(steps[end])) ++end;
    if (end > i) {
      add_parts(session, steps.subspan(i, end - i), was_cancelled);
      i = end;
    } else {
      add_step(session, model, steps[i++], was_cancelled);
    }
  }
}

}  // namespace ocellus::app
