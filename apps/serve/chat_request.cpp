#include "apps/serve/chat_request.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "apps/serve/data_url.h"
#include "apps/serve/json_fields.h"
#include "apps/serve/request_error.h"

namespace ocellus::app {
namespace {

constexpr int64_t kMaxTokens = 1 << 20;
constexpr int64_t kMaxChoices = 128;
constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 256;
constexpr double kLeastTopP = 1e-6;

// Accepted and ignored: they identify the user, or concern other servers' handling of the request.
const std::set<std::string> kIgnored = {"user",         "metadata",           "safety_identifier", "prompt_cache_key",
                                        "service_tier", "parallel_tool_calls"};
const std::set<std::string> kKnown = {"model",
                                      "n",
                                      "stream",
                                      "stream_options",
                                      "max_tokens",
                                      "max_completion_tokens",
                                      "temperature",
                                      "top_p",
                                      "top_k",
                                      "min_p",
                                      "seed",
                                      "stop",
                                      "repetition_penalty",
                                      "ignore_eos",
                                      "thinking_token_budget"};

bool is_empty_or_zero(const RequestJson& value) {
  if (value.is_number()) return value.get<double>() == 0;
  return value.is_null() || ((value.is_array() || value.is_object()) && value.empty()) ||
         (value.is_boolean() && !value.get<bool>());
}

// Returns true if a known but unsupported field of OpenAI's API has a value that requests nothing.
bool asks_for_nothing(const std::string& name, const RequestJson& value) {
  if (name == "response_format") return value.is_object() && value.value("type", RequestJson()) == "text";
  if (name == "modalities") return value == RequestJson::array({"text"});
  if (name == "tool_choice" || name == "function_call") return value == "none" || value == "auto";
  static const std::set<std::string> kUnserved = {"tools",      "functions",         "logprobs",         "top_logprobs",
                                                  "logit_bias", "frequency_penalty", "presence_penalty", "store"};
  return kUnserved.count(name) != 0 && is_empty_or_zero(value);
}

// Adds unknown fields to `unknown`; refuses known but unsupported ones.
void check_fields(const RequestJson& body, const std::set<std::string>& own, std::vector<std::string>* unknown) {
  for (const auto& [name, value] : body.items()) {
    if (value.is_null() || kKnown.count(name) != 0 || own.count(name) != 0 || kIgnored.count(name) != 0 ||
        asks_for_nothing(name, value)) {
      continue;
    }
    static const std::set<std::string> kUnserved = {
        "tools",        "tool_choice",       "functions",         "function_call",    "logprobs",
        "top_logprobs", "logit_bias",        "frequency_penalty", "presence_penalty", "store",
        "audio",        "modalities",        "prediction",        "reasoning_effort", "response_format",
        "verbosity",    "web_search_options"};
    if (kUnserved.count(name) != 0) {
      throw RequestError(400, name + " is not supported by this server.", name, "unsupported_parameter");
    }
    unknown->push_back(name);
  }
}

ChatPart parse_picture(const RequestJson& image, std::string at, CutText* cut) {
  const RequestJson* url = &image;
  if (!image.is_string()) {
    expect_object(image, at);
    if (const RequestJson* detail = find_field(image, "detail")) {
      (void)expect_string(*detail, at + ".detail");  // the model has one resolution
    }
    url = find_field(image, "url");
    at += ".url";
    if (url == nullptr) throw RequestError(400, at + " is missing.", at);
  }
  const std::span<char> given = take_cut_string(cut, expect_string(*url, at)).value_or(std::span<char>());
  constexpr std::string_view kLibrary = "library:";
  const std::string_view text(given.data(), given.size());
  if (text.substr(0, kLibrary.size()) == kLibrary) {
    // An empty key would be none; a key of another length is one of no entry.
    return {.is_image = true,
            .key = std::string(text.substr(kLibrary.size())) + (text == kLibrary ? "-" : ""),
            .param = at};
  }
  return {.is_image = true, .picture = decode_picture_url(given, at), .param = at};
}

// A video in the form of vLLM: frames as JPEG or PNG in one URL, and how many of them are a second.
ChatPart parse_video(const RequestJson& video, const std::string& at, CutText* cut) {
  expect_object(video, at);
  const std::string param = at + ".url";
  const RequestJson* url = find_field(video, "url");
  if (url == nullptr) throw RequestError(400, param + " is missing.", param);
  const std::span<char> given = take_cut_string(cut, expect_string(*url, param)).value_or(std::span<char>());
  return {.is_image = true,
          .param = param,
          .frames = decode_video_url(given, param),
          .frames_per_second = number_field(video, "fps", 0.001, 1000).value_or(1)};
}

}  // namespace

ChatPart parse_part(const RequestJson& part, const std::string& param, CutText* cut) {
  expect_object(part, param);
  const RequestJson* type = find_field(part, "type");
  if (type == nullptr) throw RequestError(400, param + ".type is missing.", param + ".type");
  const std::string name = expect_string(*type, param + ".type");
  if (name == "text") {
    const RequestJson* text = find_field(part, "text");
    if (text == nullptr) throw RequestError(400, param + ".text is missing.", param + ".text");
    return {.text = expect_string(*text, param + ".text"), .param = param};
  }
  if ((name != "image_url" && name != "video_url") || cut == nullptr) {
    const std::string allowed = cut != nullptr ? "text, image_url or video_url" : "text";
    throw RequestError(400, param + ".type must be " + allowed + ", not " + name + ".", param + ".type");
  }
  const std::string at = param + "." + name;
  const RequestJson* media = find_field(part, name);
  if (media == nullptr) throw RequestError(400, at + " is missing.", at);
  return name == "image_url" ? parse_picture(*media, at, cut) : parse_video(*media, at, cut);
}

namespace {

std::vector<ChatPart> parse_content(const RequestJson& message, const std::string& param, CutText* cut) {
  const RequestJson* content = find_field(message, "content");
  const std::string at = param + ".content";
  if (content == nullptr) throw RequestError(400, at + " is missing.", at);
  if (content->is_string()) return {{.text = content->get<std::string>(), .param = at}};
  if (!content->is_array()) throw RequestError(400, at + " must be a string or an array of parts.", at);
  std::vector<ChatPart> parts;
  for (size_t i = 0; i < content->size(); ++i) {
    parts.push_back(parse_part((*content)[i], at + "[" + std::to_string(i) + "]", cut));
  }
  return parts;
}

std::string join_texts(const std::vector<ChatPart>& parts) {
  std::string text;
  for (const ChatPart& part : parts) text += (text.empty() ? "" : "\n") + part.text;
  return text;
}

// Joins consecutive messages of one role.
class ConversationReader {
 public:
  ConversationReader(CutText* cut, ChatRequest* request) : cut_(cut), request_(request) {}

