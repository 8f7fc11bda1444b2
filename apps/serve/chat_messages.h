// The messages of a chat request: texts, pictures, answers, calls of tools and what these gave back.
#pragma once

#include <string>
#include <vector>

#include "apps/serve/chat_request.h"
#include "apps/serve/json_fields.h"

namespace ocellus::app {

struct CutText;  // apps/serve/data_url.h

// Reads a part of the type image_url, video_url or text, or of the types that /v1/responses has for them. `cut`: the
// pictures; nullptr where none are allowed. Throws a RequestError, as the next ones. `unknown` takes the places of
// fields that nothing reads.
ChatPart parse_part(const RequestJson& part, const std::string& param, CutText* cut, FieldNames* unknown);

// Reads a text or an array of parts.
std::vector<ChatPart> parse_content(const RequestJson& message, const std::string& param, CutText* cut,
                                    FieldNames* unknown, const std::string& field = "content");

// Reads the field messages into the turns, and whether the answer goes on from the last one.
void parse_messages(const RequestJson& body, const PromptForm& form, CutText* cut, ChatRequest* request);

}  // namespace ocellus::app
