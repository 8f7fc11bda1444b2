#include "apps/serve/reply_form.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const char* text) { return text == nullptr ? Json(nullptr) : Json(text); }

}  // namespace

const char* id_prefix(ReplyForm form) { return form == ReplyForm::kChat ? "chatcmpl-" : "cmpl-"; }

const char* object_name(ReplyForm form, bool is_piece) {
  if (form == ReplyForm::kCompletion) return "text_completion";
  return is_piece ? "chat.completion.chunk" : "chat.completion";
}

Json choice_json(ReplyForm form, int32_t index, const ReplyChoice& choice) {
  Json json = {{"index", index}};
  if (form == ReplyForm::kChat) {
    json["message"] = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
    if (!choice.thought.empty()) json["message"]["reasoning_content"] = choice.thought;
  } else {
    json["text"] = choice.text;
  }
  json["logprobs"] = nullptr;
  json["finish_reason"] = or_null(choice.reason);
  return json;
}

Json piece_json(ReplyForm form, int32_t index, const char* field, const std::string& text, const char* reason) {
  Json json = {{"index", index}};
  if (form == ReplyForm::kChat) {
    json["delta"] = Json::object();
    if (field != nullptr) json["delta"][field] = text;
  } else {
    json["text"] = text;
  }
  json["logprobs"] = nullptr;
  json["finish_reason"] = or_null(reason);
  return json;
}

}  // namespace ocellus::app
