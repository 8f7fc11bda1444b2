#include "apps/serve/chat_messages.h"

#include <iterator>
#include <utility>

#include "apps/serve/data_url.h"
#include "apps/serve/request_error.h"
#include "apps/serve/tools.h"

namespace ocellus::app {
namespace {

// OpenAI's names of how closely to look; true for an overview only. A model without tiles always looks as it does.
bool wants_overview(const RequestJson& image, const std::string& param) {
  const RequestJson* const detail = find_field(image, "detail");
  if (detail == nullptr) return false;
  const std::string name = expect_string(*detail, param);
  if (name == "low") return true;
  if (name == "auto" || name == "high" || name == "original") return false;
  throw RequestError(400, param + " must be low, high, original or auto, not " + name + ".", param);
}

ChatPart parse_picture(const RequestJson& image, std::string at, CutText* cut) {
  const RequestJson* url = &image;
  bool is_overview = false;
  if (!image.is_string()) {
    expect_object(image, at);
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
  ConversationReader(CutText* cut, const ToolSyntax& syntax, ChatRequest* request)
      : cut_(cut), syntax_(syntax), request_(request) {}

  void read(const RequestJson& message, const std::string& param) {
    expect_object(message, param);
    for (const char* field : {"function_call", "audio"}) {
      const RequestJson* value = find_field(message, field);
      if (value != nullptr && !(value->is_array() && value->empty())) {
        throw RequestError(400, param + "." + field + " is not supported by this server.", param + "." + field);
      }
    }
    const RequestJson* field = find_field(message, "role");
    if (field == nullptr) throw RequestError(400, param + ".role is missing.", param + ".role");
    const std::string role = expect_string(*field, param + ".role");
    if (role == "user") return add_user(parse_content(message, param, cut_));
    // An assistant message that called a tool, or refused, has no content.
    const bool is_silent = role == "assistant" && find_field(message, "content") == nullptr;
    const auto text = [&] { return is_silent ? "" : join_texts(parse_content(message, param, /*cut=*/nullptr)); };
    if (role == "assistant") return add_answer(text(), message, param);
    if (role == "tool") return add_result(text(), message, param);
    if (role != "system" && role != "developer") {
      throw RequestError(400, param + ".role must be system, developer, user, assistant or tool.", param + ".role");
    }
    add_system(text(), param);
  }

  void finish() const {
    if (last_ == Last::kNothing || last_ == Last::kAnswer) {
      throw RequestError(400, "The last of the messages must be the user's.", "messages");
    }
  }

 private:
  enum class Last : char { kNothing, kUser, kAnswer, kResult };

  void add_system(const std::string& text, const std::string& param) {
    if (!request_->turns.empty()) {
      throw RequestError(400, "A system message must come before all others.", param + ".role");
    }
    request_->system += (request_->system.empty() ? "" : "\n") + text;
  }

  void add_user(std::vector<ChatPart> parts) {
    const bool goes_on = last_ == Last::kUser || (last_ == Last::kResult && !syntax_.keeps_turn);
    if (!goes_on) request_->turns.emplace_back();
    last_ = Last::kUser;
    std::vector<ChatPart>& all = request_->turns.back().parts;
    all.insert(all.end(), std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
  }

  void add_answer(const std::string& text, const RequestJson& message, const std::string& param) {
    if (request_->turns.empty()) {
      throw RequestError(400, "An assistant message must follow one of the user.", param + ".role");
    }
    std::string& answer = request_->turns.back().answer;
    answer += (last_ == Last::kAnswer ? "\n" : "") + text;
    last_ = Last::kAnswer;
    const RequestJson* calls = find_field(message, "tool_calls");
    if (calls == nullptr) return;
    calls_ = parse_calls(*calls, param + ".tool_calls");
    for (const EarlierCall& one : calls_) {
      if (!answer.empty()) answer += syntax_.call_gap;
      answer += syntax_.show_call(one.call);
    }
  }

  void add_result(const std::string& text, const RequestJson& message, const std::string& param) {
    if (last_ != Last::kAnswer && last_ != Last::kResult) {
      throw RequestError(400, "A tool message must follow an assistant's calls.", param + ".role");
    }
    const std::string shown = syntax_.show_result(name_of_tool(message), text);
    if (syntax_.keeps_turn) {
      request_->turns.back().answer += shown;
    } else {
      add_user({{.text = shown, .param = param + ".content"}});
    }
    last_ = Last::kResult;
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
  const ToolSyntax& syntax_;
  ChatRequest* request_;
  Last last_ = Last::kNothing;
  std::vector<EarlierCall> calls_;  // the newest answer's
};

}  // namespace

void parse_messages(const RequestJson& body, const ToolSyntax& syntax, CutText* cut, ChatRequest* request) {
  const RequestJson* messages = find_field(body, "messages");
  if (messages == nullptr) throw RequestError(400, "messages is missing.", "messages");
  if (!messages->is_array() || messages->empty()) {
    throw RequestError(400, "messages must be an array of one message or more.", "messages");
  }
  ConversationReader reader(cut, syntax, request);
  for (size_t i = 0; i < messages->size(); ++i) reader.read((*messages)[i], "messages[" + std::to_string(i) + "]");
  reader.finish();
}

}  // namespace ocellus::app
