// POST /tokenize and /detokenize, with the fields of llama.cpp's server.
#include <nlohmann/json.hpp>

#include "apps/serve/chat_job.h"
#include "apps/serve/endpoint.h"
#include "apps/serve/json_fields.h"
#include "apps/serve/model_tokens.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

// A text that is no UTF-8, as that of half a character, is a list of its bytes.
Json piece_json(const std::string& text) {
  try {
    (void)Json(text).dump();
    return text;
  } catch (const Json::exception&) {
    Json bytes = Json::array();
    for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
    return bytes;
  }
}

}  // namespace

void read_tokenize(const ServeContext& context, const HttpRequest& /*head*/, ChatJob* job) {
  const RequestJson body = parse_request_json(job->body.bytes);
  const RequestJson* content = find_field(body, "content");
  if (content == nullptr) throw RequestError(400, "content is missing.", "content");
  const bool parses_special = find_field(body, "parse_special") == nullptr || bool_field(body, "parse_special");
  const uint32_t flags =
      (parses_special ? OCELLUS_TEXT_PARSE_SPECIAL : 0) | (bool_field(body, "add_special") ? OCELLUS_TEXT_START : 0);
  const bool with_pieces = bool_field(body, "with_pieces");
  Json tokens = Json::array();
  for (const int32_t token : tokenize(context.model, expect_string(*content, "content"), flags, "content")) {
    tokens.push_back(with_pieces ? Json{{"id", token}, {"piece", piece_json(token_text(context.model, token))}}
                                 : Json(token));
  }
  job->answer = {{"tokens", tokens}};
}

void read_detokenize(const ServeContext& context, const HttpRequest& /*head*/, ChatJob* job) {
  const RequestJson body = parse_request_json(job->body.bytes);
  const RequestJson* tokens = find_field(body, "tokens");
  if (tokens == nullptr) throw RequestError(400, "tokens is missing.", "tokens");
  std::string text;
  for (const int32_t token : expect_tokens(context.model, *tokens, "tokens")) text += token_text(context.model, token);
  job->answer = {{"content", text}};
}

}  // namespace ocellus::app
