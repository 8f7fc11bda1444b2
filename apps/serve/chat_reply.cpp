#include "apps/serve/chat_reply.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& object) { return object.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json usage_json(const ChatUsage& usage) {
  Json json = {{"prompt_tokens", usage.prompt_tokens},
               {"completion_tokens", usage.completion_tokens},
               {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
  json["prompt_tokens_details"] = {{"cached_tokens", usage.cached_tokens}};
  if (usage.reasoning_tokens > 0) json["completion_tokens_details"] = {{"reasoning_tokens", usage.reasoning_tokens}};
  return json;
}

std::string event(const Json& object) { return "data: " + dump(object) + "\n\n"; }

Json retrieved_json(const std::vector<RetrievedPicture>& pictures) {
  Json list = Json::array();
  for (const RetrievedPicture& one : pictures) {
    list.push_back({{"query", one.query}, {"id", one.key}, {"score", one.score}, {"caption", one.caption}});
  }
  return list;
}

}  // namespace

std::string choose_request_id(const HttpRequest& request) {
  const std::string_view given = request.header("x-request-id");
  const bool is_sound = !given.empty() && given.size() <= 64 && std::all_of(given.begin(), given.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  });
  return is_sound ? std::string(given) : "req-" + make_identifier();
}

ChatReply::ChatReply(std::shared_ptr<HttpExchange> exchange, std::string request_id)
    : exchange_(std::move(exchange)),
      request_id_(std::move(request_id)),
      identifier_(make_identifier()),
      created_s_(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
                     .count()) {}

void ChatReply::set_style(Style style) {
  style_ = std::move(style);
  if (style_.form != ReplyForm::kResponse) return;
  response_.emplace(ResponseEvents::Facts{
      .identifier = identifier_, .model = style_.model, .created_s = created_s_, .echoed = std::move(style_.echoed)});
}

// Writes those that were noted, if this is a stream.
bool ChatReply::write_events() {
  const std::string events = response_->take();
  if (!style_.stream) return exchange_->is_open();
  if (has_begun_) return events.empty() ? exchange_->is_open() : exchange_->write(events);
  has_begun_ = true;
  exchange_->begin_stream(
      {.content_type = "text/event-stream", .body = events, .headers = {{"x-request-id", request_id_}}});
  return exchange_->is_open();
}

// Members that are no one else's.
Json ChatReply::further() const {
  Json json = Json::object();
  if (!retrieved_.empty()) json["retrieved"] = retrieved_json(retrieved_);
  return json;
}

// An object without usage: of a whole answer or, in a stream, of one event.
Json ChatReply::object(Json choices) const {
  Json json = {{"id", id_prefix(style_.form) + identifier_},
               {"object", object_name(style_.form, style_.stream)},
               {"created", created_s_},
               {"model", style_.model},
               {"system_fingerprint", style_.fingerprint}};
  json["choices"] = std::move(choices);
  return json;
}

void ChatReply::begin_choice() {
  if (has_begun_choice_) return;
  has_begun_choice_ = true;
  std::string first;
  if (style_.form == ReplyForm::kChat) {
    Json choice = piece_json(style_.form, static_cast<int32_t>(ended_.size()), {.field = "role", .text = "assistant"});
    choice["delta"]["content"] = "";
    Json json = object(Json::array({choice}));
    if (style_.include_usage) json["usage"] = nullptr;
    first = event(json);
  }
  if (has_begun_) return (void)exchange_->write(first);
  has_begun_ = true;
  exchange_->begin_stream(
      {.content_type = "text/event-stream", .body = first, .headers = {{"x-request-id", request_id_}}});
}

bool ChatReply::add(const std::string& text) {
  if (response_) {
    if (text.empty()) return exchange_->is_open();
    response_->add_text(text, std::exchange(choice_.tokens, {}));
    return write_events();
  }
  if (style_.stream) return write_piece({.field = "content", .text = text});
  choice_.text += text;
  return exchange_->is_open();
}

