#include "apps/serve/chat_prompt.h"

#include <algorithm>
#include <vector>

#include "apps/serve/kept_files.h"
#include "apps/serve/request_error.h"

namespace ocellus::app {
namespace {

void check_added(ocellus_status status, std::string_view param, bool* was_cancelled) {
  if (status == OCELLUS_OK) return;
  *was_cancelled = status == OCELLUS_CANCELLED;
  throw library_error(status, std::string(param));
}

ocellus_status add_tokens(ocellus_session* session, std::string_view bytes) {
  std::vector<int32_t> tokens(bytes.size() / sizeof(int32_t));
  std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<char*>(tokens.data()));
  return ocellus_session_add_tokens(session, tokens.data(), static_cast<int32_t>(tokens.size()));
}

// A clip of encoded frames, and what it points to.
struct EncodedClip {
  explicit EncodedClip(const ChatPart& part) {
    for (const std::string_view frame : part.frames) {
      seconds.push_back(static_cast<double>(frames.size()) / part.frames_per_second);
      frames.push_back({.kind = OCELLUS_PART_IMAGE,
                        .flags = 0,
                        .bytes = frame.data(),
                        .byte_count = std::ssize(frame),
                        .frame = nullptr,
                        .clip = nullptr});
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

ocellus_status add_clip(ocellus_session* session, const ChatPart& part, uint32_t flags) {
  const EncodedClip encoded(part);
  const ocellus_part clip = {.kind = OCELLUS_PART_CLIP,
                             .flags = flags,
                             .bytes = nullptr,
                             .byte_count = 0,
                             .frame = nullptr,
                             .clip = &encoded.clip};
  return ocellus_session_add_parts(session, &clip, 1, nullptr);
}

bool is_part(const PromptStep& step) { return step.kind == StepKind::kText || step.kind == StepKind::kPicture; }

// Adds texts and pictures in one call, which reads known pictures while others are computed.
void add_parts(ocellus_session* session, std::span<const PromptStep> steps, bool* was_cancelled) {
  std::vector<ocellus_part> parts;
  for (const PromptStep& step : steps) {
    parts.push_back({.kind = step.kind == StepKind::kPicture ? OCELLUS_PART_IMAGE : OCELLUS_PART_TEXT,
                     .flags = step.flags,
                     .bytes = step.content.data(),
                     .byte_count = std::ssize(step.content),
                     .frame = nullptr,
                     .clip = nullptr});
  }
  int32_t failed = -1;
  const ocellus_status status =
      ocellus_session_add_parts(session, parts.data(), static_cast<int32_t>(parts.size()), &failed);
  check_added(status, failed >= 0 ? steps[static_cast<size_t>(failed)].param : "messages", was_cancelled);
}

void check_entry(ocellus_status status, std::string_view param, bool* was_cancelled) {
  if (status == OCELLUS_BAD_FILE) throw no_such_file(std::string(param));  // damaged, or removed just now
  check_added(status, param, was_cancelled);
}

// An answer that goes on has no thought before it, so a model that always thinks gets an empty one.
ocellus_status begin_message(ocellus_session* session, const ocellus_model* model, const PromptStep& step) {
  const auto role = static_cast<int32_t>(step.flags & ~kGoesOn);
  ocellus_status status = ocellus_session_begin_message(session, role);
  if (status != OCELLUS_OK || role != OCELLUS_ROLE_ASSISTANT || (step.flags & kGoesOn) == 0) return status;
  ocellus_model_facts facts;
  status = ocellus_model_get_facts(model, &facts);
  if (status != OCELLUS_OK || facts.thinking != OCELLUS_THINKS_ALWAYS) return status;
  constexpr std::string_view kThought = "<think>\n\n</think>\n\n";
  return ocellus_session_add_text(session, kThought.data(), std::ssize(kThought), OCELLUS_TEXT_PARSE_SPECIAL);
}

ocellus_status add_entry(ocellus_session* session, const PromptStep& step) {
  const ocellus_part entry = {.kind = OCELLUS_PART_ENTRY,
                              .flags = step.flags,
                              .bytes = step.content.data(),
                              .byte_count = std::ssize(step.content),
                              .frame = nullptr,
                              .clip = nullptr};
  return ocellus_session_add_parts(session, &entry, 1, nullptr);
}

void add_step(ocellus_session* session, const ocellus_model* model, const PromptStep& step, bool* was_cancelled) {
  const auto check = [&](ocellus_status status) { check_added(status, step.param, was_cancelled); };
  switch (step.kind) {
    case StepKind::kThink: return check(ocellus_session_let_think(session, static_cast<int32_t>(step.flags)));
    case StepKind::kBegin: return check(begin_message(session, model, step));
    case StepKind::kEnd: return check(ocellus_session_end_message(session));
    case StepKind::kEndTurn: return check(ocellus_session_end_turn(session));
    case StepKind::kOpenAnswer: return check(ocellus_session_open_answer(session));
    case StepKind::kClip: return check(add_clip(session, *step.clip, step.flags));
    case StepKind::kTokens: return check(add_tokens(session, step.content));
    case StepKind::kEntry: return check_entry(add_entry(session, step), step.param, was_cancelled);
    case StepKind::kText:
    case StepKind::kPicture: return add_parts(session, {&step, 1}, was_cancelled);
  }
}

}  // namespace

void add_kept_picture(ocellus_session* session, std::string_view key, std::string_view param, bool* was_cancelled) {
  check_entry(ocellus_session_add_library_image(session, std::string(key).c_str()), param, was_cancelled);
}

void add_answer_text(ocellus_session* session, const std::string& text, bool* was_cancelled) {
  check_added(ocellus_session_add_text(session, text.data(), std::ssize(text), 0), "", was_cancelled);
}

void add_steps(ocellus_session* session, const ocellus_model* model, std::span<const PromptStep> steps,
               bool* was_cancelled) {
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
