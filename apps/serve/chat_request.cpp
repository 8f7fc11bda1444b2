#include "apps/serve/chat_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "apps/serve/answer_fields.h"
#include "apps/serve/chat_messages.h"
#include "apps/serve/data_url.h"
#include "apps/serve/json_fields.h"
#include "apps/serve/request_error.h"

namespace ocellus::app {
namespace {

constexpr int64_t kMaxChoices = 128;
constexpr size_t kMaxStops = 16, kMaxScored = 64;
constexpr size_t kMaxStopBytes = 256;
constexpr double kLeastTopP = 1e-6;

constexpr std::string_view kStreamFields[] = {"include_usage", "include_obfuscation"};
constexpr RefusedField kUnservedStream[] = {{"continuous_usage_stats"}};
constexpr std::string_view kTemplateFields[] = {"enable_thinking", "thinking", "reasoning_effort", "add_vision_id"};
constexpr std::string_view kThinkingFields[] = {"type", "budget_tokens"};
constexpr RefusedField kUnservedThinking[] = {{"budget", "@budget_tokens"}, {"display"}, {"include_thoughts"}};
constexpr RefusedField kUnservedTemplate[] = {{"thinking_budget", "thinking_token_budget"},
                                              {"add_generation_prompt", "", "[true]"},
                                              {"continue_final_message"},
                                              {"tools", "tools"},
                                              {"documents", "messages"}};

// Returns the name that a field has in the body, of its two; refuses two values.
const char* choose_name(const RequestJson& body, const char* name, const char* other) {
  const RequestJson *one = find_field(body, name), *two = find_field(body, other);
  if (one != nullptr && two != nullptr && *one != *two)
    throw RequestError(400, std::string(name) + " and " + other + " differ: give one of them.", name);
  return one != nullptr ? name : other;
}

void parse_stops(const RequestJson& body, ChatRequest* request) {
  const RequestJson* stop = find_field(body, "stop");
  if (stop == nullptr) return;
  const RequestJson stops = stop->is_string() ? RequestJson::array({*stop}) : *stop;
  if (!stops.is_array() || stops.size() > kMaxStops) {
    throw RequestError(400, "stop must be a string or an array of at most " + std::to_string(kMaxStops) + ".", "stop");
  }
  for (const RequestJson& one : stops) {
    const std::string text = expect_string(one, "stop");
    if (text.size() > kMaxStopBytes) {
      throw RequestError(400, "stop must have at most " + std::to_string(kMaxStopBytes) + " bytes each.", "stop");
    }
    if (!text.empty()) request->stops.push_back(text);
  }
}

void parse_stream(const RequestJson& body, ChatRequest* request) {
  request->stream = bool_field(body, "stream");
  const RequestJson* options = find_field(body, "stream_options");
  if (options == nullptr) return;
  expect_object(*options, "stream_options");
  if (!request->stream && bool_field(*options, "include_usage", "stream_options.")) {
    throw RequestError(400, "stream_options goes with stream.", "stream_options");
  }
  check_fields(*options, "stream_options", {.known = kStreamFields, .refused = kUnservedStream},
               &request->unknown_fields);
  request->include_usage = bool_field(*options, "include_usage", "stream_options.");
}

void read_thinks(bool thinks, ChatRequest* request) {
  request->is_told_to_think = thinks;
  if (!thinks) request->params.max_thought_tokens = 0;
}

// A budget of -1 has no limit but the planned text, which bound_answer knows.
void read_thought_budget(const RequestJson& object, const std::string& name, ChatRequest* request) {
  if (const auto budget = integer_field(object, name, -1, kMaxTokens)) {
    request->params.max_thought_tokens = static_cast<int32_t>(*budget == -1 ? kMaxTokens : *budget);
  }
}

// DeepSeek's true or false, or Anthropic's {"type": "enabled", "budget_tokens": 1024}.
void read_thinking(const RequestJson& thinking, const std::string& at, ChatRequest* request) {
  if (thinking.is_boolean()) return read_thinks(thinking.get<bool>(), request);
  expect_object(thinking, at);
  check_fields(thinking, at, {.known = kThinkingFields, .refused = kUnservedThinking}, &request->unknown_fields);
  const RequestJson* type = find_field(thinking, "type");
  const std::string name = type == nullptr ? "enabled" : expect_string(*type, at + ".type");
  if (name != "enabled" && name != "disabled" && name != "auto" && name != "adaptive") {
    throw RequestError(400, at + ".type must be enabled, disabled, auto or adaptive.", at + ".type");
  }
  read_thought_budget(thinking, "budget_tokens", request);
  if (name == "enabled" || name == "disabled") read_thinks(name == "enabled", request);
}

}  // namespace

void read_effort(const RequestJson& value, const std::string& at, ChatRequest* request) {
  const std::string effort = expect_string(value, at);
  if (effort == "none") return read_thinks(false, request);
  if (effort == "medium" || effort == "default" || effort == "auto") return;  // as the server was started
  throw unsupported_field(at, "thinking_token_budget");
}

std::optional<int64_t> parse_limit(const RequestJson& body, const std::string& name, int64_t least) {
  const RequestJson* value = find_field(body, name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> limit = whole_number(*value);
  if (!limit || (*limit < least && *limit != -1)) {
    throw RequestError(400, name + " must be a whole number from " + std::to_string(least) + ", or -1 for no limit.",
                       name);
  }
  return *limit == -1 ? kMaxTokens : std::min(*limit, kMaxTokens);
}

namespace {

// If, and how long, the model thinks before its answer, in the words of other servers.
void parse_thinking(const RequestJson& object, const std::string& before, ChatRequest* request) {
  if (find_field(object, "enable_thinking") != nullptr)
    read_thinks(bool_field(object, "enable_thinking", before), request);
  if (const RequestJson* thinking = find_field(object, "thinking")) {
    read_thinking(*thinking, before + "thinking", request);
  }
  if (const RequestJson* effort = find_field(object, "reasoning_effort")) {
    read_effort(*effort, before + "reasoning_effort", request);
  }
}

// Options of chat templates, as in vLLM and llama.cpp's server: one that Qwen's and Gemma's know turns thoughts off.
void parse_template_options(const RequestJson& body, ChatRequest* request) {
  const std::string at = "chat_template_kwargs";
  const RequestJson* options = find_field(body, at);
  if (options == nullptr) return;
  expect_object(*options, at);
  check_fields(*options, at, {.known = kTemplateFields, .refused = kUnservedTemplate}, &request->unknown_fields);
  parse_thinking(*options, at + ".", request);
  request->numbers_images = bool_field(*options, "add_vision_id", at + ".");
}

void parse_sampling(const RequestJson& body, int64_t least_tokens, ocellus_generate_params* params) {
  const auto most = parse_limit(body, "max_completion_tokens", least_tokens);
  const auto older = parse_limit(body, "max_tokens", least_tokens);
  if (most && older && *most != *older) {
    throw RequestError(400, "max_tokens and max_completion_tokens differ: give one of them.", "max_tokens");
  }
  if (most || older) params->max_tokens = static_cast<int32_t>(most.value_or(older.value_or(0)));
  const auto set = [&body](const char* name, double low, double high, float* out) {
    if (const auto value = number_field(body, name, low, high)) *out = static_cast<float>(*value);
  };
  set("temperature", 0, 2, &params->temperature);
  set("top_p", 0, 1, &params->top_p);
  set("min_p", 0, 1, &params->min_p);
  set(choose_name(body, "repetition_penalty", "repeat_penalty"), 0.1, 100, &params->repetition_penalty);
  set("typical_p", 0, 1, &params->typical_p);
  set("top_n_sigma", -1, 1000, &params->top_n_sigma);
  set("frequency_penalty", -2, 2, &params->frequency_penalty);
  set("presence_penalty", -2, 2, &params->presence_penalty);
  set("dry_multiplier", 0, 100, &params->dry_multiplier);
  set("dry_base", 1, 100, &params->dry_base);
  if (const auto length = integer_field(body, "dry_allowed_length", 1, kMaxTokens)) {
    params->dry_length = static_cast<int32_t>(*length);
  }
  params->typical_p = std::max(params->typical_p, static_cast<float>(kLeastTopP));
  params->top_n_sigma = std::max(params->top_n_sigma, 0.0f);                // -1: off, as in llama.cpp
  params->top_p = std::max(params->top_p, static_cast<float>(kLeastTopP));  // 0: greedy
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  if (const auto top_k = integer_field(body, "top_k", -1, std::numeric_limits<int32_t>::max())) {
    params->top_k = static_cast<int32_t>(std::max<int64_t>(*top_k, 0));  // -1: off, as in other servers
  }
  params->ignore_end = bool_field(body, "ignore_eos") ? 1 : 0;  // as in vLLM
  if (const auto seed = integer_field(body, "seed", -kAny, kAny)) params->seed = static_cast<uint64_t>(*seed);
}

// Token ids are checked against the vocabulary later.
void parse_logit_bias(const RequestJson& body, ChatRequest* request) {
  constexpr double kMostBias = 100;
  request->logit_bias.assign(request->params.logit_bias, request->params.logit_bias + request->params.logit_bias_count);
  const RequestJson* biases = find_field(body, "logit_bias");
  if (biases == nullptr) return;
  if (biases->is_array() && biases->empty()) return;
  expect_object(*biases, "logit_bias");
  if (biases->size() > OCELLUS_MOST_LOGIT_BIASES) {
    throw RequestError(400, "logit_bias can have at most " + std::to_string(OCELLUS_MOST_LOGIT_BIASES) + " tokens.",
                       "logit_bias");
  }
  request->logit_bias.clear();
  for (const auto& [name, value] : biases->items()) {
    ocellus_logit_bias bias{};
    const char* const end = name.data() + name.size();
    const auto read = std::from_chars(name.data(), end, bias.token);
    if (read.ec != std::errc() || read.ptr != end || name != std::to_string(bias.token)) {
      throw RequestError(400, "logit_bias must have the ids of tokens as names, written as whole numbers.",
                         "logit_bias");
    }
    if (!value.is_number() || std::abs(value.get<double>()) > kMostBias) {
      throw RequestError(400, "logit_bias must have numbers between -100 and 100.", "logit_bias");
    }
    bias.bias = value.get<float>();
    request->logit_bias.push_back(bias);
  }
}

void append_text(std::vector<ChatPart>* parts, const std::string& text, const std::string& param) {
  if (text.empty()) return;
  if (parts->empty() || parts->back().is_image) parts->push_back({.param = param});
  parts->back().text += text;
}

// True if all text is before all pictures, or after them.
bool has_pictures_apart(const std::vector<ChatPart>& parts) {
  int changes = 0;
  for (size_t i = 1; i < parts.size(); ++i) changes += parts[i].is_image != parts[i - 1].is_image ? 1 : 0;
  return changes <= 1;
}

}  // namespace

int64_t ChatRequest::image_count() const {
  int64_t count = 0;
  for (const ChatTurn& turn : turns) count += count_images(turn.parts);
  return count;
}

int64_t ChatRequest::frame_count() const {
  int64_t count = 0;
  for (const ChatTurn& turn : turns) {
    for (const ChatPart& part : turn.parts) count += std::ssize(part.frames);
  }
  return count;
}

int64_t ChatRequest::text_bytes() const {
  int64_t bytes = std::ssize(echoed) + (form ? std::ssize(form->text) : 0);
  for (const std::string& text : scored) bytes += std::ssize(text);
  for (const ChatTurn& turn : turns) {
    for (const ChatPart& part : turn.parts) bytes += std::ssize(part.text);
  }
  for (const RawPrompt& prompt : prompts) {
    bytes += std::ssize(prompt.text) + std::ssize(prompt.tokens) * static_cast<int64_t>(sizeof prompt.tokens[0]);
  }
  return bytes;
}

void parse_answer_fields(const RequestJson& body, const AnswerFields& fields, ChatRequest* request) {
  check_fields(body, "",
               {.known = answer_fields(),
                .also = fields.own,
                .refused = unserved_answer_fields(),
                .media = "parts of the type image_url in messages[].content"},
               &request->unknown_fields);
  if (const RequestJson* model = find_field(body, "model")) request->model = expect_string(*model, "model");
  if (const RequestJson* user = find_field(body, "user"); user != nullptr && user->is_string()) request->user = *user;
  if (const auto choices = integer_field(body, "n", 1, kMaxChoices)) request->choices = static_cast<int32_t>(*choices);
  parse_sampling(body, fields.least_tokens, &request->params);
  read_thought_budget(body, "thinking_token_budget", request);  // as in vLLM
  parse_thinking(body, "", request);
  parse_template_options(body, request);
  request->shows_stop = bool_field(body, "include_stop_str_in_output");
  parse_logit_bias(body, request);
  parse_stops(body, request);
  parse_stream(body, request);
  request->form = parse_answer_form(body, &request->unknown_fields, fields.is_flat);
}

namespace {

// The system message in which tools are described; without one of the request's own it is the model's.
ChatPart& system_text(const PromptForm& form, ChatRequest* request) {
  std::vector<ChatTurn>& turns = request->turns;
  if (turns.empty() || turns.front().role != OCELLUS_ROLE_SYSTEM) {
    turns.insert(turns.begin(), {.role = OCELLUS_ROLE_SYSTEM, .parts = {{.text = form.default_system}}});
  }
  if (turns.front().parts.empty()) turns.front().parts.emplace_back();
  return turns.front().parts.back();
}

}  // namespace

void parse_called_tools(const RequestJson& body, const PromptForm& form, bool is_flat, ChatRequest* request) {
  request->tools = parse_tools(body, form.syntax, &request->unknown_fields, is_flat);
  if (form.leaves_out(request->tools)) return;
  std::string& system = system_text(form, request).text;
  if (!system.empty()) system += form.syntax.system_gap;
  system += form.syntax.describe(request->tools.tools);
  std::optional<AnswerForm> calls = call_form(request->tools);
  for (Tool& tool : request->tools.tools)
    tool.shown = tool.parameters = {};  // only the names are asked for from here on
  if (!calls) return;
  if (request->form) {
    throw RequestError(400, "tool_choice and " + request->form->param + " both say what the answer is: give one.",
                       "tool_choice");
  }
  request->form = std::move(calls);
}

namespace {

void parse_top_logprobs(const RequestJson& body, ChatRequest* request) {
  const auto top = integer_field(body, "top_logprobs", 0, OCELLUS_MOST_TOP_LOGPROBS);
  if (bool_field(body, "logprobs")) {
    request->top_logprobs = static_cast<int32_t>(top.value_or(0));
  } else if (top.value_or(0) > 0) {
    throw RequestError(400, "top_logprobs goes with logprobs.", "top_logprobs");
  }
}

void parse_scored(const RequestJson& body, ChatRequest* request) {
  const std::string name = "score_choices";
  const RequestJson* choices = find_field(body, name);
  if (choices == nullptr) return;
  if (!choices->is_array() || choices->size() < 2 || choices->size() > kMaxScored) {
    throw RequestError(400, name + " must be an array of 2 to " + std::to_string(kMaxScored) + " texts.", name);
  }
  for (const RequestJson& choice : *choices) request->scored.push_back(expect_string(choice, name));
  if (request->stream || request->choices > 1 || request->form || request->top_logprobs) {
    throw RequestError(400, name + " does not go with stream, n, logprobs and a form of the answer.", name);
  }
}

}  // namespace

ChatRequest parse_chat_request(std::string* body, const ocellus_generate_params& defaults, const PromptForm& form) {
  constexpr std::string_view kParts[] = {"messages", "content"};
  const PicturePlace places[] = {kParts};
  CutText cut = cut_picture_urls(body, places);
  const RequestJson json = parse_request_json(std::exchange(cut.json, {}));
  ChatRequest request;
  request.params = defaults;
  constexpr std::string_view kOwn[] = {"messages",
                                       "tools",
                                       "tool_choice",
                                       "parallel_tool_calls",
                                       "top_logprobs",
                                       "score_choices",
                                       "continue_final_message",
                                       "add_generation_prompt"};
  parse_answer_fields(json, {.own = kOwn}, &request);
  parse_messages(json, form, &cut, &request);
  parse_called_tools(json, form, /*is_flat=*/false, &request);
  parse_top_logprobs(json, &request);
  parse_scored(json, &request);
  return request;
}

std::vector<ChatPart> arrange_parts(std::vector<ChatPart> parts, int64_t earlier_images) {
  std::vector<ChatPart> arranged;
  const int64_t images = count_images(parts);
  const bool is_apart = has_pictures_apart(parts);
  if (is_apart) {
    std::stable_partition(parts.begin(), parts.end(), [](const ChatPart& part) { return part.is_image; });
  }
  int64_t number = earlier_images;
  bool follows_text = false;
  for (ChatPart& part : parts) {
    if (!part.is_image) {
      if (follows_text) append_text(&arranged, "\n", part.param);
      append_text(&arranged, part.text, part.param);
      follows_text = !part.text.empty();
      continue;
    }
    follows_text = false;
    number += part.is_picture() ? 1 : 0;
    const bool is_numbered = is_apart && part.is_picture() && images + earlier_images > 1;
    const std::string param = part.param;
    if (is_numbered) append_text(&arranged, "Image " + std::to_string(number) + ":", param);
    arranged.push_back(std::move(part));
    if (is_numbered) append_text(&arranged, "\n", param);
  }
  return arranged;
}

void arrange_turns(ChatRequest* request) {
  int64_t images = 0;
  for (ChatTurn& turn : request->turns) {
    if (turn.role != OCELLUS_ROLE_USER) continue;
    const int64_t own = count_images(turn.parts);
    turn.parts = arrange_parts(std::move(turn.parts), images);
    images += own;
  }
}

int64_t count_images(const std::vector<ChatPart>& parts) {
  return std::count_if(parts.begin(), parts.end(), [](const ChatPart& part) { return part.is_picture(); });
}

}  // namespace ocellus::app
