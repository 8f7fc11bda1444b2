#include "apps/watch/frame_turn.h"

#include <memory>

#include "apps/base/failure.h"
#include "apps/base/stop_request.h"
#include "apps/base/trimmed_text.h"
#include "apps/setup/clip_part.h"
#include "apps/setup/prompt.h"

namespace ocellus::app {
namespace {

struct Receiver {
  TrimmedText text;
  TrimmedText thought;
  const TextSink* sink;
};

// Must not throw: a sink that fails ends the answer.
int receive(void* user, const char* text, int32_t text_bytes) noexcept {
  auto* receiver = static_cast<Receiver*>(user);
  try {
    const std::string piece = receiver->text.add(std::string_view(text, static_cast<size_t>(text_bytes)));
    if (!piece.empty() && *receiver->sink) (*receiver->sink)(piece);
  } catch (...) {
    return 1;
  }
  return 0;
}

int receive_thought(void* user, const char* text, int32_t text_bytes) noexcept {
  try {
    (void)static_cast<Receiver*>(user)->thought.add(std::string_view(text, static_cast<size_t>(text_bytes)));
  } catch (...) {
    return 1;
  }
  return 0;
}

ocellus_part text_part(const std::string& text) {
  return {.kind = OCELLUS_PART_TEXT,
          .flags = 0,
          .bytes = text.data(),
          .byte_count = std::ssize(text),
          .frame = nullptr,
          .clip = nullptr};
}

// Returns success, cancelling and deadlines; throws the rest as failures.
ocellus_status check_turn(ocellus_status status) {
  if (status != OCELLUS_CANCELLED && status != OCELLUS_DEADLINE) check(status);
  return status;
}

}  // namespace

std::vector<TurnPart> place_in_prompt(const std::string& prompt, const TurnPart& shown) {
  const size_t mark = prompt.find(kImageMark);
  if (mark == std::string::npos) return {shown, {.text = prompt}};
  std::vector<TurnPart> parts;
  if (mark > 0) parts.push_back({.text = prompt.substr(0, mark)});
  parts.push_back(shown);
  const std::string rest = prompt.substr(mark + sizeof kImageMark - 1);
  if (!rest.empty()) parts.push_back({.text = rest});
  return parts;
}

ocellus_status add_turn_parts(ocellus_session* session, const std::vector<TurnPart>& parts) {
  if (stop_requested()) return OCELLUS_CANCELLED;  // a stop before the turn was cleared when it began
  std::vector<ocellus_frame> views(parts.size());
  std::vector<std::unique_ptr<ClipPart>> clips;
  std::vector<ocellus_part> all;
  for (size_t i = 0; i < parts.size(); ++i) {
    const TurnPart& part = parts[i];
    if (!part.clip.empty()) {
      clips.push_back(std::make_unique<ClipPart>(part.clip));
      all.push_back(clips.back()->get());
    } else if (part.frame != nullptr) {
      all.push_back(frame_part(*part.frame, &views[i]));
    } else {
      all.push_back(text_part(part.text));
    }
  }
  return check_turn(ocellus_session_add_parts(session, all.data(), static_cast<int32_t>(all.size()), nullptr));
}

TurnAnswer answer_frames(ocellus_session* session, const CommonOptions& options, const TextSink& sink) {
  TurnAnswer answer;
  answer.status = stop_requested() ? OCELLUS_CANCELLED : check_turn(ocellus_session_end_turn(session));
  if (answer.status != OCELLUS_OK) return answer;
  Receiver receiver = {.text = {}, .thought = {}, .sink = &sink};
  ocellus_generate_params params = generate_params(options);
  params.on_text = receive;
  params.on_thought = receive_thought;
  params.user = &receiver;
  params.thought_user = &receiver;
  answer.status = check_turn(ocellus_session_generate(session, &params, &answer.stats));
  answer.text = receiver.text.text();
  answer.thought = receiver.thought.text();
  return answer;
}

}  // namespace ocellus::app
