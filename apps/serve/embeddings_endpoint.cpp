// POST /v1/embeddings: texts and pictures as vectors of length 1.
#include <charconv>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "apps/serve/chat_job.h"
#include "apps/serve/chat_messages.h"
#include "apps/serve/chat_prompt.h"
#include "apps/serve/data_url.h"
#include "apps/serve/endpoint.h"
#include "apps/serve/json_fields.h"
#include "apps/serve/model_tokens.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxInputs = 2048;  // OpenAI's
constexpr int32_t kMaxWidth = 1 << 16;

constexpr std::string_view kEmbeddingFields[] = {"model", "input", "encoding_format", "user", "priority"};
constexpr RefusedField kUnservedEmbedding[] = {{"dimensions"},
                                               {"content", "input"},
                                               {"prompt", "input"},
                                               {"messages", "input"},
                                               {"truncate"},
                                               {"truncate_prompt_tokens"},
                                               {"truncation"},
                                               {"normalize", "", "[true]"},
                                               {"embd_normalize", "", "[2]"},
                                               {"pooling"},
                                               {"instruction", "input"},
                                               {"input_type"},
                                               {"task"},
                                               {"add_special_tokens", "", "[true]"}};

struct EmbeddingInput {
  std::vector<int32_t> tokens;    // a text's
  std::string_view picture = {};  // in place of them: bytes, in the body of the request
  std::string param = {};
};

struct EmbeddingRequest {
  HttpBody body;
  std::string model;
  std::vector<EmbeddingInput> inputs;
  bool is_base64 = false;
  std::vector<float> values;  // embeddings so far, one after the other
  size_t width = 0, done = 0;
  int64_t tokens = 0;
  size_t written = 0;  // embeddings that were sent
  bool is_ended = false;
};

int64_t input_bytes(const EmbeddingRequest& request) {
  int64_t bytes = std::ssize(request.body.bytes);
  for (const EmbeddingInput& input : request.inputs) bytes += token_bytes(input.tokens);
  return bytes;
}

EmbeddingInput parse_input(const ServeContext& context, const RequestJson& value, const std::string& param,
                           CutText* cut, FieldNames* unknown) {
  EmbeddingInput input = {.tokens = {}, .picture = {}, .param = param};
  if (value.is_array()) {
    input.tokens = expect_tokens(context.model, value, param);
  } else {
    const ChatPart part =
        value.is_object() ? parse_part(value, param, cut, unknown) : ChatPart{.text = expect_string(value, param)};
    if (!part.frames.empty()) throw RequestError(400, part.param + ": a video has no embedding.", part.param);
    if (!part.key.empty()) throw RequestError(400, part.param + " must be a data URL.", part.param);
    if (part.is_image) check_sees(context, part.param);
    if (part.is_image && context.options.images == 0) {
      throw RequestError(400, "This server takes no pictures: start it with --images 1.", part.param,
                         "unsupported_value");
    }
    input.picture = part.picture;
    if (!part.is_image) input.tokens = tokenize(context.model, part.text, OCELLUS_TEXT_START, param);
  }
  if (input.picture.empty() && input.tokens.empty()) throw RequestError(400, param + " is empty.", param);
  return input;
}

// A text, tokens or a part of a message, or a list of these.
std::vector<EmbeddingInput> parse_inputs(const ServeContext& context, const RequestJson& value, CutText* cut,
                                         FieldNames* unknown) {
  const bool is_list = value.is_array() && !value.empty() && !value[0].is_number();
  if (!is_list) return {parse_input(context, value, "input", cut, unknown)};
  if (value.size() > kMaxInputs) {
    throw RequestError(400, "input must have at most " + std::to_string(kMaxInputs) + " entries.", "input");
  }
  std::vector<EmbeddingInput> inputs;
  for (const RequestJson& one : value) {
    inputs.push_back(parse_input(context, one, "input[" + std::to_string(inputs.size()) + "]", cut, unknown));
  }
  return inputs;
}

bool wants_base64(const RequestJson& body) {
  const RequestJson* format = find_field(body, "encoding_format");
  if (format == nullptr || *format == "float") return false;
  if (*format == "base64") return true;
  throw RequestError(400, "encoding_format must be float or base64.", "encoding_format");
}

