#include "apps/serve/chat_prompt.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/serve/kept_files.h"
#include "apps/serve/request_error.h"

namespace ocellus::app {
namespace {

void check_added(ocellus_status status, const std::string& param, bool* was_cancelled) {
  if (status == OCELLUS_OK) return;
  *was_cancelled = status == OCELLUS_CANCELLED;
  throw library_error(status, param);
}

std::vector<int32_t> tokenize_answer(const ocellus_model* model, const std::string& text) {
  std::vector<int32_t> tokens(text.size() + 32);  // at most one per byte, plus those around the text
  int32_t count = 0;
  const ocellus_status status =
      ocellus_model_tokenize(model, text.data(), static_cast<int64_t>(text.size()), OCELLUS_TEXT_ANSWER, tokens.data(),
                             static_cast<int32_t>(tokens.size()), &count);
  if (status != OCELLUS_OK) throw library_error(status, "messages");
  tokens.resize(static_cast<size_t>(count));
  return tokens;
}

// Adds an answer as it stands in a session: its end token is written by the turn that follows.
void add_answer(ocellus_session* session, const ocellus_model* model, const std::string& text, bool* was_cancelled) {
  std::vector<int32_t> tokens = tokenize_answer(model, text);
  const size_t end_tokens = tokenize_answer(model, "").size();
  tokens.resize(tokens.size() - std::min(end_tokens, tokens.size()));
  if (tokens.empty()) return;
  check_added(ocellus_session_add_tokens(session, tokens.data(), static_cast<int32_t>(tokens.size())), "messages",
              was_cancelled);
}

// Adds texts and pictures in one call, which reads known pictures while others are computed.
void add_given(ocellus_session* session, std::span<const ChatPart> parts, bool* was_cancelled) {
  std::vector<ocellus_part> all;
  for (const ChatPart& part : parts) {
    all.push_back({.kind = part.is_image ? OCELLUS_PART_IMAGE : OCELLUS_PART_TEXT,
                   .flags = 0,
                   .bytes = part.content().data(),
                   .byte_count = std::ssize(part.content()),
                   .frame = nullptr,
                   .clip = nullptr});
  }
  if (all.empty()) return;
  int32_t failed = -1;
  const ocellus_status status =
      ocellus_session_add_parts(session, all.data(), static_cast<int32_t>(all.size()), &failed);
  check_added(status, failed >= 0 ? parts[static_cast<size_t>(failed)].param : "messages", was_cancelled);
}

void add_turn(ocellus_session* session, const std::vector<ChatPart>& parts, bool* was_cancelled) {
  check_added(ocellus_session_begin_turn(session), "messages", was_cancelled);
  for (auto part = parts.begin(); part != parts.end();) {
    const auto kept = std::find_if(part, parts.end(), [](const ChatPart& one) { return !one.key.empty(); });
    add_given(session, {part, kept}, was_cancelled);
    part = kept;
    if (part != parts.end()) {
      add_kept_picture(session, part->key, part->param, was_cancelled);
      ++part;
    }
  }
  check_added(ocellus_session_end_turn(session), "messages", was_cancelled);
}

}  // namespace

void add_kept_picture(ocellus_session* session, const std::string& key, const std::string& param, bool* was_cancelled) {
  const ocellus_status status = ocellus_session_add_library_image(session, key.c_str());
  if (status == OCELLUS_BAD_FILE) throw no_such_file(param);  // damaged, or removed just now
  check_added(status, param, was_cancelled);
}

void add_answer_text(ocellus_session* session, const std::string& text, bool* was_cancelled) {
  check_added(ocellus_session_add_text(session, text.data(), std::ssize(text), 0), "", was_cancelled);
}

void add_conversation(ocellus_session* session, const ocellus_model* model, ChatRequest* request, bool* was_cancelled) {
  *was_cancelled = false;
  if (!request->system.empty()) {
    check_added(ocellus_session_add_system(session, request->system.data(), std::ssize(request->system)), "messages",
                was_cancelled);
  }
  int64_t images = 0;
  const std::vector<ChatTurn> turns = std::exchange(request->turns, {});
  for (size_t i = 0; i < turns.size(); ++i) {
    add_turn(session, arrange_parts(turns[i].parts, images), was_cancelled);
    images += count_images(turns[i].parts);
    if (i + 1 < turns.size()) add_answer(session, model, turns[i].answer, was_cancelled);
  }
}

}  // namespace ocellus::app
