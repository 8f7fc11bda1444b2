#include "apps/setup/turn_answer.h"

#include "apps/base/failure.h"
#include "apps/base/stop_request.h"
#include "apps/base/trimmed_text.h"

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

ocellus_generate_params receive_with(const CommonOptions& options, Receiver* receiver) {
  ocellus_generate_params params = generate_params(options);
  params.on_text = receive;
  params.on_thought = receive_thought;
  params.user = receiver;
  params.thought_user = receiver;
  return params;
}

}  // namespace

ocellus_status check_turn(ocellus_status status) {
  if (status != OCELLUS_CANCELLED && status != OCELLUS_DEADLINE) check(status);
  return status;
}

TurnAnswer end_turn(ocellus_session* session, const CommonOptions& options, const TextSink& sink) {
  TurnAnswer answer;
  answer.status = stop_requested() ? OCELLUS_CANCELLED : check_turn(ocellus_session_end_turn(session));
  if (answer.status != OCELLUS_OK) return answer;
  Receiver receiver = {
      .text = TrimmedText(options.constrain.given == nullptr), .thought = TrimmedText(), .sink = &sink};
  const ocellus_generate_params params = receive_with(options, &receiver);
  answer.status = check_turn(ocellus_session_generate(session, &params, &answer.stats));
  answer.text = receiver.text.text();
  answer.thought = receiver.thought.text();
  return answer;
}

std::vector<TurnAnswer> end_turns(const std::vector<ocellus_session*>& sessions, const CommonOptions& options) {
  std::vector<TurnAnswer> answers(sessions.size());
  if (sessions.empty()) return answers;
  const TextSink none;
  std::vector<Receiver> receivers(
      sessions.size(),
      {.text = TrimmedText(options.constrain.given == nullptr), .thought = TrimmedText(), .sink = &none});
  std::vector<ocellus_generate_params> params;
  std::vector<ocellus_generate_stats> stats(sessions.size());
  ocellus_status status = stop_requested() ? OCELLUS_CANCELLED : OCELLUS_OK;
  for (size_t i = 0; i < sessions.size(); ++i) {
    if (status == OCELLUS_OK) status = check_turn(ocellus_session_end_turn(sessions[i]));
    params.push_back(receive_with(options, &receivers[i]));
  }
  if (status == OCELLUS_OK) {
    status = check_turn(
        ocellus_batch_generate(sessions.data(), params.data(), stats.data(), static_cast<int32_t>(sessions.size())));
  }
  for (size_t i = 0; i < sessions.size(); ++i) {
    answers[i] = {status, receivers[i].text.text(), receivers[i].thought.text(), stats[i]};
  }
  return answers;
}

}  // namespace ocellus::app
