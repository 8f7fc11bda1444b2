// Tools in <tools>, calls in <tool_call>, results in <tool_response>: JSON between tags, by Qwen3-VL's chat template.
#include <algorithm>

#include "apps/serve/tool_syntax.h"
#include "runtime/ocellus.h"

namespace ocellus::app::json_tools {
namespace {

constexpr std::string_view kCall = "<tool_call>", kCallEnd = "</tool_call>";
constexpr std::string_view kResult = "<tool_response>\n", kResultEnd = "\n</tool_response>";

// As Python's json.dumps writes it, and with it chat templates.
std::string spaced_text(const RequestJson& value) {
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [name, one] : value.items()) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text += RequestJson(name).dump() + ": ";
    text += spaced_text(one);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

std::string describe(std::span<const Tool> tools) {
  std::string text =
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
      "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n";
  for (const Tool& tool : tools) text += spaced_text(tool.shown) + "\n";
  return text +
         "</tools>\n\nFor each function call, return a json object with function name and arguments within "
         "<tool_call></tool_call> XML tags:\n<tool_call>\n"
         "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>";
}

std::string show_call(const ToolCall& call) {
  return std::string(kCall) + "\n{\"name\": " + RequestJson(call.name).dump() + ", \"arguments\": " + call.arguments +
         "}\n" + std::string(kCallEnd);
}

std::string show_result(const std::string& /*tool*/, const std::string& result) {
  return std::string(kResult) + result + std::string(kResultEnd);
}

std::optional<ToolCall> take_call(std::string_view* text) {
  if (!text->starts_with(kCall)) return std::nullopt;
  const size_t end = std::min(text->find(kCallEnd), text->size());
  const std::optional<ToolCall> call = read_json_call(text->substr(kCall.size(), end - kCall.size()));
  if (!call) return std::nullopt;
  text->remove_prefix(std::min(end + kCallEnd.size(), text->size()));
  text->remove_prefix(std::min(text->find_first_not_of(" \t\r\n"), text->size()));
  return call;
}

}  // namespace
}  // namespace ocellus::app::json_tools

namespace ocellus::app {

constexpr ToolSyntax kJsonTools = {.call_begin = json_tools::kCall,
                                   .system_gap = "\n\n",
                                   .call_gap = "\n",
                                   .result_begin = json_tools::kResult,
                                   .result_end = json_tools::kResultEnd,
                                   .keeps_turn = false,
                                   .describe = json_tools::describe,
                                   .show_call = json_tools::show_call,
                                   .show_result = json_tools::show_result,
                                   .take_call = json_tools::take_call};

const ToolSyntax& tool_syntax(int32_t calls_tools) {
  return calls_tools == OCELLUS_TOOLS_GEMMA4 ? kGemma4Tools : kJsonTools;
}

std::optional<ToolCall> read_json_call(std::string_view text) {
  const RequestJson call = read_json(text, kRequestJson);
  if (!call.is_object() || !call.contains("name") || !call.contains("arguments")) return std::nullopt;
  if (!call["name"].is_string() || !call["arguments"].is_object()) return std::nullopt;
  return ToolCall{call["name"].get<std::string>(), call["arguments"].dump()};
}

}  // namespace ocellus::app
