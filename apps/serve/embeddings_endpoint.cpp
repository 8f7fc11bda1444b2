// POST /v1/embeddings: texts and pictures as vectors of length 1.
#include <memory>
#include <nlohmann/json.hpp>

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
  Json data = Json::array();  // embeddings so far
  int64_t tokens = 0;
};

EmbeddingInput parse_input(const ServeContext& context, const RequestJson& value, const std::string& param,
                           CutText* cut) {
  EmbeddingInput input = {.tokens = {}, .picture = {}, .param = param};
  if (value.is_array()) {
    input.tokens = expect_tokens(context.model, value, param);
  } else {
    const ChatPart part =
        value.is_object() ? parse_part(value, param, cut) : ChatPart{.text = expect_string(value, param)};
    if (!part.frames.empty()) throw RequestError(400, part.param + ": a video has no embedding.", part.param);
    if (!part.key.empty()) throw RequestError(400, part.param + " must be a data URL.", part.param);
    if (part.is_image && context.options.images == 0) {
      throw RequestError(400, "This server takes no pictures.", part.param, "unsupported_value");
    }
    input.picture = part.picture;
    if (!part.is_image) input.tokens = tokenize(context.model, part.text, OCELLUS_TEXT_START, param);
  }
  if (input.picture.empty() && input.tokens.empty()) throw RequestError(400, param + " is empty.", param);
  return input;
}

// A text, tokens or a part of a message, or a list of these.
std::vector<EmbeddingInput> parse_inputs(const ServeContext& context, const RequestJson& value, CutText* cut) {
  const bool is_list = value.is_array() && !value.empty() && !value[0].is_number();
  if (!is_list) return {parse_input(context, value, "input", cut)};
  if (value.size() > kMaxInputs) {
    throw RequestError(400, "input must have at most " + std::to_string(kMaxInputs) + " entries.", "input");
  }
  std::vector<EmbeddingInput> inputs;
  for (const RequestJson& one : value) {
    inputs.push_back(parse_input(context, one, "input[" + std::to_string(inputs.size()) + "]", cut));
  }
  return inputs;
}

bool wants_base64(const RequestJson& body) {
  const RequestJson* format = find_field(body, "encoding_format");
  if (format == nullptr || *format == "float") return false;
  if (*format == "base64") return true;
  throw RequestError(400, "encoding_format must be float or base64.", "encoding_format");
}

ocellus_status embed(ocellus_session* session, const EmbeddingInput& input, std::vector<float>* values) {
  int32_t width = 0;
  values->resize(kMaxWidth);
  if (!input.picture.empty()) {
    const ocellus_status status = ocellus_session_embed_image(session, input.picture.data(), std::ssize(input.picture),
                                                              values->data(), kMaxWidth, &width);
    values->resize(static_cast<size_t>(width));
    return status;
  }
  ocellus_status status = ocellus_session_reset(session);
  if (status == OCELLUS_OK) {
    status = ocellus_session_add_tokens(session, input.tokens.data(), static_cast<int32_t>(input.tokens.size()));
  }
  if (status == OCELLUS_OK) status = ocellus_session_embed(session, values->data(), kMaxWidth, &width);
  values->resize(static_cast<size_t>(width));
  return status;
}

// Embeds the next input; returns the answer after the last.
std::optional<Json> embed_next(ocellus_session* session, EmbeddingRequest* request) {
  const size_t index = request->data.size();
  const EmbeddingInput& input = request->inputs[index];
  std::vector<float> values;
  if (const ocellus_status status = embed(session, input, &values); status != OCELLUS_OK) {
    throw library_error(status, input.param);
  }
  Json object = {{"object", "embedding"}, {"index", index}};
  if (request->is_base64) {
    object["embedding"] =
        encode_base64({reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)});
  } else {
    object["embedding"] = values;
  }
  request->data.push_back(std::move(object));
  request->tokens += std::ssize(input.tokens);
  if (request->data.size() < request->inputs.size()) return std::nullopt;
  const Json usage = {{"prompt_tokens", request->tokens}, {"total_tokens", request->tokens}};
  return Json{{"object", "list"}, {"data", std::move(request->data)}, {"model", request->model}, {"usage", usage}};
}

}  // namespace

void read_embeddings(const ServeContext& context, const HttpRequest& /*head*/, ChatJob* job) {
  const auto request = std::make_shared<EmbeddingRequest>();
  request->body = std::move(job->body);
  CutText cut = cut_picture_urls(&request->body.bytes);
  const RequestJson body = parse_request_json(std::exchange(cut.json, {}));
  const RequestJson* model = find_field(body, "model");
  if (model != nullptr) request->model = expect_string(*model, "model");
  check_model(context, request->model);
  if (request->model.empty()) request->model = context.options.names[0];
  if (find_field(body, "dimensions") != nullptr) {
    throw RequestError(400, "dimensions is not supported: embeddings have the model's width.", "dimensions",
                       "unsupported_parameter");
  }
  request->is_base64 = wants_base64(body);
  const RequestJson* input = find_field(body, "input");
  if (input == nullptr) throw RequestError(400, "input is missing.", "input");
  request->inputs = parse_inputs(context, *input, &cut);
  job->work = [request](ocellus_session* session) { return embed_next(session, request.get()); };
}

}  // namespace ocellus::app
