#include "apps/serve/chat_reply.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

// Returns 24 hexadecimal digits, unique in this process and most likely between processes.
std::string make_identifier() {
  static const uint64_t process = std::random_device()() ^ (uint64_t{std::random_device()()} << 32);
  static std::atomic<uint32_t> count = 0;
  char text[32];
  std::snprintf(text, sizeof text, "%016llx%08x", static_cast<unsigned long long>(process), ++count);
  return text;
}

std::string dump(const Json& object) { return object.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json usage_json(const ChatUsage& usage) {
  Json json = {{"prompt_tokens", usage.prompt_tokens},
               {"completion_tokens", usage.completion_tokens},
               {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
  if (usage.reasoning_tokens > 0) json["completion_tokens_details"] = {{"reasoning_tokens", usage.reasoning_tokens}};
  return json;
}

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
      completion_id_("chatcmpl-" + make_identifier()),
      created_s_(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
                     .count()) {}

std::string ChatReply::event(const std::string& delta_json, const char* reason) const {
  Json choice = {{"index", 0}, {"delta", Json::parse(delta_json)}, {"logprobs", nullptr}};
  choice["finish_reason"] = reason == nullptr ? Json(nullptr) : Json(reason);
  Json object = {{"id", completion_id_},
                 {"object", "chat.completion.chunk"},
                 {"created", created_s_},
                 {"model", style_.model},
                 {"choices", Json::array({choice})}};
  if (style_.include_usage) object["usage"] = nullptr;
  if (reason != nullptr && !retrieved_.empty()) object["retrieved"] = retrieved_json(retrieved_);
  return "data: " + dump(object) + "\n\n";
}

void ChatReply::begin_stream() {
  if (has_begun_) return;
  has_begun_ = true;
  exchange_->begin_stream({.content_type = "text/event-stream",
                           .body = event(R"({"role":"assistant","content":""})", nullptr),
                           .headers = {{"x-request-id", request_id_}}});
}

bool ChatReply::add(const std::string& text) {
  if (!style_.stream) {
    text_ += text;
    return exchange_->is_open();
  }
  return write_delta("content", text);
}

bool ChatReply::add_thought(const std::string& text) {
  if (style_.stream) return write_delta("reasoning_content", text);
  thought_ += text;
  return exchange_->is_open();
}

bool ChatReply::write_delta(const char* field, const std::string& text) {
  begin_stream();
  if (text.empty()) return exchange_->is_open();
  return exchange_->write(event(dump(Json{{field, text}}), nullptr));
}

void ChatReply::finish(const char* reason, const ChatUsage& usage) {
  if (style_.stream) {
    begin_stream();
    std::string last = event("{}", reason);
    if (style_.include_usage) {
      const Json object = {{"id", completion_id_},  {"object", "chat.completion.chunk"}, {"created", created_s_},
                           {"model", style_.model}, {"choices", Json::array({})},        {"usage", usage_json(usage)}};
      last += "data: " + dump(object) + "\n\n";
    }
    (void)exchange_->write(last + "data: [DONE]\n\n");
    return exchange_->end();
  }
  Json message = {{"role", "assistant"}, {"content", text_}, {"refusal", nullptr}};
  if (!thought_.empty()) message["reasoning_content"] = thought_;
  const Json choice = {{"index", 0}, {"message", message}, {"logprobs", nullptr}, {"finish_reason", reason}};
  Json object = {{"id", completion_id_},  {"object", "chat.completion"},      {"created", created_s_},
                 {"model", style_.model}, {"choices", Json::array({choice})}, {"usage", usage_json(usage)}};
  if (!retrieved_.empty()) object["retrieved"] = retrieved_json(retrieved_);
  send(object);
}

void ChatReply::send(const Json& object) {
  exchange_->respond(
      {.content_type = "application/json", .body = dump(object) + "\n", .headers = {{"x-request-id", request_id_}}});
}

void ChatReply::note_retrieved(const std::vector<RetrievedPicture>& pictures) {
  retrieved_.insert(retrieved_.end(), pictures.begin(), pictures.end());
}

void ChatReply::fail(const RequestError& error) {
  if (has_begun_) {
    (void)exchange_->write("data: " + error_json(error) + "\n\n");
    return exchange_->end();
  }
  HttpResponse response = error_reply(error);
  response.headers.emplace_back("x-request-id", request_id_);
  exchange_->respond(std::move(response));
}

}  // namespace ocellus::app
