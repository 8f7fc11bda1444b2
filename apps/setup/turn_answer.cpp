#include "apps/setup/turn_answer.h"

#include "apps/base/failure.h"
#include "apps/base/stop_request.h"
#include "apps/base/trimmed_text.h"
#include "apps/setup/setup.h"

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

ocellus_status check_turn(Status status) {
  if (status.code() != OCELLUS_CANCELLED && status.code() != OCELLUS_DEADLINE) check(status);
  return status.code();
}

TurnAnswer end_turn(Session* session, const CommonOptions& options, const TextSink& sink) {
  TurnAnswer answer;
  answer.status = stop_requested() ? OCELLUS_CANCELLED : check_turn(session->end_turn());
  if (answer.status != OCELLUS_OK) return answer;
  Receiver receiver = {
      .text = TrimmedText(options.constrain.given == nullptr), .thought = TrimmedText(), .sink = &sink};
  const ocellus_generate_params params = receive_with(options, &receiver);
  answer.status = check_turn(session->generate(params, nullptr, &answer.stats));
  answer.text = receiver.text.text();
  answer.thought = receiver.thought.text();
  return answer;
}

std::vector<TurnAnswer> end_turns(const std::vector<Session*>& sessions, const CommonOptions& options) {
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
    if (status == OCELLUS_OK) status = check_turn(sessions[i]->end_turn());
    params.push_back(receive_with(options, &receivers[i]));
  }
  if (status == OCELLUS_OK) status = check_turn(batch_generate(handles_of(sessions), params, stats));
  for (size_t i = 0; i < sessions.size(); ++i) {
    answers[i] = {status, receivers[i].text.text(), receivers[i].thought.text(), stats[i]};
  }
  return answers;
}

}  // namespace ocellus::app