  void read(const RequestJson& message, const std::string& param) {
    expect_object(message, param);
    for (const char* field : {"tool_calls", "function_call", "audio"}) {
      const RequestJson* value = find_field(message, field);
      if (value != nullptr && !(value->is_array() && value->empty())) {
        throw RequestError(400, param + "." + field + " is not supported by this server.", param + "." + field);
      }
    }
    const RequestJson* field = find_field(message, "role");
    if (field == nullptr) throw RequestError(400, param + ".role is missing.", param + ".role");
    const std::string role = expect_string(*field, param + ".role");
    if (role == "user") return add_user(parse_content(message, param, cut_));
    const bool is_system = role == "system" || role == "developer";
    if (!is_system && role != "assistant") {
      throw RequestError(400, param + ".role must be system, user or assistant.", param + ".role");
    }
    // An assistant message that called a tool, or refused, has no content.
    const bool is_silent = !is_system && find_field(message, "content") == nullptr;
    const std::string text = is_silent ? "" : join_texts(parse_content(message, param, /*cut=*/nullptr));
    is_system ? add_system(text, param) : add_answer(text, param);
  }

  void finish() const {
    if (request_->turns.empty() || is_answered_) {
      throw RequestError(400, "The last of the messages must be the user's.", "messages");
    }
  }

 private:
  void add_system(const std::string& text, const std::string& param) {
    if (!request_->turns.empty()) {
      throw RequestError(400, "A system message must come before all others.", param + ".role");
    }
    request_->system += (request_->system.empty() ? "" : "\n") + text;
  }

