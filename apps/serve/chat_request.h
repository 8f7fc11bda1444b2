// A request to /v1/chat/completions: its JSON, fully validated.
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
  std::string_view picture = {};  // bytes, in the body of the request
  std::string key = {};           // in place of them: an entry of the user's image library
  std::string param = {};         // its field in the request
  std::string_view content() const { return is_image ? picture : text; }
};

// The user's message and the model's answer; the answer is empty in the last turn.
struct ChatTurn {
  std::vector<ChatPart> parts;
  std::string answer;
};

// An entry of the user's image library that was found by words.
struct RetrievedPicture {
  std::string query, key;
  double score = 0;
  std::string caption;
};

struct ChatRequest {
  std::string model;   // empty: the only one
  std::string system;  // empty: none
  std::vector<ChatTurn> turns;
  ocellus_generate_params params;
  std::vector<ocellus_logit_bias> logit_bias;  // in place of that of `params`
  std::vector<std::string> stops;
  bool stream = false;
  bool include_usage = false;  // only with a stream
  std::string user;            // the request's user, if stated
  std::vector<std::string> unknown_fields;
  std::vector<RetrievedPicture> retrieved;  // instead of marks in the messages
  int64_t image_count() const;
  int64_t text_bytes() const;
};

// Maximum memory for reading one request, besides its body.
inline constexpr int64_t kMaxReadingBytes = int64_t{16} << 20;

// Absent fields have the values of `defaults`. Pictures are decoded in place: *body is changed, must not move, and must
// outlive them. Throws a RequestError.
ChatRequest parse_chat_request(std::string* body, const ocellus_generate_params& defaults);

// Returns a turn's parts in the order in which the model reads them. Pictures before or after all text go first, a
// single one of the conversation as it is, others as "Image 1:<image>\n", as in `ocellus chat`; if text stands between
// pictures, or on both sides of them, the order is the request's. Adjacent texts are joined.
std::vector<ChatPart> arrange_parts(std::vector<ChatPart> parts, int64_t earlier_images);

int64_t count_images(const std::vector<ChatPart>& parts);

}  // namespace ocellus::app
