// POST /tokenize and /detokenize, with the fields of llama.cpp's server or of vLLM's, and GET /tokenizer_info, as
// evaluations without a tokenizer of their own ask for them.
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/serve/chat_job.h"
#include "apps/serve/endpoint.h"
#include "apps/serve/json_fields.h"
#include "apps/serve/model_tokens.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kTokenize[] = {"content", "add_special", "parse_special", "with_pieces", "model", "user"};
constexpr std::string_view kTokenizePrompt[] = {"prompt", "add_special_tokens", "parse_special", "with_pieces", "model",
                                                "user"};  // as in vLLM
constexpr std::string_view kDetokenize[] = {"tokens", "model", "user"};
constexpr RefusedField kUnservedTokens[] = {{"prompt", "content"},
                                            {"content", "prompt"},
                                            {"add_special", "add_special_tokens"},
                                            {"input", "content"},
                                            {"text", "content"},
                                            {"messages", "content"},
                                            {"add_special_tokens", "add_special"},
                                            {"return_token_strs", "with_pieces"},
                                            {"ids", "tokens"},
                                            {"token_ids", "tokens"}};

constexpr size_t kPieceBytes = 8192;

// Tokens that are written while they are sent.
struct TokenList {
  const ocellus_model* model;
  bool with_pieces;
  std::vector<int32_t> tokens;
  std::string end = {};  // follows the tokens
  HttpBody counted;      // as what the tokens take
  size_t next = 0;
  bool is_begun = false, is_ended = false;
};

void check_body(const ServeContext& context, const RequestJson& body, std::span<const std::string_view> known) {
  FieldNames unknown;
  check_fields(body, "", {.known = known, .refused = kUnservedTokens}, &unknown);
  if (const RequestJson* model = find_field(body, "model")) check_model(context, expect_string(*model, "model"));
  context.unknown.take(unknown);
}

// JSON of a text or, where it is no UTF-8, as that of half a character, of the list of its bytes.
std::string piece_json(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    Json bytes = Json::array();
    for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
    return bytes.dump();
  }
}

std::string write_tokens(TokenList* list) {
  if (list->is_ended) return "";
  std::string text = std::exchange(list->is_begun, true) ? "" : "{\"tokens\":[";
  for (; list->next < list->tokens.size() && text.size() < kPieceBytes; ++list->next) {
    const int32_t token = list->tokens[list->next];
    if (list->next > 0) text += ',';
    if (!list->with_pieces) {
      text += std::to_string(token);
    } else {
      const std::string piece = piece_json(token_text(list->model, token));
      text += "{\"id\":" + std::to_string(token) + ",\"piece\":" + piece + "}";
    }
  }
  list->is_ended = list->next == list->tokens.size();
  return list->is_ended ? text + "]" + list->end + "}\n" : text;
}

}  // namespace

void read_tokenize(const ServeContext& context, const HttpRequest& /*head*/, ChatJob* job) {
  RequestJson body = parse_request_json(job->body.bytes);
  const bool is_prompt = find_field(body, "prompt") != nullptr;
  const std::string field = is_prompt ? "prompt" : "content";
  check_body(context, body, is_prompt ? std::span<const std::string_view>(kTokenizePrompt) : kTokenize);
  const RequestJson* content = find_field(body, field);
  if (content == nullptr) throw RequestError(400, "content is missing.", "content");
  std::string text = expect_string(*content, field);
  const bool parses_special = find_field(body, "parse_special") == nullptr || bool_field(body, "parse_special");
  const std::string add_special = is_prompt ? "add_special_tokens" : "add_special";
  const bool starts = find_field(body, add_special) == nullptr ? is_prompt : bool_field(body, add_special);
  const uint32_t flags = (parses_special ? OCELLUS_TEXT_PARSE_SPECIAL : 0) | (starts ? OCELLUS_TEXT_START : 0);
  const bool with_pieces = bool_field(body, "with_pieces");
  body = {};
  job->body.bytes = {};
  const auto list = std::make_shared<TokenList>(TokenList{.model = context.model,
                                                          .with_pieces = with_pieces,
                                                          .tokens = tokenize(context.model, text, flags, field),
                                                          .counted = std::move(job->body)});
  if (is_prompt) {
    list->end = ",\"count\":" + std::to_string(list->tokens.size()) +
                ",\"max_model_len\":" + std::to_string(context.options.text_tokens);
  }
  if (!list->counted.recount(token_bytes(list->tokens))) throw overloaded_error();
  job->answer = ReadyAnswer([list] { return write_tokens(list.get()); });
}

void read_detokenize(const ServeContext& context, const HttpRequest& /*head*/, ChatJob* job) {
  const RequestJson body = parse_request_json(job->body.bytes);
  check_body(context, body, kDetokenize);
  const RequestJson* tokens = find_field(body, "tokens");
  if (tokens == nullptr) throw RequestError(400, "tokens is missing.", "tokens");
  std::string text;
  for (const int32_t token : expect_tokens(context.model, *tokens, "tokens")) text += token_text(context.model, token);
  job->answer = ReadyAnswer(Json{{"content", text}, {"prompt", text}});
}

void read_tokenizer_info(const ServeContext& context, const HttpRequest& /*head*/, ChatJob* job) {
  const std::vector<int32_t> start = tokenize(context.model, "", OCELLUS_TEXT_START, "");
  const Json bos = start.empty() ? Json() : Json(token_text(context.model, start.front()));
  job->answer = ReadyAnswer(Json{{"bos_token", bos}, {"eos_token", nullptr}});  // answers end by themselves
}

}  // namespace ocellus::app
