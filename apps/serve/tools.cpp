#include "apps/serve/tools.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "apps/base/plain_text.h"
#include "runtime/ocellus.h"

namespace ocellus::app {
namespace {

constexpr size_t kMaxTools = 128, kMaxNameBytes = 64;

[[noreturn]] void refuse(const std::string& param, const std::string& what) {
  throw RequestError(400, param + " " + what, param);
}

const RequestJson& expect_field(const RequestJson& object, const std::string& name, const std::string& at) {
  expect_object(object, at);
  const RequestJson* field = find_field(object, name);
  if (field == nullptr) refuse(at + "." + name, "is missing.");
  return *field;
}

// Fields around a function, and in it: in a tool, a tool_choice or an earlier call.
struct FunctionRules {
  FieldRules around, inside;
};
constexpr std::string_view kAround[] = {"type", "function", "cache_control"}, kAroundChoice[] = {"type", "function"},
                           kAroundCall[] = {"type", "function", "id", "index"};
constexpr std::string_view kTool[] = {"name", "description", "parameters", "strict"}, kChoice[] = {"name"},
                           kCall[] = {"name", "arguments"};
constexpr RefusedField kNotAroundTool[] = {
    {"name", "@function.name"},     {"description", "@function.description"}, {"parameters", "@function.parameters"},
    {"strict", "@function.strict"}, {"input_schema", "@function.parameters"}, {"inputSchema", "@function.parameters"}};
constexpr RefusedField kNotInTool[] = {{"input_schema", "@parameters"},
                                       {"inputSchema", "@parameters"},
                                       {"schema", "@parameters"},
                                       {"arguments", "@parameters"}};
constexpr RefusedField kNotInChoice[] = {{"name", "@function.name"}, {"arguments"}, {"allowed_tools"}, {"mode"}};
constexpr RefusedField kNotInCall[] = {{"name", "@function.name"},
                                       {"arguments", "@function.arguments"},
                                       {"input", "@function.arguments"},
                                       {"parameters", "@arguments"}};
// The same in /v1/responses, where the function is the object itself.
constexpr std::string_view kFlatTool[] = {"type", "name", "description", "parameters", "strict"},
                           kFlatChoice[] = {"type", "name"},
                           kFlatCall[] = {"type", "name", "arguments", "call_id", "id", "status"};
constexpr RefusedField kNotInFlatChoice[] = {{"function", "@name"}, {"mode"}, {"tools"}};
constexpr RefusedField kNotInFlatCall[] = {
    {"function", "@name"}, {"input", "@arguments"}, {"parameters", "@arguments"}};
constexpr FunctionRules kToolRules = {{.known = kAround, .refused = kNotAroundTool},
                                      {.known = kTool, .refused = kNotInTool}};
constexpr FunctionRules kChoiceRules = {{.known = kAroundChoice, .refused = kNotInChoice},
                                        {.known = kChoice, .refused = kNotInChoice}};
constexpr FunctionRules kCallRules = {{.known = kAroundCall, .refused = kNotInCall},
                                      {.known = kCall, .refused = kNotInCall}};

// The function of a tool, a tool_choice or a call, which has the type "function".
const RequestJson& expect_function(const RequestJson& object, const std::string& at, const FunctionRules& rules,
                                   FieldNames* unknown) {
  expect_object(object, at);
  const RequestJson* type = find_field(object, "type");
  if (type != nullptr && *type != "function") refuse(at + ".type", "must be function.");
  const RequestJson& function = expect_field(object, "function", at);
  expect_object(function, at + ".function");
  check_fields(object, at, rules.around, unknown);
  check_fields(function, at + ".function", rules.inside, unknown);
  return function;
}

std::string expect_name(const RequestJson& function, const std::string& at) {
  const std::string name = expect_string(expect_field(function, "name", at), at + ".name");
  const bool is_sound =
      !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
      });
  if (!is_sound) refuse(at + ".name", "must be 1 to 64 letters, digits, _ and -.");
  return name;
}

// Arguments are an object, whatever else the schema allows; a schema that says nothing has no arguments.
RequestJson object_schema(const RequestJson* parameters, const std::string& at) {
  if (parameters == nullptr) return {{"type", "object"}, {"properties", RequestJson::object()}};
  expect_object(*parameters, at);
  if (parameters->empty()) return object_schema(nullptr, at);
  RequestJson schema = *parameters;
  const RequestJson* type = find_field(schema, "type");
  const bool allows_object = type == nullptr || *type == "object" ||
                             (type->is_array() && std::find(type->begin(), type->end(), "object") != type->end());
  if (!allows_object) refuse(at + ".type", "must be object: arguments are an object.");
  schema["type"] = "object";
  return schema;
}

