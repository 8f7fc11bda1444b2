// ToolSyntax: the texts by which a model is told of tools, calls them, and reads what they gave back; a file for each
// form that chat templates have.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "apps/serve/json_fields.h"

namespace ocellus::app {

struct Tool {
  std::string name;
  RequestJson shown;       // as the request has it, with its function
  RequestJson parameters;  // the schema of its arguments
  std::string at = {};     // its function in the request
  std::string param;       // the request's field of its parameters
};

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON
};

struct ToolSyntax {
  std::string_view call_begin;                          // begins each call in an answer
  std::string_view system_gap;                          // stands between a system prompt and the description of tools
  std::string_view call_gap;                            // stands before calls that follow a text or other calls
  std::string_view result_begin = {}, result_end = {};  // around a result with pictures; empty: these follow it
  bool keeps_turn;  // results stand in the model's turn, which goes on after them; else in a turn of the user
  std::string (*describe)(std::span<const Tool> tools);
  std::string (*show_call)(const ToolCall& call);
  std::string (*show_result)(const std::string& tool, const std::string& result);
  // Takes a call, from its beginning, and the white space after it off the front of a text; nullopt: there is none.
  std::optional<ToolCall> (*take_call)(std::string_view* text);
};

extern const ToolSyntax kJsonTools;    // JSON between tags, as Qwen's templates have it; other families read it, too
extern const ToolSyntax kGemma4Tools;  // Gemma 4's

// Returns the syntax of a model by ocellus_model_facts.calls_tools; kJsonTools if its template has no tools.
const ToolSyntax& tool_syntax(int32_t calls_tools);

// Reads {"name": ..., "arguments": {...}}.
std::optional<ToolCall> read_json_call(std::string_view text);

}  // namespace ocellus::app
