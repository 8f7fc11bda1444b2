#include "apps/serve/chat_messages.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "apps/base/plain_text.h"
#include "apps/serve/data_url.h"
#include "apps/serve/request_error.h"
#include "apps/serve/tools.h"
#include "apps/serve/unknown_fields.h"

namespace ocellus::app {
namespace {

constexpr std::string_view kInContent = "parts of the type image_url in @content";
constexpr std::string_view kAsPart = "a part of the type image_url for it";
constexpr std::string_view kTextPart[] = {"type", "text", "cache_control", "annotations"};
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
  const std::span<char> given = take_cut_string(cut, expect_string(*url, at)).value_or(std::span<char>());
  constexpr std::string_view kLibrary = "library:";
  const std::string_view text(given.data(), given.size());
  if (text.substr(0, kLibrary.size()) == kLibrary) {
    // An empty key would be none; a key of another length is one of no entry.
    return {.is_image = true,
            .key = std::string(text.substr(kLibrary.size())) + (text == kLibrary ? "-" : ""),
            .param = at};
  }
  return {.is_image = true, .picture = decode_picture_url(given, at), .is_overview = is_overview, .param = at};
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
  if (name == "text") {
    check(kTextPart);
    const RequestJson* text = find_field(part, "text");
    if (text == nullptr) throw RequestError(400, param + ".text is missing.", param + ".text");
    return {.text = expect_string(*text, param + ".text"), .param = param};
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

namespace {

std::vector<ChatPart> parse_content(const RequestJson& message, const std::string& param, CutText* cut,
                                    FieldNames* unknown) {
  const RequestJson* content = find_field(message, "content");
  const std::string at = param + ".content";
  if (content == nullptr) throw RequestError(400, at + " is missing.", at);
  if (content->is_string()) return {{.text = content->get<std::string>(), .param = at}};
  if (!content->is_array()) throw RequestError(400, at + " must be a string or an array of parts.", at);
  std::vector<ChatPart> parts;
  for (size_t i = 0; i < content->size(); ++i) {
    parts.push_back(parse_part((*content)[i], at + "[" + std::to_string(i) + "]", cut, unknown));
  }
  return parts;
}

std::string join_texts(const std::vector<ChatPart>& parts) {
  std::string text;
  for (const ChatPart& part : parts) {
    if (!part.is_image) text += (text.empty() ? "" : "\n") + part.text;
  }
  return text;
}

// Adds a part; texts that touch are one.
void add_part(ChatPart part, std::vector<ChatPart>* parts) {
  if (!part.is_image && !parts->empty() && !parts->back().is_image) {
    parts->back().text += part.text;
  } else {
    parts->push_back(std::move(part));
  }
}

// Thoughts of earlier answers, which chat templates leave out.
std::string without_thoughts(std::string text) {
  constexpr std::string_view kEnd = "</think>", kChannel = "<|channel>", kChannelEnd = "<channel|>";
  if (const size_t end = text.rfind(kEnd); end != text.npos) {
    text.erase(0, end + kEnd.size());
    text.erase(0, std::min(text.find_first_not_of('\n'), text.size()));
  }
  for (size_t begin = text.find(kChannel); begin != text.npos; begin = text.find(kChannel)) {
    const size_t end = text.find(kChannelEnd, begin);
    text.erase(begin, end == text.npos ? end : end + kChannelEnd.size() - begin);
  }
  return text;
}

class ConversationReader {
 public:
  ConversationReader(CutText* cut, const PromptForm& form, ChatRequest* request)
      : cut_(cut), form_(form), request_(request) {}

  void read(const RequestJson& message, const std::string& param) {
    expect_object(message, param);
    const RequestJson* field = find_field(message, "role");
    if (field == nullptr) throw RequestError(400, param + ".role is missing.", param + ".role");
    const std::string role = expect_string(*field, param + ".role");
    FieldNames* const unknown = &request_->unknown_fields;
    check_fields(message, param, message_rules(role), unknown);
    if (role == "user") return add_user(parse_content(message, param, cut_, unknown), param);
    if (role == "tool") return add_result(parse_content(message, param, cut_, unknown), message, param);
    // An assistant message that called a tool, or refused, has no content.
    const bool is_silent = role == "assistant" && find_field(message, "content") == nullptr;
    std::vector<ChatPart> parts;
    if (!is_silent) parts = parse_content(message, param, /*cut=*/nullptr, unknown);
    if (role == "assistant") return add_answer(std::move(parts), message, param);
    if (role != "system" && role != "developer") {
      throw RequestError(400, param + ".role must be system, developer, user, assistant or tool.", param + ".role");
    }
    add_system(std::move(parts), param);
  }

  // Reads how the answer begins: after the last message, or as its end.
  void finish(const RequestJson& body) {
    const bool is_answer = last_ == Last::kAnswer, is_open = last_ == Last::kResult && form_.syntax.keeps_turn;
    const RequestJson* goes_on = find_field(body, "continue_final_message");
    const RequestJson* opens = find_field(body, "add_generation_prompt");
    if (last_ == Last::kNothing) {
      throw RequestError(400, "There must be a message of the user or the assistant.", "messages");
    }
    const bool continues = goes_on == nullptr
                               ? is_answer && (opens == nullptr || !expect_bool(*opens, "add_generation_prompt"))
                               : expect_bool(*goes_on, "continue_final_message");
    request_->turns.back().goes_on = continues || is_open;
    request_->continues = continues && is_answer;
    request_->opens_answer = opens == nullptr || expect_bool(*opens, "add_generation_prompt");
    if (goes_on != nullptr && opens != nullptr && continues && request_->opens_answer) {
      throw RequestError(400, "continue_final_message and add_generation_prompt exclude each other.",
                         "continue_final_message");
    }
    if (is_answer && continues) return;
    cut_last_thought();
  }

 private:
  enum class Last : char { kNothing, kUser, kAnswer, kResult };

  // Messages of one role in a row are one in a plain form, else they are several.
  ChatTurn& begin_turn(int32_t role, const std::string& param) {
    std::vector<ChatTurn>& turns = request_->turns;
    if (form_.is_plain && !turns.empty() && turns.back().role == role) return turns.back();
    if (!turns.empty() && turns.back().role == OCELLUS_ROLE_ASSISTANT) cut_last_thought();
    has_shown_ = false;
    turns.push_back({.role = role, .param = param});
    return turns.back();
  }

  // Calls and results have no thoughts, whatever they say: they follow an answer whose thought is cut.
  void begin_shown() {
    cut_last_thought();
    has_shown_ = true;
  }

  void cut_last_thought() {
    if (has_shown_ || !form_.cuts_thoughts || request_->turns.back().role != OCELLUS_ROLE_ASSISTANT) return;
    for (ChatPart& part : request_->turns.back().parts) part.text = without_thoughts(std::move(part.text));
  }

  // Texts of a plain form are one, with line breaks between them.
  void add_texts(std::vector<ChatPart> parts, ChatTurn* turn) {
    for (ChatPart& part : parts) {
      if (form_.is_plain && !turn->parts.empty()) {
        std::string& text = turn->parts.back().text;
        text += (text.empty() ? "" : "\n") + part.text;
      } else {
        turn->parts.push_back(std::move(part));
      }
    }
  }

  void add_system(std::vector<ChatPart> parts, const std::string& param) {
    add_texts(std::move(parts), &begin_turn(OCELLUS_ROLE_SYSTEM, param));
    if (last_ != Last::kNothing) last_ = Last::kUser;
  }

  void add_user(std::vector<ChatPart> parts, const std::string& param) {
    ChatTurn& turn = begin_turn(OCELLUS_ROLE_USER, param);
    last_ = Last::kUser;
    turn.parts.insert(turn.parts.end(), std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
  }

  // An answer after results in the model's own turn goes on in it, and calls follow the text of their message.
  void add_answer(std::vector<ChatPart> parts, const RequestJson& message, const std::string& param) {
    const bool stays = last_ == Last::kResult && form_.syntax.keeps_turn;
    ChatTurn& turn = stays ? request_->turns.back() : begin_turn(OCELLUS_ROLE_ASSISTANT, param);
    if (stays) {
      std::string more = join_texts(parts);
      if (form_.cuts_thoughts) more = without_thoughts(std::move(more));
      add_part({.text = std::move(more), .param = param + ".content"}, &turn.parts);
    } else {
      add_texts(std::move(parts), &turn);
    }
    last_ = Last::kAnswer;
    const RequestJson* calls = find_field(message, "tool_calls");
    if (calls == nullptr) return;
    calls_ = parse_calls(*calls, param + ".tool_calls", &request_->unknown_fields);
    if (!calls_.empty()) begin_shown();
    add_part({.param = param + ".tool_calls"}, &turn.parts);
    std::string& text = turn.parts.back().text;
    for (const EarlierCall& one : calls_) {
      if (!text.empty()) text += form_.syntax.call_gap;
      text += form_.syntax.show_call(one.call);
    }
  }

  // Consecutive results are one message of the user, or stand in the model's own.
  void add_result(std::vector<ChatPart> parts, const RequestJson& message, const std::string& param) {
    if (last_ != Last::kAnswer && last_ != Last::kResult) {
      throw RequestError(400, "A tool message must follow an assistant's calls.", param + ".role");
    }
    std::vector<ChatPart> shown = show_result(std::move(parts), name_of_tool(message), param + ".content");
    if (form_.syntax.keeps_turn) {
      begin_shown();
    } else if (last_ == Last::kResult) {
      shown.front().text.insert(0, "\n");
    } else {
      add_user({}, param);
    }
    for (ChatPart& part : shown) add_part(std::move(part), &request_->turns.back().parts);
    last_ = Last::kResult;
  }

  // A result with its pictures where the chat template has them.
  std::vector<ChatPart> show_result(std::vector<ChatPart> parts, const std::string& tool, const std::string& param) {
    const ToolSyntax& syntax = form_.syntax;
    const auto quoted = [&param](std::string text) {
      return ChatPart{.text = std::move(text), .is_quoted = true, .param = param};
    };
    const bool is_text = std::none_of(parts.begin(), parts.end(), [](const ChatPart& part) { return part.is_image; });
    const bool stand_inside = !is_text && !syntax.result_begin.empty();
    std::vector<ChatPart> shown;
    shown.push_back(
        quoted(stand_inside ? std::string(syntax.result_begin) : syntax.show_result(tool, join_texts(parts))));
    for (ChatPart& part : parts) {
      if (!part.is_image && !stand_inside) continue;
      add_part(part.is_image ? std::move(part) : quoted(std::move(part.text)), &shown);
    }
    if (stand_inside) add_part(quoted(std::string(syntax.result_end)), &shown);
    return shown;
  }

  // The tool whose result a message is, by the call's identifier, or by the name that the message states.
  std::string name_of_tool(const RequestJson& message) const {
    const auto field = [&](const char* name) {
      const RequestJson* value = find_field(message, name);
      return value != nullptr && value->is_string() ? value->get<std::string>() : "";
    };
    for (const EarlierCall& one : calls_) {
      if (!one.id.empty() && one.id == field("tool_call_id")) return one.call.name;
    }
    const std::string name = field("name");
    return name.empty() ? "unknown" : name;
  }

  CutText* cut_;
  const PromptForm& form_;
  ChatRequest* request_;
  Last last_ = Last::kNothing;
  bool has_shown_ = false;          // the last turn has calls or results
  std::vector<EarlierCall> calls_;  // the newest answer's
};

}  // namespace

void parse_messages(const RequestJson& body, const PromptForm& form, CutText* cut, ChatRequest* request) {
  const RequestJson* messages = find_field(body, "messages");
  if (messages == nullptr) throw RequestError(400, "messages is missing.", "messages");
  if (!messages->is_array() || messages->empty()) {
    throw RequestError(400, "messages must be an array of one message or more.", "messages");
  }
  ConversationReader reader(cut, form, request);
  for (size_t i = 0; i < messages->size(); ++i) reader.read((*messages)[i], "messages[" + std::to_string(i) + "]");
  reader.finish(body);
}

}  // namespace ocellus::app
