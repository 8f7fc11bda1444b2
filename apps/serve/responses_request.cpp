#include "apps/serve/responses_request.h"

#include <utility>

#include "apps/base/plain_text.h"
#include "apps/serve/chat_messages.h"
#include "apps/serve/conversation_reader.h"
#include "apps/serve/data_url.h"
#include "apps/serve/request_error.h"

namespace ocellus::app {
namespace {

constexpr std::string_view kOwn[] = {"input",          "instructions", "max_output_tokens", "text",
                                     "reasoning",      "tools",        "tool_choice",       "parallel_tool_calls",
                                     "max_tool_calls", "top_logprobs", "include",           "prompt_cache_options"};
constexpr std::string_view kMessageItem[] = {"type", "role", "content", "id", "status", "phase"};
constexpr std::string_view kResultItem[] = {"type", "call_id", "output", "id", "status"};
constexpr RefusedField kNotInItem[] = {{"text", "@content"}, {"tool_calls", "an item of the type function_call"}};
constexpr std::string_view kInContent = "parts of the type input_image in @content";
constexpr std::string_view kReasoning[] = {"effort"};
constexpr RefusedField kNotInReasoning[] = {{"summary", "", R"(["auto"])"}, {"generate_summary", "", R"(["auto"])"}};

class ItemReader {
 public:
  ItemReader(const PromptForm& form, CutText* cut, ChatRequest* request)
      : cut_(cut), unknown_(&request->unknown_fields), reader_(form, request) {}

  void read(const RequestJson& body) {
    if (const RequestJson* told = find_field(body, "instructions")) {
      reader_.add_system({{.text = expect_string(*told, "instructions"), .param = "instructions"}}, "instructions");
    }
    const RequestJson* input = find_field(body, "input");
    if (input == nullptr) throw RequestError(400, "input is missing.", "input");
    if (input->is_string()) {
      reader_.add_user({{.text = input->get<std::string>(), .param = "input"}}, "input");
    } else if (!input->is_array() || input->empty()) {
      throw RequestError(400, "input must be a text, or an array of one item or more.", "input");
    } else {
      for (size_t i = 0; i < input->size(); ++i) read_item((*input)[i], "input[" + std::to_string(i) + "]");
    }
    reader_.finish(body, "input");
  }

 private:
  void read_item(const RequestJson& item, const std::string& at) {
    expect_object(item, at);
    const RequestJson* given = find_field(item, "type");
    const std::string type = given == nullptr ? "message" : expect_string(*given, at + ".type");
    if (type == "message") return read_message(item, at);
    if (type == "function_call") return read_call(item, at);
    if (type == "function_call_output") return read_result(item, at);
    if (type == "reasoning") return;  // chat templates leave earlier thoughts out
    throw RequestError(
        400, at + ".type must be message, function_call, function_call_output or reasoning, not " + shorten(type) + ".",
        at + ".type");
  }

  void read_message(const RequestJson& item, const std::string& at) {
    check_fields(item, at, {.known = kMessageItem, .refused = kNotInItem, .media = kInContent}, unknown_);
    const RequestJson* field = find_field(item, "role");
    if (field == nullptr) throw RequestError(400, at + ".role is missing.", at + ".role");
    const std::string role = expect_string(*field, at + ".role");
    std::vector<ChatPart> parts = parse_content(item, at, role == "user" ? cut_ : nullptr, unknown_);
    if (role == "user") return reader_.add_user(std::move(parts), at);
    if (role == "assistant") return reader_.add_answer(std::move(parts), at);
    if (role == "system" || role == "developer") return reader_.add_system(std::move(parts), at);
    throw RequestError(400, at + ".role must be system, developer, user or assistant.", at + ".role");
  }

  void read_call(const RequestJson& item, const std::string& at) {
    if (!reader_.takes_calls()) reader_.add_answer({}, at);
    reader_.add_calls({parse_flat_call(item, at, unknown_)}, at);
  }

