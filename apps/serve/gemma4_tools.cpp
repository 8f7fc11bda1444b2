// Tools as Gemma 4's chat template writes them: strings stand between <|"|>, names are bare, members are in the order
// of their names.
#include <algorithm>
#include <utility>
#include <vector>

#include "apps/base/plain_text.h"
#include "apps/serve/tool_syntax.h"

namespace ocellus::app::gemma4_tools {
namespace {

constexpr std::string_view kQuote = "<|\"|>", kCall = "<|tool_call>", kCallEnd = "<tool_call|>";
constexpr int kMostDepth = 64;  // objects and lists in each other

// A text cannot end its own string: marks in it become plain quotes, also those that such a quote completes.
std::string plain(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    shown += c;
    if (shown.ends_with(kQuote)) shown.replace(shown.size() - kQuote.size(), kQuote.size(), "\"");
  }
  return shown;
}

std::string quote(std::string_view text) { return std::string(kQuote) + plain(text) + std::string(kQuote); }

// Returns "" for what is no string, or not there.
std::string text_field(const RequestJson& object, const std::string& name) {
  const RequestJson* field = find_field(object, name);
  return field != nullptr && field->is_string() ? field->get<std::string>() : "";
}

// A list's parts, with commas between those that say something.
class Joined {
 public:
  void add(const std::string& part) {
    if (part.empty()) return;
    text_ += (text_.empty() ? "" : ",") + part;
  }
  std::string in(char open, char close) const { return open + text_ + close; }

 private:
  std::string text_;
};

// Members as Jinja's dictsort has them: by name, whether letters are capital or small.
std::vector<std::pair<std::string, const RequestJson*>> sort_members(const RequestJson& object) {
  std::vector<std::pair<std::string, const RequestJson*>> members;
  for (const auto& [name, value] : object.items()) members.emplace_back(name, &value);
  std::stable_sort(members.begin(), members.end(),
                   [](const auto& a, const auto& b) { return to_lower(a.first) < to_lower(b.first); });
  return members;
}

std::string show_value(const RequestJson& value, bool quotes_names) {
  if (value.is_string()) return quote(value.get<std::string>());
  if (value.is_null()) return "None";
  if (!value.is_structured()) return value.dump();
  Joined parts;
  if (value.is_array()) {
    for (const RequestJson& one : value) parts.add(show_value(one, quotes_names));
    return parts.in('[', ']');
  }
  for (const auto& [name, one] : sort_members(value)) {
    parts.add((quotes_names ? quote(name) : name) + ":" + show_value(*one, quotes_names));
  }
  return parts.in('{', '}');
}

std::string to_upper(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

// The type of a schema, or its several types; a schema without one has an empty type.
std::string show_type(const RequestJson& schema) {
  const RequestJson* type = find_field(schema, "type");
  if (type == nullptr || !type->is_array()) return "type:" + quote(to_upper(text_field(schema, "type")));
  Joined types;
  for (const RequestJson& one : *type) types.add(quote(one.is_string() ? to_upper(one.get<std::string>()) : ""));
  return "type:" + types.in('[', ']');
}

bool has_type(const RequestJson& schema, std::string_view name) {
  const RequestJson* type = find_field(schema, "type");
  if (type == nullptr) return false;
  const auto is_it = [&](const RequestJson& one) {
    return one.is_string() && to_lower(one.get<std::string>()) == name;
  };
  return type->is_array() ? std::any_of(type->begin(), type->end(), is_it) : is_it(*type);
}

std::string show_required(const RequestJson& schema) {
  const RequestJson* required = find_field(schema, "required");
  return required == nullptr || required->empty() ? "" : "required:" + show_value(*required, true);
}

std::string show_properties(const RequestJson& properties);

// The schema of an array's items: its members in order, those that are schemas themselves in the form of properties.
std::string show_items(const RequestJson& items) {
  Joined parts;
  for (const auto& [name, value] : sort_members(items)) {
    if (value->is_null()) continue;
    const bool holds_schemas = name == "properties" && value->is_object();
    parts.add(holds_schemas    ? "properties:" + show_properties(*value)
              : name == "type" ? show_type(items)
                               : name + ":" + show_value(*value, /*quotes_names=*/true));
  }
  return "items:" + parts.in('{', '}');
}

std::string show_property(const RequestJson& schema) {
  Joined parts;
  const std::string description = text_field(schema, "description");
  if (!description.empty()) parts.add("description:" + quote(description));
  const RequestJson* values = find_field(schema, "enum");
  const RequestJson* items = find_field(schema, "items");
  if (has_type(schema, "string")) {
    if (values != nullptr && !values->empty()) parts.add("enum:" + show_value(*values, true));
  } else if (has_type(schema, "array") && items != nullptr && items->is_object() && !items->empty()) {
    parts.add(show_items(*items));
  }
  const RequestJson* nullable = find_field(schema, "nullable");
  if (nullable != nullptr && *nullable == true) parts.add("nullable:true");
  if (has_type(schema, "object")) {
    const RequestJson* properties = find_field(schema, "properties");
    const bool has_properties = properties != nullptr && properties->is_object();
    parts.add("properties:" + (has_properties ? show_properties(*properties) : "{}"));
    parts.add(show_required(schema));
  }
  parts.add(show_type(schema));
  return parts.in('{', '}');
}

std::string show_properties(const RequestJson& properties) {
  Joined parts;
  for (const auto& [name, schema] : sort_members(properties)) {
    parts.add(name + ":" + show_property(schema->is_object() ? *schema : RequestJson::object()));
  }
  return parts.in('{', '}');
}

std::string declare(const RequestJson& function) {
  Joined parts;
  parts.add("description:" + quote(text_field(function, "description")));
  const RequestJson* parameters = find_field(function, "parameters");
  if (parameters != nullptr && !parameters->empty()) {
    Joined schema;
    const RequestJson* properties = find_field(*parameters, "properties");
    if (properties != nullptr && !properties->empty()) schema.add("properties:" + show_properties(*properties));
    schema.add(show_required(*parameters));
    if (find_field(*parameters, "type") != nullptr) schema.add(show_type(*parameters));
    parts.add("parameters:" + schema.in('{', '}'));
  }
  return "declaration:" + text_field(function, "name") + parts.in('{', '}');
}

std::string describe(std::span<const Tool> tools) {
  std::string text;
  for (const Tool& tool : tools) text += "<|tool>" + declare(tool.shown.at("function")) + "<tool|>";
  return text;
}

// Arguments that are no JSON object stand as they are.
std::string show_call(const ToolCall& call) {
  const RequestJson arguments = read_json(call.arguments, kRequestJson);
  const std::string shown =
      arguments.is_object() ? show_value(arguments, /*quotes_names=*/false) : "{" + call.arguments + "}";
  return std::string(kCall) + "call:" + call.name + shown + std::string(kCallEnd);
}

std::string show_result(const std::string& tool, const std::string& result) {
  return "<|tool_response>response:" + tool + "{value:" + quote(result) + "}<tool_response|>";
}

// Reads values as models write them. A bare text that is no number, true, false or null counts as a string.
class ValueReader {
 public:
  explicit ValueReader(std::string_view text) : rest_(text) {}
  std::string_view rest() const { return rest_; }

  std::optional<RequestJson> read_object(int depth = 0) {
    RequestJson object = RequestJson::object();
    if (depth > kMostDepth || !take("{")) return std::nullopt;
    if (take("}")) return object;
    do {
      const std::optional<std::string> name = read_name();
      std::optional<RequestJson> value = name ? read_value(depth) : std::nullopt;
      if (!value) return std::nullopt;
      object[*name] = std::move(*value);
    } while (take(","));
    return take("}") ? std::optional(std::move(object)) : std::nullopt;
  }

  bool take(std::string_view mark) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
    if (!rest_.starts_with(mark)) return false;
    rest_.remove_prefix(mark.size());
    return true;
  }

  std::string take_until(std::string_view ends) {
    const std::string_view taken = rest_.substr(0, rest_.find_first_of(ends));
    rest_.remove_prefix(taken.size());
    return trim(taken);
  }

 private:
  std::optional<std::string> read_string() {
    const size_t end = rest_.find(kQuote);
    if (end == rest_.npos) return std::nullopt;
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + kQuote.size());
    return text;
  }

