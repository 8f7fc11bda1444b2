#include "apps/serve/chat_messages.h"

#include <utility>

#include "apps/base/plain_text.h"
#include "apps/serve/conversation_reader.h"
#include "apps/serve/data_url.h"
#include "apps/serve/request_error.h"
#include "apps/serve/tools.h"
#include "apps/serve/unknown_fields.h"

namespace ocellus::app {
namespace {

constexpr std::string_view kInContent = "parts of the type image_url in @content";
constexpr std::string_view kAsPart = "a part of the type image_url for it";
constexpr std::string_view kTextPart[] = {"type", "text", "cache_control", "annotations", "logprobs"};
constexpr std::string_view kRefusalPart[] = {"type", "refusal"};
constexpr std::string_view kInputPicture[] = {"type", "image_url", "file_id", "detail"};
constexpr std::string_view kPicturePart[] = {"type", "image_url", "cache_control", "uuid"};
constexpr std::string_view kVideoPart[] = {"type", "video_url", "cache_control", "uuid"};
constexpr std::string_view kPicture[] = {"url", "detail", "format"};
constexpr std::string_view kVideo[] = {"url", "fps"};
constexpr RefusedField kNotInPart[] = {{"text", "a part of the type text for it"},
                                       {"url", "@image_url.url"},
                                       {"detail", "@image_url.detail"},
                                       {"source", "@image_url"},
                                       {"data", "@image_url"},
                                       {"fps", "@video_url.fps"},
                                       {"min_pixels"},
                                       {"max_pixels"},
                                       {"total_pixels"},
                                       {"resized_height"},
                                       {"resized_width"},
                                       {"nframes"},
                                       {"max_frames"},
                                       {"video_start"},
                                       {"video_end"}};
// Answers that are not spoken or cut off; earlier thoughts, as chat templates leave them out.
constexpr std::string_view kMessage[] = {"role",      "content",           "name", "refusal", "annotations",
                                         "reasoning", "reasoning_content", "id",   "weight",  "cache_control"};
constexpr std::string_view kOfAssistant[] = {"tool_calls"}, kOfTool[] = {"tool_call_id"};
constexpr RefusedField kNotInMessage[] = {{"tool_calls", "it with the role assistant"},
                                          {"tool_call_id", "it with the role tool"},
                                          {"function_call", "@tool_calls"},
                                          {"audio"},
                                          {"prefix"},
                                          {"partial"},
                                          {"text", "@content"},
                                          {"parts", "@content"},
                                          {"thinking"}};

FieldRules message_rules(std::string_view role) {
  FieldRules rules = {.known = kMessage, .refused = kNotInMessage, .media = kInContent};
  if (role == "assistant") rules.also = kOfAssistant;
  if (role == "tool") rules.also = kOfTool;
  return rules;
}

// OpenAI's names of how closely to look; true for an overview only. A model without tiles always looks as it does.
bool wants_overview(const RequestJson& image, const std::string& param) {
  const RequestJson* const detail = find_field(image, "detail");
  if (detail == nullptr) return false;
  const std::string name = expect_string(*detail, param);
  if (name == "low") return true;
  if (name == "auto" || name == "high" || name == "original") return false;
  throw RequestError(400, param + " must be low, high, original or auto, not " + shorten(name) + ".", param);
}

// An entry of the library. An empty key would be none; a key of another length is one of no entry.
ChatPart kept_picture(std::string_view key, const std::string& at) {
  return {.is_image = true, .key = key.empty() ? "-" : std::string(key), .param = at};
}

// A picture by its URL.
ChatPart take_picture(const RequestJson& url, bool is_overview, const std::string& at, CutText* cut) {
  const std::span<char> given = take_cut_string(cut, expect_string(url, at)).value_or(std::span<char>());
  constexpr std::string_view kLibrary = "library:";
  const std::string_view text(given.data(), given.size());
  if (text.substr(0, kLibrary.size()) == kLibrary) return kept_picture(text.substr(kLibrary.size()), at);
  return {.is_image = true, .picture = decode_picture_url(given, at), .is_overview = is_overview, .param = at};
}

ChatPart parse_picture(const RequestJson& image, std::string at, CutText* cut, FieldNames* unknown) {
  const RequestJson* url = &image;
  bool is_overview = false;
  if (!image.is_string()) {
    expect_object(image, at);
    check_fields(image, at, {.known = kPicture, .refused = kNotInPart, .media = kAsPart}, unknown);
    is_overview = wants_overview(image, at + ".detail");
    url = find_field(image, "url");
    at += ".url";
    if (url == nullptr) throw RequestError(400, at + " is missing.", at);
  }
  return take_picture(*url, is_overview, at, cut);
}

// A picture as /v1/responses has it.
ChatPart parse_input_picture(const RequestJson& part, const std::string& param, CutText* cut) {
  const bool is_overview = wants_overview(part, param + ".detail");
  const RequestJson* file = find_field(part, "file_id");
  const RequestJson* url = find_field(part, "image_url");
  if ((file == nullptr) == (url == nullptr)) {
    throw RequestError(400, param + " must have one of image_url and file_id.", param);
  }
  if (url != nullptr) return take_picture(*url, is_overview, param + ".image_url", cut);
  return kept_picture(expect_string(*file, param + ".file_id"), param + ".file_id");
}

// A video in the form of vLLM: frames as JPEG or PNG in one URL, and how many of them are a second.
ChatPart parse_video(const RequestJson& video, const std::string& at, CutText* cut, FieldNames* unknown) {
  expect_object(video, at);
  check_fields(video, at, {.known = kVideo, .refused = kNotInPart, .media = kAsPart}, unknown);
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

ChatPart parse_part(const RequestJson& part, const std::string& param, CutText* cut, FieldNames* unknown) {
  expect_object(part, param);
  const RequestJson* type = find_field(part, "type");
  if (type == nullptr) throw RequestError(400, param + ".type is missing.", param + ".type");
  const std::string name = expect_string(*type, param + ".type");
  const auto check = [&](std::span<const std::string_view> known) {
    check_fields(part, param, {.known = known, .refused = kNotInPart, .media = kAsPart}, unknown);
  };
  if (name == "text" || name == "input_text" || name == "output_text" || name == "refusal") {
    const std::string field = name == "refusal" ? name : "text";
    check(name == "refusal" ? std::span<const std::string_view>(kRefusalPart) : kTextPart);
    const RequestJson* text = find_field(part, field);
    if (text == nullptr) throw RequestError(400, param + "." + field + " is missing.", param + "." + field);
    return {.text = expect_string(*text, param + "." + field), .param = param};
  }
  if (name == "input_image" && cut != nullptr) {
    check(kInputPicture);
    return parse_input_picture(part, param, cut);
  }
  if ((name != "image_url" && name != "video_url") || cut == nullptr) {
    const std::string allowed = cut != nullptr ? "text, image_url or video_url" : "text";
    throw RequestError(400, param + ".type must be " + allowed + ", not " + shorten(name) + ".", param + ".type");
  }
  const std::string at = param + "." + name;
  const RequestJson* media = find_field(part, name);
  if (media == nullptr) throw RequestError(400, at + " is missing.", at);
  check(name == "image_url" ? std::span<const std::string_view>(kPicturePart) : kVideoPart);
  return name == "image_url" ? parse_picture(*media, at, cut, unknown) : parse_video(*media, at, cut, unknown);
}

std::vector<ChatPart> parse_content(const RequestJson& message, const std::string& param, CutText* cut,
                                    FieldNames* unknown, const std::string& field) {
  const RequestJson* content = find_field(message, field);
  const std::string at = param + "." + field;
  if (content == nullptr) throw RequestError(400, at + " is missing.", at);
  if (content->is_string()) return {{.text = content->get<std::string>(), .param = at}};
  if (!content->is_array()) throw RequestError(400, at + " must be a string or an array of parts.", at);
  std::vector<ChatPart> parts;
  for (size_t i = 0; i < content->size(); ++i) {
    parts.push_back(parse_part((*content)[i], at + "[" + std::to_string(i) + "]", cut, unknown));
  }
  return parts;
}

namespace {

std::string text_of(const RequestJson& message, const char* name) {
  const RequestJson* value = find_field(message, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

void read_answer(const RequestJson& message, const std::string& param, ConversationReader* reader,
                 FieldNames* unknown) {
  // One that called a tool, or refused, has no content.
  const bool is_silent = find_field(message, "content") == nullptr;
  reader->add_answer(is_silent ? std::vector<ChatPart>() : parse_content(message, param, /*cut=*/nullptr, unknown),
                     param);
  const std::string at = param + ".tool_calls";
  const RequestJson* calls = find_field(message, "tool_calls");
  if (calls != nullptr) reader->add_calls(parse_calls(*calls, at, unknown), at);
}

void read_message(const RequestJson& message, const std::string& param, CutText* cut, ConversationReader* reader,
                  FieldNames* unknown) {
  expect_object(message, param);
  const RequestJson* field = find_field(message, "role");
  if (field == nullptr) throw RequestError(400, param + ".role is missing.", param + ".role");
  const std::string role = expect_string(*field, param + ".role");
  check_fields(message, param, message_rules(role), unknown);
  if (role == "user") return reader->add_user(parse_content(message, param, cut, unknown), param);
  if (role == "assistant") return read_answer(message, param, reader, unknown);
  if (role == "system" || role == "developer") {
    return reader->add_system(parse_content(message, param, /*cut=*/nullptr, unknown), param);
  }
  if (role != "tool") {
    throw RequestError(400, param + ".role must be system, developer, user, assistant or tool.", param + ".role");
  }
  if (!reader->takes_result()) {
    throw RequestError(400, "A tool message must follow an assistant's calls.", param + ".role");
  }
  reader->add_result(parse_content(message, param, cut, unknown), text_of(message, "tool_call_id"),
                     text_of(message, "name"), param + ".content");
}

}  // namespace

void parse_messages(const RequestJson& body, const PromptForm& form, CutText* cut, ChatRequest* request) {
  const RequestJson* messages = find_field(body, "messages");
  if (messages == nullptr) throw RequestError(400, "messages is missing.", "messages");
  if (!messages->is_array() || messages->empty()) {
    throw RequestError(400, "messages must be an array of one message or more.", "messages");
  }
  ConversationReader reader(form, request);
  for (size_t i = 0; i < messages->size(); ++i) {
    read_message((*messages)[i], "messages[" + std::to_string(i) + "]", cut, &reader, &request->unknown_fields);
  }
  reader.finish(body, "messages");
}

}  // namespace ocellus::app