Status embed(Session* session, const EmbeddingInput& input, std::vector<float>* values) {
  values->resize(kMaxWidth);
  if (input.picture.empty()) {
    if (const Status status = session->forget_all(); !status) return status;
    if (const Status status = session->add_tokens(input.tokens); !status) return status;
  }
  const Result<int32_t> width =
      input.picture.empty() ? ocellus::embed(*session, *values) : ocellus::embed(*session, input.picture, *values);
  values->resize(static_cast<size_t>(*width));
  return width.status();
}

std::string values_text(std::span<const float> values, bool is_base64) {
  if (is_base64) {
    return '"' + encode_base64({reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()}) + '"';
  }
  std::string text;
  for (const float value : values) {
    char number[32];
    text += text.empty() ? '[' : ',';
    text.append(number, std::to_chars(number, std::end(number), value).ptr);
  }
  return text + ']';
}

// Writes the next embedding, and what stands around all.
std::string write_next(EmbeddingRequest* request) {
  if (request->is_ended) return "";
  const size_t index = request->written++;
  const std::span<const float> values = std::span(request->values).subspan(index * request->width, request->width);
  std::string text = index == 0 ? "{\"object\":\"list\",\"data\":[" : ",";
  text += "{\"object\":\"embedding\",\"index\":" + std::to_string(index) +
          ",\"embedding\":" + values_text(values, request->is_base64) + "}";
  request->is_ended = request->written == request->done;
  if (!request->is_ended) return text;
  const Json usage = {{"prompt_tokens", request->tokens}, {"total_tokens", request->tokens}};
  return text + "],\"model\":" + Json(request->model).dump() + ",\"usage\":" + usage.dump() + "}\n";
}

// Embeds the next input; returns the answer after the last.
std::optional<ReadyAnswer> embed_next(Session* session, const std::shared_ptr<EmbeddingRequest>& request) {
  const EmbeddingInput& input = request->inputs[request->done];
  std::vector<float> values;
  if (const Status status = embed(session, input, &values); !status) throw library_error(status.code(), input.param);
  if (request->done == 0) {
    request->width = values.size();
    const size_t all = request->inputs.size() * values.size();
    const auto bytes = static_cast<int64_t>(all * sizeof(float));
    if (!request->body.recount(input_bytes(*request) + bytes)) throw overloaded_error();
    request->values.reserve(all);
  }
  request->values.insert(request->values.end(), values.begin(), values.end());
  request->tokens += std::ssize(input.tokens);
  if (++request->done < request->inputs.size()) return std::nullopt;
  request->inputs = {};
  request->body.bytes = {};
  (void)request->body.recount(std::ssize(request->values) * static_cast<int64_t>(sizeof(float)));
  return ReadyAnswer([request] { return write_next(request.get()); });
}

}  // namespace

void read_embeddings(const ServeContext& context, const HttpRequest& /*head*/, ChatJob* job) {
  const auto request = std::make_shared<EmbeddingRequest>();
  request->body = std::move(job->body);
  constexpr std::string_view kParts[] = {"input"};
  const PicturePlace places[] = {kParts};
  CutText cut = cut_picture_urls(&request->body.bytes, places);
  const RequestJson body = parse_request_json(std::exchange(cut.json, {}));
  const RequestJson* model = find_field(body, "model");
  if (model != nullptr) request->model = expect_string(*model, "model");
  check_model(context, request->model);
  if (request->model.empty()) request->model = context.options.names.listed[0];
  FieldNames unknown;
  check_fields(
      body, "",
      {.known = kEmbeddingFields, .refused = kUnservedEmbedding, .media = "parts of the type image_url in input"},
      &unknown);
  request->is_base64 = wants_base64(body);
  const RequestJson* input = find_field(body, "input");
  if (input == nullptr) throw RequestError(400, "input is missing.", "input");
  request->inputs = parse_inputs(context, *input, &cut, &unknown);
  context.unknown.take(unknown);
  if (!request->body.recount(input_bytes(*request))) throw overloaded_error();
  job->work = [request](Session* session) { return embed_next(session, request); };
}

}  // namespace ocellus::app
