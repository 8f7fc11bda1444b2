// Adds a whole conversation to an empty session.
#pragma once

#include <string>

#include "apps/serve/chat_request.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// Leaves the session as if the conversation had taken place in it, with the last turn to be answered. Earlier answers
// are added as the model would have generated them. Consumes the request's turns. Throws a RequestError; *was_cancelled
// is true if ocellus_session_cancel was the reason.
void add_conversation(ocellus_session* session, const ocellus_model* model, ChatRequest* request, bool* was_cancelled);

// Adds an entry of the image library that the session has. Throws as add_conversation does.
void add_kept_picture(ocellus_session* session, const std::string& key, const std::string& param, bool* was_cancelled);
// Adds a text in the middle of an answer.
void add_answer_text(ocellus_session* session, const std::string& text, bool* was_cancelled);

}  // namespace ocellus::app
