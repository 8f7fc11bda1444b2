// Tools that an answer may call: which of them a request names, and its calls in the answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/answer_form.h"
#include "apps/serve/json_fields.h"
#include "apps/serve/request_error.h"
#include "apps/serve/tool_syntax.h"

namespace ocellus::app {

enum class ToolChoice : char {
  kNone,  // answers are text
  kAuto,  // the model decides
  kAny,   // the answer is a call
  kNamed  // the answer has the arguments of a call of the first tool
};

struct Tools {
  std::vector<Tool> tools;
  ToolChoice choice = ToolChoice::kNone;
  bool is_parallel = true;  // false: of several calls the first one counts
  const ToolSyntax* syntax = &kJsonTools;
};

// Reads the fields tools and tool_choice. `unknown` takes the places of fields that nothing reads. `is_flat`: in the
// form of /v1/responses. Throws a RequestError, as parse_calls.
Tools parse_tools(const RequestJson& body, const ToolSyntax& syntax, FieldNames* unknown, bool is_flat = false);

// Returns the form of an answer that must be a call; nullopt: any text will do.
std::optional<AnswerForm> call_form(const Tools& tools);
// Names the tool, and the place in its parameters, if the failure of such a form is about one.
RequestError name_tool(const AnswerForm& form, const RequestError& failure);

struct EarlierCall {
  std::string id;
  ToolCall call;
};
// Reads a call that is an item of /v1/responses.
EarlierCall parse_flat_call(const RequestJson& item, const std::string& at, FieldNames* unknown);
// Reads the calls of an earlier answer.
std::vector<EarlierCall> parse_calls(const RequestJson& calls, const std::string& param, FieldNames* unknown);

// Takes calls out of an answer. Text from the first call on is held back until finish().
class CallReader {
 public:
  explicit CallReader(const Tools* tools = nullptr) : tools_(tools) {}  // nullptr: there are none
  // Returns the text that is no call; a possible beginning of one is held back.
  std::string push(std::string_view piece);
  // Returns the rest of the text at the end of the answer: what is no call of these tools is text.
  std::string finish();
  const std::vector<ToolCall>& calls() const { return calls_; }

 private:
  bool read_calls();
  bool keep(std::optional<ToolCall> call);

  const Tools* tools_;
  std::string held_;
  std::vector<ToolCall> calls_;
};

}  // namespace ocellus::app