bool ChatReply::add_thought(const std::string& text) {
  if (response_) {
    response_->add_thought(text);
    return write_events();
  }
  if (style_.stream) return write_piece({.field = "reasoning_content", .text = text});
  choice_.thought += text;
  return exchange_->is_open();
}

void ChatReply::add_calls(const std::vector<ToolCall>& calls) {
  choice_.calls = calls;
  if (response_) {
    response_->add_calls(calls);
    return (void)write_events();
  }
  if (style_.stream && !calls.empty()) (void)write_piece({.calls = calls});
}

void ChatReply::add_scores(std::vector<Choice> scores) {
  const auto best = std::max_element(scores.begin(), scores.end(), [](const Choice& a, const Choice& b) {
    return a.log_probability < b.log_probability;
  });
  choice_.text = best->text;
  choice_.scores = std::move(scores);
}

bool ChatReply::write_piece(const ReplyPiece& piece) {
  begin_choice();
  if (piece.text.empty() && piece.calls.empty() && piece.reason == nullptr) return exchange_->is_open();
  Json choice = piece_json(style_.form, static_cast<int32_t>(ended_.size()), piece);
  if (!choice_.tokens.empty()) {
    choice["logprobs"] = logprobs_json(style_.form, std::exchange(choice_.tokens, {}), &choice_.offset);
  }
  Json json = object(Json::array({std::move(choice)}));
  if (style_.include_usage) json["usage"] = nullptr;
  if (piece.reason != nullptr && !retrieved_.empty()) json["retrieved"] = retrieved_json(retrieved_);
  return exchange_->write(event(json));
}

void ChatReply::end_choice(const char* reason) {
  if (response_) {
    response_->add_text("", std::exchange(choice_.tokens, {}));
    response_->end_items(std::string_view(reason) == "length");
    return (void)write_events();
  }
  if (!choice_.calls.empty() && std::string_view(reason) == "stop") reason = "tool_calls";
  if (style_.stream) (void)write_piece({.reason = reason});
  choice_.reason = reason;
  ended_.push_back(std::exchange(choice_, {}));
  has_begun_choice_ = false;
}

void ChatReply::finish(const ChatUsage& usage) {
  if (response_ && style_.stream) {
    response_->end(usage, further());
    (void)write_events();
    return exchange_->end();
  }
  if (response_) return send(ReadyAnswer(response_->whole(usage, further())));
  if (style_.stream) return end_stream(usage);
  Json choices = Json::array();
  for (const ReplyChoice& choice : ended_) {
    choices.push_back(choice_json(style_.form, static_cast<int32_t>(choices.size()), choice, style_.has_logprobs));
  }
  Json json = object(std::move(choices));
  json["usage"] = usage_json(usage);
  json.update(further());
  send(json);
}

void ChatReply::end_stream(const ChatUsage& usage) {
  std::string last;
  if (style_.include_usage) {
    Json json = object(Json::array());
    json["usage"] = usage_json(usage);
    last = event(json);
  }
  (void)exchange_->write(last + "data: [DONE]\n\n");
  exchange_->end();
}

void ChatReply::send(ReadyAnswer answer) {
  exchange_->respond({.content_type = "application/json",
                      .body = answer.pieces ? "" : (answer.text.empty() ? dump(answer.json) : answer.text) + "\n",
                      .headers = {{"x-request-id", request_id_}},
                      .more = std::move(answer.pieces)});
}

void ChatReply::note_retrieved(const std::vector<RetrievedPicture>& pictures) {
  retrieved_.insert(retrieved_.end(), pictures.begin(), pictures.end());
}

void ChatReply::fail(const RequestError& error) {
  if (has_begun_) {
    if (response_) response_->fail(error.what());
    (void)exchange_->write(response_ ? response_->take() : "data: " + error_json(error) + "\n\n");
    return exchange_->end();
  }
  HttpResponse response = error_reply(error);
  response.headers.emplace_back("x-request-id", request_id_);
  exchange_->respond(std::move(response));
}

}  // namespace ocellus::app