// A tool as /v1/responses has it, in the form of /v1/chat/completions.
RequestJson nest_function(const RequestJson& flat, const std::string& at, FieldNames* unknown) {
  expect_object(flat, at);
  if (expect_field(flat, "type", at) != "function") {
    refuse(at + ".type", "must be function: this server has no tools of its own.");
  }
  check_fields(flat, at, {.known = kFlatTool, .refused = kNotInTool}, unknown);
  RequestJson function = flat;
  function.erase("type");
  return {{"type", "function"}, {"function", std::move(function)}};
}

// `param`: the function in the request.
Tool parse_tool(const RequestJson& value, const std::string& at, const std::string& param, FieldNames* unknown) {
  const RequestJson& function = expect_function(value, at, kToolRules, unknown);
  Tool tool;
  tool.name = expect_name(function, param);
  tool.at = param;
  tool.param = param + ".parameters";
  tool.parameters = object_schema(find_field(function, "parameters"), tool.param);
  tool.shown = value;
  return tool;
}

// Puts the tool that is named first.
void choose_tool(const RequestJson& choice, bool is_flat, Tools* tools, FieldNames* unknown) {
  const std::string at = "tool_choice";
  if (choice == "none" || choice == "auto" || choice == "required") {
    tools->choice = choice == "none" ? ToolChoice::kNone : choice == "auto" ? ToolChoice::kAuto : ToolChoice::kAny;
    return;
  }
  if (choice.is_string()) refuse(at, "must be none, auto, required or a function.");
  const std::string place = is_flat ? at : at + ".function";
  if (is_flat && expect_field(choice, "type", at) != "function") refuse(at + ".type", "must be function.");
  if (is_flat) check_fields(choice, at, {.known = kFlatChoice, .refused = kNotInFlatChoice}, unknown);
  const std::string name = expect_name(is_flat ? choice : expect_function(choice, at, kChoiceRules, unknown), place);
  const auto found =
      std::find_if(tools->tools.begin(), tools->tools.end(), [&](const Tool& t) { return t.name == name; });
  if (found == tools->tools.end()) refuse(place + ".name", "is none of the tools.");
  std::iter_swap(tools->tools.begin(), found);
  tools->choice = ToolChoice::kNamed;
}

// A tool's promise of its arguments can be held where the answer must be a call.
void note_unheld(const Tools& tools, FieldNames* unknown) {
  for (const Tool& tool : tools.tools) {
    const RequestJson* strict = find_field(tool.shown.at("function"), "strict");
    if (tools.choice == ToolChoice::kAuto && strict != nullptr && *strict == true)
      note_unknown(tool.at + ".strict", unknown);
  }
}

// The place of a tool's arguments in the schema of calls.
constexpr std::string_view kChoicePlace = "#/anyOf/", kArgumentsPlace = "/properties/arguments";

// The schema of a tool stands in another one, at `place`: its references begin there.
void move_references(RequestJson* schema, const std::string& place) {
  for (auto& [name, value] : schema->items()) {
    if (value.is_structured()) {
      move_references(&value, place);
    } else if (name == "$ref" && value.is_string() && value.get_ref<const std::string&>().starts_with("#")) {
      value = "#" + place + value.get<std::string>().substr(1);
    }
  }
}

RequestJson call_schema(const Tool& tool, const std::string& place) {
  RequestJson arguments = tool.parameters;
  move_references(&arguments, place + std::string(kArgumentsPlace));
  return {{"type", "object"},
          {"properties", {{"name", {{"const", tool.name}}}, {"arguments", std::move(arguments)}}},
          {"required", {"name", "arguments"}},
          {"additionalProperties", false}};
}

}  // namespace

Tools parse_tools(const RequestJson& body, const ToolSyntax& syntax, FieldNames* unknown, bool is_flat) {
  Tools tools;
  tools.syntax = &syntax;
  if (const RequestJson* list = find_field(body, "tools")) {
    if (!list->is_array() || list->size() > kMaxTools) {
      refuse("tools", "must be an array of at most " + std::to_string(kMaxTools) + ".");
    }
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string at = "tools[" + std::to_string(i) + "]";
      tools.tools.push_back(is_flat ? parse_tool(nest_function((*list)[i], at, unknown), at, at, unknown)
                                    : parse_tool((*list)[i], at, at + ".function", unknown));
    }
  }
  const RequestJson* parallel = find_field(body, "parallel_tool_calls");
  tools.is_parallel = parallel == nullptr || expect_bool(*parallel, "parallel_tool_calls");
  const RequestJson* choice = find_field(body, "tool_choice");
  if (!tools.tools.empty()) tools.choice = ToolChoice::kAuto;
  if (choice != nullptr && !tools.tools.empty()) {
    choose_tool(*choice, is_flat, &tools, unknown);
  } else if (choice != nullptr && *choice != "none" && *choice != "auto") {
    refuse("tool_choice", "goes with tools.");
  }
  note_unheld(tools, unknown);
  return tools;
}

