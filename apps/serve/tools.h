// Tools that an answer may call: how the model is told of them, and how its calls are found in its answer. The texts
// are those of Qwen's chat templates, which models of other families also read.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/answer_form.h"
#include "apps/serve/json_fields.h"

namespace ocellus::app {

enum class ToolChoice : char {
  kNone,  // answers are text
  kAuto,  // the model decides
  kAny,   // the answer is a call
  kNamed  // the answer has the arguments of a call of the first tool
};

struct Tool {
  std::string name;
  std::string shown;       // as the model reads it, JSON
  RequestJson parameters;  // the schema of its arguments
  std::string param;       // the request's field of that
};

struct Tools {
  std::vector<Tool> tools;
  ToolChoice choice = ToolChoice::kNone;
  bool is_parallel = true;  // false: of several calls the first one counts
};

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON
};

// Reads the fields tools and tool_choice. Throws a RequestError.
Tools parse_tools(const RequestJson& body);

// Returns the part of a system message that lists the tools; empty if answers are text.
std::string describe_tools(const Tools& tools);

// Returns the form of an answer that must be a call; nullopt: any text will do.
std::optional<AnswerForm> call_form(const Tools& tools);

// Returns the calls of an earlier answer, and what a tool gave back, as the model reads them.
std::string show_calls(const RequestJson& calls, const std::string& param);
std::string show_result(const std::string& result);

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
  bool read_call(std::string_view text);

  const Tools* tools_;
  std::string held_;
  std::vector<ToolCall> calls_;
};

}  // namespace ocellus::app
