// The form that a request demands of its answer: OpenAI's response_format, and the fields of vLLM and llama.cpp's
// server for grammars and regular expressions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/serve/json_fields.h"
#include "apps/serve/unknown_fields.h"

namespace ocellus::app {

struct AnswerForm {
  int32_t kind = 0;   // ocellus_constraint_kind
  std::string text;   // the schema, grammar or expression
  std::string param;  // the request's field that has it
  // Fields of the tools whose arguments' schemas are those of the choices of this one; empty: it is of none.
  std::vector<std::string> tools = {};
};

// Reads response_format (text, in /v1/responses), structured_outputs and grammar; nullopt: any text will do. Throws a
// RequestError, also where two of them demand something. `unknown` takes the places of fields that they should not
// have. `is_flat`: as in /v1/responses.
std::optional<AnswerForm> parse_answer_form(const RequestJson& body, FieldNames* unknown, bool is_flat = false);

}  // namespace ocellus::app