std::optional<AnswerForm> call_form(const Tools& tools) {
  if (tools.choice == ToolChoice::kNamed) {
    return AnswerForm{OCELLUS_CONSTRAINT_SCHEMA, tools.tools[0].parameters.dump(), tools.tools[0].param};
  }
  if (tools.choice != ToolChoice::kAny) return std::nullopt;
  RequestJson calls = RequestJson::array();
  AnswerForm form = {OCELLUS_CONSTRAINT_SCHEMA, "", "tools"};
  for (const Tool& tool : tools.tools) {
    const std::string place = std::string(kChoicePlace.substr(1)) + std::to_string(calls.size());
    calls.push_back(call_schema(tool, place));
    form.tools.push_back(tool.param);
  }
  form.text = RequestJson{{"anyOf", std::move(calls)}}.dump();
  return form;
}

RequestError name_tool(const AnswerForm& form, const RequestError& failure) {
  std::string sentence = failure.what();
  const size_t begin = sentence.find(kChoicePlace);
  const size_t end = begin == sentence.npos ? begin : sentence.find(kArgumentsPlace, begin);
  if (form.tools.empty() || end == sentence.npos) return failure;
  const size_t digits = begin + kChoicePlace.size();
  const size_t tool = std::strtoull(sentence.substr(digits, end - digits).c_str(), nullptr, 10);
  if (tool >= form.tools.size()) return failure;
  sentence.replace(begin, end + kArgumentsPlace.size() - begin, "#");
  return RequestError(failure.status(), form.tools[tool] + ": " + sentence, form.tools[tool], failure.code());
}

EarlierCall parse_flat_call(const RequestJson& item, const std::string& at, FieldNames* unknown) {
  check_fields(item, at, {.known = kFlatCall, .refused = kNotInFlatCall}, unknown);
  std::string arguments = expect_string(expect_field(item, "arguments", at), at + ".arguments");
  if (const auto excess = find_json_excess(arguments, kRequestJson)) refuse(at + ".arguments", *excess + ".");
  return {expect_string(expect_field(item, "call_id", at), at + ".call_id"),
          {expect_name(item, at), std::move(arguments)}};
}

std::vector<EarlierCall> parse_calls(const RequestJson& calls, const std::string& param, FieldNames* unknown) {
  if (!calls.is_array()) refuse(param, "must be an array.");
  std::vector<EarlierCall> parsed;
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string at = param + "[" + std::to_string(i) + "]";
    const RequestJson& function = expect_function(calls[i], at, kCallRules, unknown);
    const std::string place = at + ".function.arguments";
    std::string arguments = expect_string(expect_field(function, "arguments", at + ".function"), place);
    if (const auto excess = find_json_excess(arguments, kRequestJson)) refuse(place, *excess + ".");
    const RequestJson* id = find_field(calls[i], "id");
    parsed.push_back({id == nullptr ? "" : expect_string(*id, at + ".id"),
                      {expect_name(function, at + ".function"), std::move(arguments)}});
  }
  return parsed;
}

std::string CallReader::push(std::string_view piece) {
  if (tools_ == nullptr || tools_->choice == ToolChoice::kNone) return std::string(piece);
  held_ += piece;
  const bool is_call = tools_->choice != ToolChoice::kAuto;
  const size_t shown = is_call ? 0 : find_beginning(held_, tools_->syntax->call_begin);
  std::string text = held_.substr(0, shown);
  held_.erase(0, shown);
  return text;
}

std::string CallReader::finish() {
  if (held_.empty()) return "";
  if (tools_->choice == ToolChoice::kNamed) {
    calls_.push_back({tools_->tools[0].name, trim(std::exchange(held_, ""))});
    return "";
  }
  if (tools_->choice == ToolChoice::kAny ? keep(read_json_call(held_)) : read_calls()) {
    held_.clear();
    if (!tools_->is_parallel) calls_.resize(1);
  } else {
    calls_.clear();
  }
  return std::exchange(held_, "");
}

// Reads calls one after the other; true if there is nothing else.
bool CallReader::read_calls() {
  std::string_view rest = held_;
  while (!rest.empty()) {
    if (!keep(tools_->syntax->take_call(&rest))) return false;
  }
  return true;
}

bool CallReader::keep(std::optional<ToolCall> call) {
  const bool is_known = call && std::any_of(tools_->tools.begin(), tools_->tools.end(),
                                            [&](const Tool& tool) { return call->name == tool.name; });
  if (is_known) calls_.push_back(std::move(*call));
  return is_known;
}

}  // namespace ocellus::app