  std::optional<std::string> read_name() {
    const std::optional<std::string> name = take(kQuote) ? read_string() : take_until(":,{}[]");
    return name && !name->empty() && take(":") ? name : std::nullopt;
  }

  std::optional<RequestJson> read_array(int depth) {
    RequestJson array = RequestJson::array();
    if (depth > kMostDepth || !take("[")) return std::nullopt;
    if (take("]")) return array;
    do {
      std::optional<RequestJson> value = read_value(depth);
      if (!value) return std::nullopt;
      array.push_back(std::move(*value));
    } while (take(","));
    return take("]") ? std::optional(std::move(array)) : std::nullopt;
  }

  std::optional<RequestJson> read_value(int depth) {
    if (take(kQuote)) {
      std::optional<std::string> text = read_string();
      return text ? std::optional<RequestJson>(std::move(*text)) : std::nullopt;
    }
    if (rest_.starts_with("{")) return read_object(depth + 1);
    if (rest_.starts_with("[")) return read_array(depth + 1);
    const std::string bare = take_until(",}]");
    if (bare == "None") return RequestJson();
    RequestJson value = read_json(bare, kRequestJson);
    if (value.is_discarded()) value = bare;
    return bare.empty() ? std::nullopt : std::optional(std::move(value));
  }

  std::string_view rest_;
};

std::optional<ToolCall> take_call(std::string_view* text) {
  ValueReader reader(*text);
  if (!reader.take(kCall) || !reader.take("call:")) return std::nullopt;
  std::string name = reader.take_until("{");
  const std::optional<RequestJson> arguments = reader.read_object();
  // The last call may lack its end, where the answer stops with it.
  if (!arguments || !(reader.take(kCallEnd) || reader.rest().empty())) return std::nullopt;
  (void)reader.take("");  // white space
  *text = reader.rest();
  return ToolCall{std::move(name), arguments->dump(-1, ' ', false, RequestJson::error_handler_t::replace)};
}

}  // namespace
}  // namespace ocellus::app::gemma4_tools

namespace ocellus::app {

constexpr ToolSyntax kGemma4Tools = {.call_begin = gemma4_tools::kCall,
                                     .system_gap = "",
                                     .call_gap = "",
                                     .keeps_turn = true,
                                     .describe = gemma4_tools::describe,
                                     .show_call = gemma4_tools::show_call,
                                     .show_result = gemma4_tools::show_result,
                                     .take_call = gemma4_tools::take_call};

}  // namespace ocellus::app