  void add_user(std::vector<ChatPart> parts) {
    if (request_->turns.empty() || is_answered_) request_->turns.emplace_back();
    is_answered_ = false;
    std::vector<ChatPart>& all = request_->turns.back().parts;
    all.insert(all.end(), std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
  }

  void add_answer(const std::string& text, const std::string& param) {
    if (request_->turns.empty()) {
      throw RequestError(400, "An assistant message must follow one of the user.", param + ".role");
    }
    std::string& answer = request_->turns.back().answer;
    answer += (is_answered_ ? "\n" : "") + text;
    is_answered_ = true;
  }

  CutText* cut_;
  ChatRequest* request_;
  bool is_answered_ = false;
};

void parse_messages(const RequestJson& body, CutText* cut, ChatRequest* request) {
  const RequestJson* messages = find_field(body, "messages");
  if (messages == nullptr) throw RequestError(400, "messages is missing.", "messages");
  if (!messages->is_array() || messages->empty()) {
    throw RequestError(400, "messages must be an array of one message or more.", "messages");
  }
  ConversationReader reader(cut, request);
  for (size_t i = 0; i < messages->size(); ++i) reader.read((*messages)[i], "messages[" + std::to_string(i) + "]");
  reader.finish();
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
    if (text.empty() || text.size() > kMaxStopBytes) {
      throw RequestError(400, "stop must have 1 to " + std::to_string(kMaxStopBytes) + " bytes each.", "stop");
    }
    request->stops.push_back(text);
  }
}

void parse_stream(const RequestJson& body, ChatRequest* request) {
  request->stream = bool_field(body, "stream");
  const RequestJson* options = find_field(body, "stream_options");
  if (options == nullptr) return;
  expect_object(*options, "stream_options");
  if (!request->stream) throw RequestError(400, "stream_options goes with stream.", "stream_options");
  for (const auto& [name, value] : options->items()) {
    const std::string param = "stream_options." + name;
    if (name == "include_obfuscation") continue;
    if (name == "include_usage") {
      request->include_usage = !value.is_null() && expect_bool(value, param);
    } else {
      request->unknown_fields.push_back(param);
    }
  }
}

void parse_sampling(const RequestJson& body, ocellus_generate_params* params) {
  const auto most = integer_field(body, "max_completion_tokens", 1, kMaxTokens);
  const auto older = integer_field(body, "max_tokens", 1, kMaxTokens);
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
  set("repetition_penalty", 0.1, 100, &params->repetition_penalty);
  params->top_p = std::max(params->top_p, static_cast<float>(kLeastTopP));  // 0: greedy
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  if (const auto top_k = integer_field(body, "top_k", -1, std::numeric_limits<int32_t>::max())) {
    params->top_k = static_cast<int32_t>(std::max<int64_t>(*top_k, 0));  // -1: off, as in other servers
  }
  if (const auto budget = integer_field(body, "thinking_token_budget", 0, kMaxTokens)) {  // as in vLLM
    params->max_thought_tokens = static_cast<int32_t>(*budget);
  }
  params->ignore_end = bool_field(body, "ignore_eos") ? 1 : 0;  // as in vLLM
  if (const auto seed = integer_field(body, "seed", -kAny, kAny)) params->seed = static_cast<uint64_t>(*seed);
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
  int64_t bytes = std::ssize(system);
  for (const ChatTurn& turn : turns) {
    bytes += std::ssize(turn.answer);
    for (const ChatPart& part : turn.parts) bytes += std::ssize(part.text);
  }
  for (const RawPrompt& prompt : prompts) {
    bytes += std::ssize(prompt.text) + std::ssize(prompt.tokens) * static_cast<int64_t>(sizeof prompt.tokens[0]);
  }
  return bytes;
}

void parse_answer_fields(const RequestJson& body, const std::set<std::string>& own, ChatRequest* request) {
  check_fields(body, own, &request->unknown_fields);
  if (const RequestJson* model = find_field(body, "model")) request->model = expect_string(*model, "model");
  const RequestJson* user = find_field(body, "user");
  if (user != nullptr && user->is_string()) request->user = user->get<std::string>();
  if (const auto choices = integer_field(body, "n", 1, kMaxChoices)) request->choices = static_cast<int32_t>(*choices);
  parse_sampling(body, &request->params);
  parse_stops(body, request);
  parse_stream(body, request);
}

ChatRequest parse_chat_request(std::string* body, const ocellus_generate_params& defaults) {
  CutText cut = cut_picture_urls(body);
  const RequestJson json = parse_request_json(std::exchange(cut.json, {}));
  ChatRequest request;
  request.params = defaults;
  parse_answer_fields(json, {"messages"}, &request);
  parse_messages(json, &cut, &request);
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
    const int64_t own = count_images(turn.parts);
    turn.parts = arrange_parts(std::move(turn.parts), images);
    images += own;
  }
}

int64_t count_images(const std::vector<ChatPart>& parts) {
  return std::count_if(parts.begin(), parts.end(), [](const ChatPart& part) { return part.is_picture(); });
}

}  // namespace ocellus::app
