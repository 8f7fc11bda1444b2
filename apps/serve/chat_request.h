// A request to /v1/chat/completions: its JSON, checked to the last field.
#ifndef OCELLUS_APPS_SERVE_CHAT_REQUEST_H_
#define OCELLUS_APPS_SERVE_CHAT_REQUEST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ocellus.h"

namespace ocellus::app {

// Text, or the bytes of a picture.
struct ChatPart {
  bool is_image = false;
  std::string bytes = {};
  std::string param = {};  // where the request has it
};

// What the user says, and what the model said to it; nothing in the last turn.
struct ChatTurn {
  std::vector<ChatPart> parts;
  std::string answer;
};

struct ChatRequest {
  std::string model;   // empty: the one there is
  std::string system;  // empty: none
  std::vector<ChatTurn> turns;
  ocellus_generate_params params;
  std::vector<std::string> stops;
  bool stream = false;
  bool include_usage = false;  // with a stream
  int64_t picture_bytes() const;
};

// Fields that the request leaves out are as in `defaults`. Throws a RequestError.
ChatRequest parse_chat_request(std::string_view body, const ocellus_generate_params& defaults);

// A turn's parts in the order in which the model reads them. Pictures that stand before or behind all text go first, a
// single one of the conversation as it is, others as "Image 1:<image>\n", as `ocellus chat` does it; where text stands
// between pictures, or on both sides of them, the order is the request's. Texts that touch become one.
std::vector<ChatPart> arrange_parts(std::vector<ChatPart> parts, int64_t earlier_images);

int64_t count_images(const std::vector<ChatPart>& parts);

}  // namespace ocellus::app

#endif  // OCELLUS_APPS_SERVE_CHAT_REQUEST_H_
