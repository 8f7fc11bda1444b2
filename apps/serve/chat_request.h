// A request to /v1/chat/completions: its JSON, checked to the last field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ocellus.h"

namespace ocellus::app {

// Text or a picture.
struct ChatPart {
  bool is_image = false;
  std::string text = {};
  std::string_view picture = {};  // its bytes, in the body of the request
  std::string param = {};         // where the request has it
  std::string_view content() const { return is_image ? picture : text; }
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
  std::string user;            // who asks, if the request says so
  std::vector<std::string> unknown_fields;
  int64_t image_count() const;
  int64_t text_bytes() const;
};

// What reading one request takes at most, besides its body.
inline constexpr int64_t kMostReadingBytes = int64_t{16} << 20;

// Fields that the request leaves out are as in `defaults`. Pictures are decoded where they stand: *body is changed,
// must stay where it is, and must live as long as they do. Throws a RequestError.
ChatRequest parse_chat_request(std::string* body, const ocellus_generate_params& defaults);

// A turn's parts in the order in which the model reads them. Pictures that stand before or behind all text go first, a
// single one of the conversation as it is, others as "Image 1:<image>\n", as `ocellus chat` does it; where text stands
// between pictures, or on both sides of them, the order is the request's. Texts that touch become one.
std::vector<ChatPart> arrange_parts(std::vector<ChatPart> parts, int64_t earlier_images);

int64_t count_images(const std::vector<ChatPart>& parts);

}  // namespace ocellus::app
