#include "apps/serve/answer_form.h"

#include "apps/serve/request_error.h"
#include "runtime/ocellus.h"

namespace ocellus::app {
namespace {

AnswerForm schema_form(const RequestJson& schema, const std::string& param) {
  return {OCELLUS_CONSTRAINT_SCHEMA, schema.dump(), param};
}

// Besides `type`, the types have fields of their own.
constexpr std::string_view kTextFields[] = {"type"}, kObjectFields[] = {"type", "schema"},
                           kSchemaFields[] = {"type", "json_schema"};
constexpr RefusedField kOtherTypes[] = {{"schema", "@json_schema.schema, with the type json_schema"},
                                        {"json_schema", "it with the type json_schema"},
                                        {"grammar", "grammar"},
                                        {"regex", "structured_outputs.regex"},
                                        {"pattern", "structured_outputs.regex"},
                                        {"choices", "structured_outputs.choice"}};
constexpr std::string_view kWrapperFields[] = {"schema", "name", "description", "strict"};
constexpr RefusedField kNotInWrapper[] = {{"type", "@schema.type"},
                                          {"properties", "@schema.properties"},
                                          {"required", "@schema.required"},
                                          {"json_schema", "@schema"}};

AnswerForm parse_wrapped_schema(const RequestJson& format, const std::string& at, FieldNames* unknown) {
  const RequestJson* described = find_field(format, "json_schema");
  if (described == nullptr) throw RequestError(400, at + " is missing.", at);
  expect_object(*described, at);
  check_fields(*described, at, {.known = kWrapperFields, .refused = kNotInWrapper}, unknown);
  const RequestJson* schema = find_field(*described, "schema");
  const std::string param = at + ".schema";
  if (schema == nullptr) throw RequestError(400, param + " is missing.", param);
  return schema_form(*schema, param);
}

constexpr std::string_view kFlatSchemaFields[] = {"type", "schema", "name", "description", "strict"};

// A schema in the format itself, as in /v1/responses.
AnswerForm parse_flat_schema(const RequestJson& format, const std::string& at, FieldNames* unknown) {
  check_fields(format, at, {.known = kFlatSchemaFields, .refused = kOtherTypes}, unknown);
  const RequestJson* schema = find_field(format, "schema");
  if (schema == nullptr) throw RequestError(400, at + ".schema is missing.", at + ".schema");
  return schema_form(*schema, at + ".schema");
}

std::optional<AnswerForm> parse_response_format(const RequestJson& format, const std::string& at, bool is_flat,
                                                FieldNames* unknown) {
  expect_object(format, at);
  if (format.empty()) return std::nullopt;
  const RequestJson* type = find_field(format, "type");
  const std::string name = type == nullptr ? "" : expect_string(*type, at + ".type");
  const auto check = [&](std::span<const std::string_view> known) {
    check_fields(format, at, {.known = known, .refused = kOtherTypes}, unknown);
  };
  if (name == "text") {
    check(kTextFields);
    return std::nullopt;
  }
  if (name == "json_object") {  // with a schema, as in llama.cpp's server
    check(kObjectFields);
    const RequestJson* schema = find_field(format, "schema");
    if (schema != nullptr) return schema_form(*schema, at + ".schema");
    return AnswerForm{OCELLUS_CONSTRAINT_SCHEMA, R"({"type": "object"})", at};
  }
  if (name != "json_schema") {
    throw RequestError(400, at + ".type must be text, json_object or json_schema.", at + ".type");
  }
  if (is_flat) return parse_flat_schema(format, at, unknown);
  check(kSchemaFields);
  return parse_wrapped_schema(format, at + ".json_schema", unknown);
}

// The field of /v1/responses.
std::optional<AnswerForm> parse_text_options(const RequestJson& text, FieldNames* unknown) {
  constexpr std::string_view kKnown[] = {"format"};
  constexpr RefusedField kRefused[] = {{"verbosity", "", R"(["medium"])"}, {"type", "@format.type"}};
  expect_object(text, "text");
  check_fields(text, "text", {.known = kKnown, .refused = kRefused}, unknown);
  const RequestJson* format = find_field(text, "format");
  if (format == nullptr) return std::nullopt;
  return parse_response_format(*format, "text.format", /*is_flat=*/true, unknown);
}

// One of the given texts, as it is.
AnswerForm choice_form(const RequestJson& choices, const std::string& param) {
  if (!choices.is_array() || choices.empty()) {
    throw RequestError(400, param + " must be an array of one text or more.", param);
  }
  std::string grammar;
  for (const RequestJson& choice : choices) {
    grammar += (grammar.empty() ? "root ::= " : " | ") + RequestJson(expect_string(choice, param)).dump();
  }
  return {OCELLUS_CONSTRAINT_GRAMMAR, grammar, param};
}

std::optional<AnswerForm> parse_structured_outputs(const RequestJson& outputs) {
  const std::string at = "structured_outputs";
  expect_object(outputs, at);
  std::optional<AnswerForm> form;
  for (const auto& [name, value] : outputs.items()) {
    if (value.is_null()) continue;
    const std::string param = at + "." + name;
    if (form) throw RequestError(400, at + " must have one of json, regex, choice and grammar.", at);
    if (name == "json") {
      form = value.is_string() ? AnswerForm{OCELLUS_CONSTRAINT_SCHEMA, value.get<std::string>(), param}
                               : schema_form(value, param);
    } else if (name == "choice") {
      form = choice_form(value, param);
    } else if (name == "regex" || name == "grammar") {
      form = {name == "regex" ? OCELLUS_CONSTRAINT_REGEX : OCELLUS_CONSTRAINT_GRAMMAR, expect_string(value, param),
              param};
    } else {
      throw unsupported_field(param, "");
    }
  }
  if (!form) throw RequestError(400, at + " must have one of json, regex, choice and grammar.", at);
  return form;
}

}  // namespace

std::optional<AnswerForm> parse_answer_form(const RequestJson& body, FieldNames* unknown, bool is_flat) {
  std::optional<AnswerForm> form;
  const auto demand = [&](const char* name, auto parse) {
    const RequestJson* field = find_field(body, name);
    if (field == nullptr) return;
    std::optional<AnswerForm> found = parse(*field);
    if (!found) return;
    if (form) {
      throw RequestError(400, std::string(name) + " and " + form->param + " both say what the answer is: give one.",
                         name);
    }
    form = std::move(found);
  };
  demand("response_format", [unknown](const RequestJson& format) {
    return parse_response_format(format, "response_format", /*is_flat=*/false, unknown);
  });
  if (is_flat) demand("text", [unknown](const RequestJson& text) { return parse_text_options(text, unknown); });
  demand("structured_outputs", parse_structured_outputs);
  demand("grammar", [](const RequestJson& text) -> std::optional<AnswerForm> {
    const std::string grammar = expect_string(text, "grammar");
    if (grammar.empty()) return std::nullopt;  // as llama.cpp's clients have it
    return AnswerForm{OCELLUS_CONSTRAINT_GRAMMAR, grammar, "grammar"};
  });
  return form;
}

}  // namespace ocellus::app
