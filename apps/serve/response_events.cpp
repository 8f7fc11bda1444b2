#include "apps/serve/response_events.h"

#include <utility>

#include "apps/serve/reply_form.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kInProgress[] = "in_progress", kCompleted[] = "completed", kIncomplete[] = "incomplete";

std::string dump(const Json& object) { return object.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json usage_json(const ChatUsage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

}  // namespace

void ResponseEvents::event(const char* type, Json fields, std::string_view response_text) {
  if (sequence_ == 0) {  // two events come before all others
    sequence_ = 2;
    const std::string now = response(kInProgress, Json::object());
    for (const int64_t number : {0, 1})
      write_event(number == 0 ? "response.created" : "response.in_progress", number, Json::object(), now);
  }
  write_event(type, sequence_++, std::move(fields), response_text);
}

void ResponseEvents::write_event(const char* type, int64_t number, Json fields, std::string_view response) {
  Json json = {{"type", type}, {"sequence_number", number}};
  json.update(fields);
  std::string data = dump(json);
  if (!response.empty()) data.replace(data.size() - 1, 1, ",\"response\":" + std::string(response) + "}");
  events_ += "event: " + std::string(type) + "\ndata: " + data + "\n\n";
}

std::string ResponseEvents::response(const char* status, const Json& more) const {
  const bool is_cut = std::string_view(status) == kIncomplete;
  Json json = {{"id", "resp_" + facts_.identifier},
               {"object", "response"},
               {"created_at", facts_.created_s},
               {"status", status},
               {"background", false},
               {"error", nullptr},
               {"incomplete_details", is_cut ? Json{{"reason", "max_output_tokens"}} : Json(nullptr)},
               {"model", facts_.model},
               {"previous_response_id", nullptr},
               {"store", false},
               {"output", output_},
               {"usage", nullptr}};
  json.update(more);
  std::string text = dump(json);
  if (!facts_.echoed.empty()) text.replace(text.size() - 1, 1, "," + facts_.echoed + "}");
  return text;
}

Json ResponseEvents::part() const {
  if (open_ == Open::kThought) return {{"type", "reasoning_text"}, {"text", text_}};
  return {{"type", "output_text"}, {"text", text_}, {"annotations", Json::array()}, {"logprobs", logprobs_}};
}

Json ResponseEvents::item(const char* status, Json content) const {
  if (open_ == Open::kThought) {
    return {{"id", item_id_},
            {"type", "reasoning"},
            {"summary", Json::array()},
            {"content", std::move(content)},
            {"status", status}};
  }
  return {{"id", item_id_},
          {"type", "message"},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(content)}};
}

void ResponseEvents::item_event(const char* type, const Json& item) {
  event(type, {{"output_index", output_.size()}, {"item", item}});
}

void ResponseEvents::part_event(const char* type, Json fields) {
  Json place = {{"item_id", item_id_}, {"output_index", output_.size()}, {"content_index", 0}};
  place.update(fields);
  event(type, std::move(place));
}

void ResponseEvents::open(Open kind) {
  if (open_ == kind) return;
  close(kCompleted);
  open_ = kind;
  item_id_ = (kind == Open::kThought ? "rs_" : "msg_") + make_identifier();
  item_event("response.output_item.added", item(kInProgress, Json::array()));
  part_event("response.content_part.added", {{"part", part()}});
}

// Ends the open item, if there is one.
void ResponseEvents::close(const char* status) {
  if (open_ == Open::kNothing) return;
  if (open_ == Open::kThought) {
    part_event("response.reasoning_text.done", {{"text", text_}});
  } else {
    part_event("response.output_text.done", {{"text", text_}, {"logprobs", logprobs_}});
  }
  part_event("response.content_part.done", {{"part", part()}});
  Json done = item(status, Json::array({part()}));
  item_event("response.output_item.done", done);
  output_.push_back(std::move(done));
  open_ = Open::kNothing;
  text_.clear();
  logprobs_ = Json::array();
}

void ResponseEvents::add_thought(const std::string& text) {
  if (text.empty()) return;
  open(Open::kThought);
  text_ += text;
  part_event("response.reasoning_text.delta", {{"delta", text}});
}

void ResponseEvents::add_text(const std::string& text, const std::vector<TokenLogprob>& tokens) {
  if (text.empty() && tokens.empty()) return;
  open(Open::kText);
  text_ += text;
  const Json logprobs = chat_logprobs(tokens)["content"];
  logprobs_.insert(logprobs_.end(), logprobs.begin(), logprobs.end());
  part_event("response.output_text.delta", {{"delta", text}, {"logprobs", logprobs}});
}

void ResponseEvents::add_calls(const std::vector<ToolCall>& calls) {
  if (!calls.empty()) close(kCompleted);
  for (const ToolCall& call : calls) {
    item_id_ = "fc_" + make_identifier();
    Json item = {{"id", item_id_},        {"type", "function_call"},
                 {"status", kInProgress}, {"call_id", "call_" + make_identifier()},
                 {"name", call.name},     {"arguments", ""}};
    const Json place = {{"item_id", item_id_}, {"output_index", output_.size()}};
    const auto arguments_event = [&](const char* type, Json fields) {
      fields.update(place);
      event(type, std::move(fields));
    };
    item_event("response.output_item.added", item);
    arguments_event("response.function_call_arguments.delta", {{"delta", call.arguments}});
    arguments_event("response.function_call_arguments.done", {{"name", call.name}, {"arguments", call.arguments}});
    item["status"] = kCompleted;
    item["arguments"] = call.arguments;
    item_event("response.output_item.done", item);
    output_.push_back(std::move(item));
  }
}

void ResponseEvents::end_items(bool is_cut) {
  is_cut_ = is_cut;
  const bool has_answer = !output_.empty() && output_.back()["type"] != "reasoning";
  if (open_ != Open::kText && !has_answer) open(Open::kText);  // an answer may be empty
  close(is_cut ? kIncomplete : kCompleted);
}

std::string ResponseEvents::whole(const ChatUsage& usage, const Json& more) const {
  Json all = {{"usage", usage_json(usage)}};
  all.update(more);
  return response(is_cut_ ? kIncomplete : kCompleted, all);
}

void ResponseEvents::end(const ChatUsage& usage, const Json& more) {
  event(is_cut_ ? "response.incomplete" : "response.completed", Json::object(), whole(usage, more));
}

void ResponseEvents::fail(const std::string& sentence) {
  const Json error = {{"error", {{"code", "server_error"}, {"message", sentence}}}};
  event("response.failed", Json::object(), response("failed", error));
}

}  // namespace ocellus::app
