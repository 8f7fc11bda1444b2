#include "apps/serve/conversation_reader.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "apps/serve/request_error.h"

namespace ocellus::app {
namespace {

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

}  // namespace

void ConversationReader::add_system(std::vector<ChatPart> parts, const std::string& param) {
  add_texts(std::move(parts), &begin_turn(OCELLUS_ROLE_SYSTEM, param));
  if (last_ != Last::kNothing) last_ = Last::kUser;
}

void ConversationReader::add_user(std::vector<ChatPart> parts, const std::string& param) {
  ChatTurn& turn = begin_turn(OCELLUS_ROLE_USER, param);
  last_ = Last::kUser;
  turn.parts.insert(turn.parts.end(), std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
}

void ConversationReader::add_answer(std::vector<ChatPart> parts, const std::string& param) {
  const bool stays = last_ == Last::kResult && form_.syntax.keeps_turn;
  ChatTurn& turn = stays ? request_->turns.back() : begin_turn(OCELLUS_ROLE_ASSISTANT, param);
  last_ = Last::kAnswer;
  if (!stays) return add_texts(std::move(parts), &turn);
  std::string more = join_texts(parts);
  if (form_.cuts_thoughts) more = without_thoughts(std::move(more));
  add_part({.text = std::move(more), .param = param + ".content"}, &turn.parts);
}

void ConversationReader::add_calls(const std::vector<EarlierCall>& calls, const std::string& param) {
  if (calls.empty()) return;
  begin_shown();
  calls_.insert(calls_.end(), calls.begin(), calls.end());
  std::vector<ChatPart>& parts = request_->turns.back().parts;
  add_part({.param = param}, &parts);
  std::string& text = parts.back().text;
  for (const EarlierCall& one : calls) {
    if (!text.empty()) text += form_.syntax.call_gap;
    text += form_.syntax.show_call(one.call);
  }
}

// Consecutive results are one message of the user, or stand in the model's own.
void ConversationReader::add_result(std::vector<ChatPart> parts, const std::string& id, const std::string& tool,
                                    const std::string& param) {
  std::vector<ChatPart> shown = show_result(std::move(parts), name_of_tool(id, tool), param);
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

void ConversationReader::finish(const RequestJson& body, const std::string& param) {
  const bool is_answer = last_ == Last::kAnswer, is_open = last_ == Last::kResult && form_.syntax.keeps_turn;
  const RequestJson* goes_on = find_field(body, "continue_final_message");
  const RequestJson* opens = find_field(body, "add_generation_prompt");
  if (last_ == Last::kNothing) {
    throw RequestError(400, "There must be a message of the user or the assistant.", param);
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

// Messages of one role in a row are one in a plain form, else they are several.
ChatTurn& ConversationReader::begin_turn(int32_t role, const std::string& param) {
  std::vector<ChatTurn>& turns = request_->turns;
  if (form_.is_plain && !turns.empty() && turns.back().role == role) return turns.back();
  if (!turns.empty() && turns.back().role == OCELLUS_ROLE_ASSISTANT) cut_last_thought();
  has_shown_ = false;
  turns.push_back({.role = role, .param = param});
  return turns.back();
}

// Calls and results have no thoughts, whatever they say: they follow an answer whose thought is cut.
void ConversationReader::begin_shown() {
  cut_last_thought();
  has_shown_ = true;
}

void ConversationReader::cut_last_thought() {
  if (has_shown_ || !form_.cuts_thoughts || request_->turns.back().role != OCELLUS_ROLE_ASSISTANT) return;
  for (ChatPart& part : request_->turns.back().parts) part.text = without_thoughts(std::move(part.text));
}

// Texts of a plain form are one, with line breaks between them.
void ConversationReader::add_texts(std::vector<ChatPart> parts, ChatTurn* turn) {
  for (ChatPart& part : parts) {
    if (form_.is_plain && !turn->parts.empty()) {
      std::string& text = turn->parts.back().text;
      text += (text.empty() ? "" : "\n") + part.text;
    } else {
      turn->parts.push_back(std::move(part));
    }
  }
}

// The tool whose result a message is, by the call's identifier, or by the name that the message states.
std::string ConversationReader::name_of_tool(const std::string& id, const std::string& name) const {
  const auto has_it = [&id](const EarlierCall& one) { return !one.id.empty() && one.id == id; };
  const auto found = std::find_if(calls_.rbegin(), calls_.rend(), has_it);
  if (found != calls_.rend()) return found->call.name;
  return name.empty() ? "unknown" : name;
}

// A result with its pictures where the chat template has them.
std::vector<ChatPart> ConversationReader::show_result(std::vector<ChatPart> parts, const std::string& tool,
                                                      const std::string& param) const {
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

}  // namespace ocellus::app
