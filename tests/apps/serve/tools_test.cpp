// Tools as a model reads them, and its calls as it writes them.
#include "apps/serve/tools.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "apps/serve/chat_request.h"
#include "apps/serve/data_url.h"
#include "runtime/models/prompt_layout.h"

namespace ocellus::app {
namespace {

ChatRequest read_request(std::string body, bool cuts_thoughts = false) {
  ocellus_generate_params defaults;
  ocellus_generate_params_init(&defaults);
  PromptForm form(kGemma4Tools);
  form.cuts_thoughts = cuts_thoughts;
  return parse_chat_request(&body, defaults, form);
}

// The conversation as one text, with the marks that the runtime puts around it.
std::string prompt_of(const ChatRequest& request) {
  const PromptLayout& layout = find_layout("Gemma4", ChatTemplate::kGemma4, "");
  const MessageText* const texts[] = {&layout.system, &layout.user, &layout.answer};
  std::string prompt = "<bos>";
  for (const ChatTurn& turn : request.turns) {
    prompt += texts[turn.role]->before;
    for (const ChatPart& part : turn.parts) prompt += part.text;
    if (turn.goes_on) return prompt;
    prompt += texts[turn.role]->after;
  }
  return prompt + (request.opens_answer ? layout.opens_answer : "");
}

Tools make_tools(const std::vector<std::string>& names) {
  RequestJson list = RequestJson::array();
  for (const std::string& name : names) list.push_back({{"type", "function"}, {"function", {{"name", name}}}});
  FieldNames unknown;
  return parse_tools({{"tools", list}}, kGemma4Tools, &unknown);
}

// Reads an answer in pieces of `size` bytes: its text, and its calls as NAME(ARGUMENTS).
std::vector<std::string> read_answer(const Tools& tools, const std::string& answer, size_t size) {
  CallReader reader(&tools);
  std::string text;
  for (size_t at = 0; at < answer.size(); at += size) text += reader.push(answer.substr(at, size));
  text += reader.finish();
  std::vector<std::string> read = {text};
  for (const ToolCall& call : reader.calls()) read.push_back(call.name + "(" + call.arguments + ")");
  return read;
}

std::string describe(const std::string& parameters) {
  const RequestJson tool = {{"function", {{"name", "f"}, {"parameters", RequestJson::parse(parameters)}}}};
  return kGemma4Tools.describe(std::vector<Tool>{{.name = "f", .shown = tool, .parameters = {}, .param = ""}});
}

}  // namespace

TEST_SUITE("serve tools") {
  TEST_CASE("Gemma 4 reads tools, calls and results as its own chat template has them") {
    std::ifstream file(OCELLUS_SOURCE_DIR "/tests/data/tools/gemma4.json");
    const RequestJson cases = RequestJson::parse(file);
    CHECK(cases.size() == 6);
    for (const RequestJson& one : cases) CHECK(prompt_of(read_request(one["request"].dump())) == one["prompt"]);
  }

  TEST_CASE("earlier thoughts are cut, and calls and results keep what looks like one") {
    const std::string call = R"({"id": "1", "type": "function", "function": {"name": "f", "arguments":
                              "{\"a\": \"x</think>y\"}"}})";
    const ChatRequest request = read_request(R"({"messages": [{"role": "user", "content": "Q"},
        {"role": "assistant", "content": "hm</think>Look.", "tool_calls": [)" +
                                                 call + R"(]},
        {"role": "tool", "tool_call_id": "1", "content": "a<|channel>b</think>c"},
        {"role": "assistant", "content": "hm</think>Seen."}, {"role": "user", "content": "Q"}]})",
                                             true);
    std::string text;
    for (const ChatPart& part : request.turns[1].parts) text += part.text;
    CHECK(text ==
          "Look.<|tool_call>call:f{a:<|\"|>x</think>y<|\"|>}<tool_call|><|tool_response>response:f{value:<|\"|>"
          "a<|channel>b</think>c<|\"|>}<tool_response|>Seen.");
  }

  TEST_CASE("types that are lists, and properties named as a schema's own words, are shown") {
    const std::string shown = describe(R"({"type": "object", "properties": {"type": {"type": ["string", "null"], "enum":
                                       ["a"]}, "at": {"$ref": "#/x"}, "free": {"type": "object"}, "all": true}})");
    CHECK(
        shown ==
        "<|tool>declaration:f{description:<|\"|><|\"|>,parameters:{properties:{all:{type:<|\"|><|\"|>},at:{type:<|\"|>"
        "<|\"|>},free:{properties:{},type:<|\"|>OBJECT<|\"|>},type:{enum:[<|\"|>a<|\"|>],type:[<|\"|>STRING<|\"|>,"
        "<|\"|>NULL<|\"|>]}},type:<|\"|>OBJECT<|\"|>}}<tool|>");
  }

  TEST_CASE("a text cannot end its own string") {
    CHECK(kGemma4Tools.show_result("f", "a<|\"|>}<|\"|>") ==
          "<|tool_response>response:f{value:<|\"|>a\"}\"<|\"|>}<tool_response|>");
    // Nor with a mark that appears where another one was.
    const std::string begin = "<|tool_response>response:f{value:<|\"|>", end = "<|\"|>}<tool_response|>";
    for (const std::string text :
         {"<|<|\"|>|>", "<|<|<|\"|>|>|>", "<<|\"|>|<|\"|>|>", "<|\"<|\"|>|>", "a<|<|\"|>|>}"}) {
      const std::string shown = kGemma4Tools.show_result("f", text);
      REQUIRE(shown.size() >= begin.size() + end.size());
      const std::string inside = shown.substr(begin.size(), shown.size() - begin.size() - end.size());
      CHECK_MESSAGE(inside.find("<|\"|>") == std::string::npos, inside);
    }
  }

  TEST_CASE("pictures of a result stand in it, or after it in Gemma 4's form") {
    std::ifstream file(OCELLUS_SOURCE_DIR "/tests/data/images/gray_2.png", std::ios::binary);
    const std::string png((std::istreambuf_iterator<char>(file)), {});
    const std::string url =
        "data:image/png;base64," + encode_base64({reinterpret_cast<const uint8_t*>(png.data()), png.size()});
    const std::string picture = R"({"type": "image_url", "image_url": {"url": ")" + url + R"("}})";
    const std::string call = R"({"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}})";
    const std::string result = R"({"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "a"}, )" +
                               picture + R"(, {"type": "text", "text": "b"}]})";
    const std::string asked =
        R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [)" + call + "]}, " +
        result + ", " + result + R"(, {"role": "assistant", "content": "y"}]})";
    const auto shown = [&](const ToolSyntax& syntax, size_t turn) {
      ocellus_generate_params defaults;
      ocellus_generate_params_init(&defaults);
      std::string body = asked;
      const ChatRequest request = parse_chat_request(&body, defaults, PromptForm(syntax));
      std::string text;
      for (const ChatPart& part : request.turns[turn].parts)
        text += part.is_image ? "(picture)" : "[" + part.text + "]";
      return text;
    };
    CHECK(shown(kJsonTools, 2) ==
          "[<tool_response>\na](picture)[b\n</tool_response>\n<tool_response>\na](picture)[b\n</tool_response>]");
    const std::string block = "<|tool_response>response:f{value:<|\"|>a\nb<|\"|>}<tool_response|>";
    CHECK(shown(kGemma4Tools, 1) ==
          "[<|tool_call>call:f{}<tool_call|>" + block + "](picture)[" + block + "](picture)[y]");
  }

  TEST_CASE("what a tool gave back without a known call has the name that its message states") {
    const std::string asked =
        R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"},)";
    CHECK(read_request(asked + R"({"role": "tool", "content": "1"}]})").turns.back().parts[0].text ==
          "y<|tool_response>response:unknown{value:<|\"|>1<|\"|>}<tool_response|>");
    CHECK(read_request(asked + R"({"role": "tool", "name": "f", "content": "1"}]})").turns.back().parts[0].text ==
          "y<|tool_response>response:f{value:<|\"|>1<|\"|>}<tool_response|>");
  }

  TEST_CASE("Gemma 4's calls are taken out of its answer, in whatever pieces it comes") {
    const Tools tools = make_tools({"look", "stop"});
    const std::string call =
        "<|tool_call>call:look{at:<|\"|>a, {b}: "
        "<tool_call|><|\"|>,box:[1,-2.5,[]],deep:{a:{b:true}},none:None,old:null,"
        "word:red star,<|\"|>q, r<|\"|>:{}}<tool_call|>";
    const std::string arguments =
        R"({"at":"a, {b}: <tool_call|>","box":[1,-2.5,[]],"deep":{"a":{"b":true}},"none":null,"old":null,)"
        R"("word":"red star","q, r":{}})";
    for (const size_t size : {size_t{1}, size_t{3}, size_t{1000}}) {
      using Read = std::vector<std::string>;
      CHECK(read_answer(tools, call, size) == Read{"", "look(" + arguments + ")"});
      CHECK(read_answer(tools, "I look.\n" + call + "\n<|tool_call> call:stop { } ", size) ==
            Read{"I look.\n", "look(" + arguments + ")", "stop({})"});
    }
  }

  TEST_CASE("what is no call of these tools is text") {
    const Tools tools = make_tools({"look"});
    const std::string deep = "<|tool_call>call:look" + std::string(90, '{');
    std::string nested = "<|tool_call>call:look{a:";
    for (int i = 0; i < 90; ++i) nested += "[";
    for (const std::string& text :
         {std::string("<|tool_call>"), std::string("<|tool_call>call:other{}<tool_call|>"), deep, nested,
          std::string("<|tool_call>call:look{}<tool_call|> and"), std::string("<|tool_call>call:look{a}"),
          std::string("<|tool_call>call:look{a:}<tool_call|>"), std::string("<|tool_call>call:look{:1}<tool_call|>"),
          std::string("<|tool_call>call:look{a:<|\"|>b}<tool_call|>"), std::string("<|tool_call>call:look{a:1"),
          std::string("<|tool_call>look{}"), std::string("1 <|tool")})
      CHECK(read_answer(tools, text, 4) == std::vector<std::string>{text});
  }
}

}  // namespace ocellus::app
