// POST /v1/chat/completions
#include <algorithm>
#include <utility>

#include "apps/base/plain_text.h"
#include "apps/serve/chat_job.h"
#include "apps/serve/endpoint.h"

namespace ocellus::app {
namespace {

// Tools that a model may call or not, and whose template has none, are never called. Open WebUI sends some with every
// message.
void leave_out_tools(const ServeContext& context, ChatRequest* request) {
  if (context.options.strict) {
    throw RequestError(400, "This model's chat template has no tools: set tool_choice to required, a function or none.",
                       "tools", "unsupported_parameter");
  }
  context.unknown.note_once(
      "requests have tools, which this model's chat template has not: they are called only where tool_choice demands "
      "it");
  request->tools.choice = ToolChoice::kNone;
}

// Checks limits that no single field shows.
void check_request(const ServeContext& context, ChatRequest* given) {
  const ChatRequest& request = *given;
  check_model(context, request.model);
  bound_answer(context, given);
  if (request.params.max_thought_tokens > 0 && context.options.thinking == OCELLUS_THINKS_NEVER) {
    throw RequestError(400, "This model does not think: leave out thinking_token_budget.", "thinking_token_budget",
                       "unsupported_parameter");
  }
  if (request.tools.choice == ToolChoice::kAuto && context.options.calls_tools == OCELLUS_TOOLS_NONE)
    leave_out_tools(context, given);
  check_choices(context, request);
  check_biases(context, request);
  check_logprobs(request);
  context.unknown.take(request.unknown_fields);
  check_images(context, request);
}

}  // namespace

RequestError no_such_model(const std::string& name, const ServedNames& names) {
  return RequestError(404,
                      "There is no model " + shorten(name) + "; this server has " + names.listed.front() +
                          " (ocellus serve --any-model takes every name).",
                      "model", "model_not_found");
}

void check_model(const ServeContext& context, const std::string& name) {
  if (!name.empty() && !context.options.names.has(name)) throw no_such_model(name, context.options.names);
}

void bound_answer(const ServeContext& context, ChatRequest* request) {
  ocellus_generate_params& params = request->params;
  params.max_tokens = std::min(params.max_tokens, context.options.text_tokens);
  const int32_t thinking = context.options.thinking;
  const bool is_told = request->is_told_to_think && params.max_thought_tokens < 0 && thinking == OCELLUS_THINKS_IF_TOLD;
  if (params.max_thought_tokens != kMaxTokens && !is_told) return;
  params.max_thought_tokens = thinking == OCELLUS_THINKS_NEVER ? 0 : context.options.text_tokens;
}

void check_choices(const ServeContext& context, const ChatRequest& request) {
  if (request.choices <= context.options.choices) return;
  throw RequestError(400,
                     "n must be at most " + std::to_string(context.options.choices) +
                         ": start the server with --choices " + std::to_string(request.choices) + ".",
                     "n", "unsupported_value");
}

void check_biases(const ServeContext& context, const ChatRequest& request) {
  for (const ocellus_logit_bias& bias : request.logit_bias) {
    if (bias.token >= 0 && bias.token < context.options.vocabulary) continue;
    throw RequestError(400,
                       "logit_bias has token " + std::to_string(bias.token) + "; this model's tokens are 0 to " +
                           std::to_string(context.options.vocabulary - 1) + ".",
                       "logit_bias");
  }
}

void check_logprobs(const ChatRequest& request) {
  if (request.stream || !request.top_logprobs) return;
  const int64_t most = int64_t{request.answer_count()} * request.params.max_tokens * (1 + *request.top_logprobs);
  if (most <= kMaxLogprobs) return;
  throw RequestError(400,
                     "The answer could have " + std::to_string(most) + " log-probabilities, and at most " +
                         std::to_string(kMaxLogprobs) +
                         " are kept until its end: set a smaller max_tokens, n or top_logprobs, or stream.",
                     "logprobs", "unsupported_value");
}

void check_sees(const ServeContext& context, const std::string& param) {
  if (context.options.sees) return;
  throw RequestError(400, "This model reads no pictures: it has no vision part (--mmproj).", param,
                     "unsupported_value");
}

void check_images(const ServeContext& context, const ChatRequest& request) {
  const int32_t most = context.options.images;
  int64_t images = 0;
  for (const ChatTurn& turn : request.turns) {
    for (const ChatPart& part : turn.parts) {
      if (!part.is_image) continue;
      check_sees(context, part.param);
      if (!part.is_picture() || ++images <= most) continue;
      const std::string needed = std::to_string(request.image_count());
      throw RequestError(400,
                         "The request has " + needed + " pictures, and memory is planned for " + std::to_string(most) +
                             ": start the server with --images " + needed + ".",
                         part.param, "context_length_exceeded");
    }
  }
}

namespace {

void check_videos(const ServeContext& context, const ChatRequest& request) {
  const int64_t frames = request.frame_count();
  if (frames <= context.options.clip_frames) return;
  throw RequestError(400,
                     "The request has videos of " + std::to_string(frames) + " frames, and memory is planned for " +
                         std::to_string(context.options.clip_frames) + ": start the server with --clip-frames " +
                         std::to_string(frames) + ".",
                     "messages", "context_length_exceeded");
}

}  // namespace

PromptForm prompt_form(const ServeOptions& options) {
  PromptForm form(tool_syntax(options.calls_tools));
  form.is_plain = options.image_numbers == OCELLUS_NUMBERS_PLAIN;
  form.cuts_thoughts = options.thinking != OCELLUS_THINKS_NEVER || options.calls_tools == OCELLUS_TOOLS_GEMMA4;
  form.has_tools = options.calls_tools != OCELLUS_TOOLS_NONE;
  form.default_system = options.default_system;
  return form;
}

void read_chat(const ServeContext& context, const HttpRequest& /*head*/, ChatJob* job) {
  job->request = parse_chat_request(&job->body.bytes, context.options.params, prompt_form(context.options));
  begin_chat(context, ReplyForm::kChat, job);
}

void begin_chat(const ServeContext& context, ReplyForm form, ChatJob* job) {
  ChatRequest& request = job->request;
  request.numbers_several = context.options.image_numbers == OCELLUS_NUMBERS_SEVERAL;
  check_request(context, &request);
  context.files.fill_in(&request, job->user, context.options.images);
  check_videos(context, request);
  if (request.image_count() + request.frame_count() == 0) job->body.bytes = {};
  if (!job->body.recount(std::ssize(job->body.bytes) + request.text_bytes())) throw overloaded_error();
  check_images(context, request);
  if (context.options.image_numbers == OCELLUS_NUMBERS_PLAIN) arrange_turns(&request);
  job->reply.note_retrieved(request.retrieved);
  job->begin_answers(context, form);
}

}  // namespace ocellus::app
