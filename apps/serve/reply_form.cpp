#include "apps/serve/reply_form.h"

#include <atomic>
#include <cstdio>
#include <random>

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const char* text) { return text == nullptr ? Json(nullptr) : Json(text); }

// In a stream calls are numbered.
Json calls_json(const std::vector<ToolCall>& calls, bool is_piece) {
  Json list = Json::array();
  for (const ToolCall& call : calls) {
    Json json = Json::object();
    if (is_piece) json["index"] = list.size();
    json["id"] = "call_" + make_identifier();
    json["type"] = "function";
    json["function"] = {{"name", call.name}, {"arguments", call.arguments}};
    list.push_back(std::move(json));
  }
  return list;
}

Json scores_json(const std::vector<Choice>& scores) {
  Json list = Json::array();
  for (const Choice& one : scores) {
    list.push_back({{"text", one.text},
                    {"probability", one.probability},
                    {"logprob", one.log_probability},
                    {"tokens", one.tokens}});
  }
  return list;
}

}  // namespace

std::string make_identifier() {
  static const uint64_t process = std::random_device()() ^ (uint64_t{std::random_device()()} << 32);
  static std::atomic<uint32_t> count = 0;
  char text[32];
  std::snprintf(text, sizeof text, "%016llx%08x", static_cast<unsigned long long>(process), ++count);
  return text;
}

const char* id_prefix(ReplyForm form) { return form == ReplyForm::kChat ? "chatcmpl-" : "cmpl-"; }

const char* object_name(ReplyForm form, bool is_piece) {
  if (form == ReplyForm::kCompletion) return "text_completion";
  return is_piece ? "chat.completion.chunk" : "chat.completion";
}

Json choice_json(ReplyForm form, int32_t index, const ReplyChoice& choice, bool has_logprobs) {
  Json json = {{"index", index}};
  if (form == ReplyForm::kChat) {
    const bool is_silent = choice.text.empty() && !choice.calls.empty();
    json["message"] = {
        {"role", "assistant"}, {"content", is_silent ? Json(nullptr) : Json(choice.text)}, {"refusal", nullptr}};
    if (!choice.thought.empty()) json["message"]["reasoning_content"] = choice.thought;
    if (!choice.calls.empty()) json["message"]["tool_calls"] = calls_json(choice.calls, /*is_piece=*/false);
  } else {
    json["text"] = choice.text;
  }
  int64_t offset = choice.offset;
  json["logprobs"] = has_logprobs ? logprobs_json(form, choice.tokens, &offset) : Json(nullptr);
  if (!choice.scores.empty()) json["scores"] = scores_json(choice.scores);
  json["finish_reason"] = or_null(choice.reason);
  return json;
}

Json piece_json(ReplyForm form, int32_t index, const ReplyPiece& piece) {
  Json json = {{"index", index}};
  if (form == ReplyForm::kChat) {
    json["delta"] = Json::object();
    if (piece.field != nullptr) json["delta"][piece.field] = piece.text;
    if (!piece.calls.empty()) json["delta"]["tool_calls"] = calls_json(piece.calls, /*is_piece=*/true);
  } else {
    json["text"] = piece.text;
  }
  json["logprobs"] = nullptr;
  json["finish_reason"] = or_null(piece.reason);
  return json;
}

Json logprobs_json(ReplyForm form, const std::vector<TokenLogprob>& tokens, int64_t* offset) {
  return form == ReplyForm::kChat ? chat_logprobs(tokens) : completion_logprobs(tokens, offset);
}

}  // namespace ocellus::app
