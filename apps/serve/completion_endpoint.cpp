// POST /v1/completions: texts or tokens that are continued, without a chat template.
#include "apps/serve/chat_job.h"
#include "apps/serve/endpoint.h"
#include "apps/serve/json_fields.h"
#include "apps/serve/model_tokens.h"

namespace ocellus::app {
namespace {

constexpr size_t kMaxPrompts = 64;

RawPrompt parse_prompt(const ocellus_model* model, const RequestJson& value, uint32_t flags, const std::string& param) {
  RawPrompt prompt;
  if (value.is_array()) {
    prompt.tokens = expect_tokens(model, value, param);
    for (const int32_t token : prompt.tokens) prompt.text += token_text(model, token);
  } else {
    prompt.text = expect_string(value, param);
    prompt.tokens = tokenize(model, prompt.text, flags, param);
  }
  if (prompt.tokens.empty()) throw RequestError(400, param + " is empty.", param);
  prompt.first = token_text(model, prompt.tokens.front());
  return prompt;
}

// A text, tokens, or a list of either.
std::vector<RawPrompt> parse_prompts(const ocellus_model* model, const RequestJson& value, uint32_t flags) {
  const bool is_list = value.is_array() && !value.empty() && !value[0].is_number();
  if (!is_list) return {parse_prompt(model, value, flags, "prompt")};
  if (value.size() > kMaxPrompts) {
    throw RequestError(400, "prompt must have at most " + std::to_string(kMaxPrompts) + " entries.", "prompt");
  }
  std::vector<RawPrompt> prompts;
  for (const RequestJson& one : value) {
    prompts.push_back(parse_prompt(model, one, flags, "prompt[" + std::to_string(prompts.size()) + "]"));
  }
  return prompts;
}

// Tokens of a scored prompt are said one by one, so there is room for all before the first.
void check_scored(const ServeContext& context, const ChatRequest& request) {
  if (!request.scores_prompt()) return;
  int64_t most = 0;
  for (const RawPrompt& prompt : request.prompts) {
    const int64_t tokens = std::ssize(prompt.tokens);
    most += tokens;
    if (tokens <= context.options.text_tokens) continue;
    throw RequestError(400,
                       "A prompt has " + std::to_string(tokens) + " tokens, and memory is planned for " +
                           std::to_string(context.options.text_tokens) + ": start the server with --text-tokens " +
                           std::to_string(tokens) + ".",
                       "prompt", "context_length_exceeded");
  }
  if (most * request.choices * (1 + *request.top_logprobs) > kMaxLogprobs) {
    throw RequestError(400,
                       "The prompts have " + std::to_string(most) + " tokens; the answer can have " +
                           std::to_string(kMaxLogprobs) + " log-probabilities: send fewer prompts at once.",
                       "prompt", "unsupported_value");
  }
}

void check_best_of(const RequestJson& body, const ChatRequest& request) {
  const RequestJson* best = find_field(body, "best_of");
  if (best != nullptr && *best != request.choices) {
    throw RequestError(400, "best_of must be n: all answers are returned.", "best_of", "unsupported_value");
  }
}

}  // namespace

void read_completion(const ServeContext& context, const HttpRequest& /*head*/, ChatJob* job) {
  const RequestJson body = parse_request_json(job->body.bytes);
  job->body.bytes = {};
  ChatRequest& request = job->request;
  request.params = context.options.params;
  request.params.max_thought_tokens = 0;
  constexpr std::string_view kOwn[] = {"prompt", "echo", "best_of", "add_special_tokens"};
  parse_answer_fields(body, {.own = kOwn, .least_tokens = 0}, &request);
  check_model(context, request.model);
  bound_answer(context, &request);
  check_choices(context, request);
  check_biases(context, request);
  check_best_of(body, request);
  context.unknown.take(request.unknown_fields);
  const RequestJson* prompt = find_field(body, "prompt");
  if (prompt == nullptr) throw RequestError(400, "prompt is missing.", "prompt");
  const bool starts = find_field(body, "add_special_tokens") == nullptr || bool_field(body, "add_special_tokens");
  const uint32_t flags = OCELLUS_TEXT_PARSE_SPECIAL | (starts ? OCELLUS_TEXT_START : 0);
  request.prompts = parse_prompts(context.model, *prompt, flags);
  request.echo = bool_field(body, "echo");
  if (const auto top = integer_field(body, "logprobs", 0, OCELLUS_MOST_TOP_LOGPROBS)) {
    request.top_logprobs = static_cast<int32_t>(*top);
  }
  check_logprobs(request);
  check_scored(context, request);
  // Evaluations leave the last log-probability out: there is one also where the model would end.
  if (request.scores_prompt() && request.params.max_tokens == 1) request.params.ignore_end = 1;
  if (!job->body.recount(request.text_bytes())) throw overloaded_error();
  job->begin_answers(context, ReplyForm::kCompletion);
}

}  // namespace ocellus::app
