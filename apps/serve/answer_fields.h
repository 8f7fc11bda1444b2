// Fields of requests for answers: those that are read, and those of other servers that are refused by name.
#pragma once

#include <span>
#include <string_view>

#include "apps/serve/unknown_fields.h"

namespace ocellus::app {

// Static storage. An endpoint has fields of its own besides.
std::span<const std::string_view> answer_fields();
std::span<const RefusedField> unserved_answer_fields();

}  // namespace ocellus::app
