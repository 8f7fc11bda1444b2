// ConversationReader: makes a conversation's turns of its messages, calls of tools and results, as chat templates show
// them.
#pragma once

#include <string>
#include <vector>

#include "apps/serve/chat_request.h"
#include "apps/serve/tools.h"

namespace ocellus::app {

class ConversationReader {
 public:
  ConversationReader(const PromptForm& form, ChatRequest* request) : form_(form), request_(request) {}

  // `param`: the message in the request.
  void add_system(std::vector<ChatPart> parts, const std::string& param);
  void add_user(std::vector<ChatPart> parts, const std::string& param);
  // An answer after results in the model's own turn goes on in it.
  void add_answer(std::vector<ChatPart> parts, const std::string& param);
  // Adds calls to the answer before them.
  void add_calls(const std::vector<EarlierCall>& calls, const std::string& param);
  // Adds what a call gave back. `id`: the call's; `tool`: its name where no call has it; both may be empty.
  void add_result(std::vector<ChatPart> parts, const std::string& id, const std::string& tool,
                  const std::string& param);
  bool takes_calls() const { return last_ == Last::kAnswer; }
  bool takes_result() const { return last_ == Last::kAnswer || last_ == Last::kResult; }
  // Reads how the answer begins: after the last message, or as its end. `param`: the messages in the request.
  void finish(const RequestJson& body, const std::string& param);

 private:
  enum class Last : char { kNothing, kUser, kAnswer, kResult };

  ChatTurn& begin_turn(int32_t role, const std::string& param);
  void begin_shown();
  void cut_last_thought();
  void add_texts(std::vector<ChatPart> parts, ChatTurn* turn);
  std::string name_of_tool(const std::string& id, const std::string& name) const;
  std::vector<ChatPart> show_result(std::vector<ChatPart> parts, const std::string& tool,
                                    const std::string& param) const;

  const PromptForm& form_;
  ChatRequest* request_;
  Last last_ = Last::kNothing;
  bool has_shown_ = false;          // the last turn has calls or results
  std::vector<EarlierCall> calls_;  // so far
};

}  // namespace ocellus::app
