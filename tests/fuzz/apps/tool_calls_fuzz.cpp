// Calls of tools in a model's answer, in either form, whole and in pieces.
#include "apps/serve/tools.h"
#include "tests/fuzz/apps/json_changes.h"

namespace ocellus::fuzz {
namespace {

struct Read {
  std::string text;
  std::vector<app::ToolCall> calls;
};

Read read(const app::Tools& tools, std::string_view answer, size_t piece) {
  app::CallReader reader(&tools);
  Read read;
  for (; !answer.empty(); answer.remove_prefix(std::min(piece, answer.size()))) {
    read.text += reader.push(answer.substr(0, piece));
  }
  read.text += reader.finish();
  read.calls = reader.calls();
  return read;
}

bool run(const uint8_t* data, size_t size) {
  const std::string_view answer(reinterpret_cast<const char*>(data), size);
  bool has_calls = false;
  for (const app::ToolSyntax* syntax : {&app::kJsonTools, &app::kGemma4Tools}) {
    app::Tools tools;
    tools.tools.push_back({.name = "f", .shown = {}, .parameters = {}, .param = ""});
    tools.choice = app::ToolChoice::kAuto;
    tools.syntax = syntax;
    const Read whole = read(tools, answer, size), pieces = read(tools, answer, 3);
    require(whole.text == pieces.text && whole.calls.size() == pieces.calls.size(), "pieces say what the whole says");
    require(answer.starts_with(whole.text), "text stays as it is");
    for (const app::ToolCall& call : whole.calls) {
      require(app::RequestJson::parse(call.arguments, nullptr, false).is_object(), "arguments are a JSON object");
      require(call.name == "f", "only known tools are called");
    }
    has_calls = has_calls || !whole.calls.empty();
  }
  return has_calls;
}

std::vector<Bytes> make_seeds() {
  return {bytes_of("I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, {}]}}\n</tool_call>"),
          bytes_of("<|tool_call>call:f{a:<|\"|>b, {c}<|\"|>,d:[1,-2.5e3,[{}]],e:{g:None,h:true},i:red}<tool_call|>"
                   "<|tool_call>call:f{}<tool_call|>")};
}

const Registration kRegistered({.name = "tool_calls",
                                .make_seeds = make_seeds,
                                .mutate = change_json,
                                .run = run,
                                .most_heap_bytes = int64_t{4} << 20});

}  // namespace
}  // namespace ocellus::fuzz
