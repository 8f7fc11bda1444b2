// Requests to /v1/responses.
#pragma once

#include <string>

#include "apps/serve/chat_request.h"

namespace ocellus::app {

// As parse_chat_request. What the request says of its answer is repeated in ChatRequest::echoed.
ChatRequest parse_responses_request(std::string* body, const ocellus_generate_params& defaults, const PromptForm& form);

}  // namespace ocellus::app
