// A whole conversation into a session that holds nothing yet.
#pragma once

#include "apps/serve/chat_request.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// Leaves the session as a conversation that took place there would have, with the last turn to be answered. Earlier
// answers are read as the model would have said them. Takes the request's turns. Throws a RequestError, and
// *was_cancelled is true if it was because of ocellus_session_cancel.
void add_conversation(ocellus_session* session, const ocellus_model* model, ChatRequest* request, bool* was_cancelled);

}  // namespace ocellus::app
