// Gives a session what it is to answer.
#pragma once

#include <span>
#include <string>

#include "apps/serve/prompt_steps.h"
#include "runtime/ocellus.hpp"

namespace ocellus::app {

// All throw a RequestError; *was_cancelled is then true if ocellus_session_cancel was the reason.
// Earlier answers are added as the model would have generated them.
void add_steps(Session* session, const ocellus_model* model, std::span<const PromptStep> steps, bool* was_cancelled);
// Adds an entry of the image library that the session has.
void add_kept_picture(Session* session, std::string_view key, std::string_view param, bool* was_cancelled);
// Adds a text in the middle of an answer.
void add_answer_text(Session* session, const std::string& text, bool* was_cancelled);

}  // namespace ocellus::app