  void read_result(const RequestJson& item, const std::string& at) {
    check_fields(item, at, {.known = kResultItem, .refused = kNotInItem, .media = kInContent}, unknown_);
    const RequestJson* id = find_field(item, "call_id");
    if (id == nullptr) throw RequestError(400, at + ".call_id is missing.", at + ".call_id");
    if (!reader_.takes_result()) {
      throw RequestError(400, "A function_call_output must follow its function_call.", at + ".type");
    }
    reader_.add_result(parse_content(item, at, cut_, unknown_, "output"), expect_string(*id, at + ".call_id"), "",
                       at + ".output");
  }

  CutText* cut_;
  FieldNames* unknown_;
  ConversationReader reader_;
};

void parse_reasoning(const RequestJson& body, ChatRequest* request) {
  const RequestJson* reasoning = find_field(body, "reasoning");
  if (reasoning == nullptr) return;
  expect_object(*reasoning, "reasoning");
  check_fields(*reasoning, "reasoning", {.known = kReasoning, .refused = kNotInReasoning}, &request->unknown_fields);
  const RequestJson* effort = find_field(*reasoning, "effort");
  if (effort != nullptr) read_effort(*effort, "reasoning.effort", request);
}

// Log-probabilities are asked for by their number, or in `include`.
void parse_included(const RequestJson& body, ChatRequest* request) {
  const auto top = integer_field(body, "top_logprobs", 0, OCELLUS_MOST_TOP_LOGPROBS);
  bool has_them = top.value_or(0) > 0;
  if (const RequestJson* include = find_field(body, "include")) {
    if (!include->is_array()) throw RequestError(400, "include must be an array of names.", "include");
    for (const RequestJson& name : *include) {
      if (name == "message.output_text.logprobs") {
        has_them = true;
      } else {
        note_unknown("include: " + shorten(expect_string(name, "include")), &request->unknown_fields);
      }
    }
  }
  if (has_them) request->top_logprobs = static_cast<int32_t>(top.value_or(0));
}

// The members that a response repeats, as the text of JSON without braces.
std::string echo_fields(const RequestJson& body, const ChatRequest& request) {
  RequestJson echoed = {{"instructions", nullptr},
                        {"max_output_tokens", nullptr},
                        {"metadata", RequestJson::object()},
                        {"parallel_tool_calls", true},
                        {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
                        {"temperature", request.params.temperature},
                        {"text", {{"format", {{"type", "text"}}}}},
                        {"tool_choice", "auto"},
                        {"tools", RequestJson::array()},
                        {"top_logprobs", 0},
                        {"top_p", request.params.top_p},
                        {"truncation", "disabled"},
                        {"user", nullptr}};
  for (auto& [name, value] : echoed.items()) {
    if (const RequestJson* given = find_field(body, name)) value = *given;
  }
  const std::string text = echoed.dump();
  return text.substr(1, text.size() - 2);
}

}  // namespace

ChatRequest parse_responses_request(std::string* body, const ocellus_generate_params& defaults,
                                    const PromptForm& form) {
  constexpr std::string_view kContent[] = {"input", "content"}, kOutput[] = {"input", "output"};
  const PicturePlace places[] = {kContent, kOutput};
  CutText cut = cut_picture_urls(body, places);
  const RequestJson json = parse_request_json(std::exchange(cut.json, {}));
  ChatRequest request;
  request.params = defaults;
  parse_answer_fields(json, {.own = kOwn, .is_flat = true}, &request);
  if (request.choices != 1) throw RequestError(400, "n must be 1: a response is one answer.", "n", "unsupported_value");
  if (const auto limit = parse_limit(json, "max_output_tokens", 1)) {
    request.params.max_tokens = static_cast<int32_t>(*limit);
  }
  parse_reasoning(json, &request);
  ItemReader(form, &cut, &request).read(json);
  parse_called_tools(json, form, /*is_flat=*/true, &request);
  parse_included(json, &request);
  request.echoed = echo_fields(json, request);
  return request;
}

}  // namespace ocellus::app
