#include "apps/serve/chat_job.h"

#include <string_view>

#include "apps/base/clock.h"

namespace ocellus::app {

ChatJob::ChatJob(std::shared_ptr<HttpExchange> given, const Endpoint& at, int64_t deadline, const std::string& owner)
    : exchange(std::move(given)),
      reply(exchange, choose_request_id(exchange->request())),
      arrived_ns(monotonic_ns()),
      deadline_ns(arrived_ns + deadline),
      endpoint(at),
      has_key(!exchange->request().user.empty()),
      user(has_key ? exchange->request().user : owner),
      door(has_key ? "key of " + user : exchange->request().address),
      client(has_key ? "key of " + user : exchange->request().client) {}

void ChatJob::begin_answers(const ServeContext& context, ReplyForm form) {
  if (!request.user.empty() && !has_key) client = "user " + request.user;
  reply.set_style({.form = form,
                   .model = request.model.empty() ? context.options.names.listed[0] : request.model,
                   .fingerprint = context.options.fingerprint,
                   .stream = request.stream,
                   .include_usage = request.include_usage,
                   .has_logprobs = request.top_logprobs.has_value(),
                   .echoed = std::move(request.echoed)});
}

// White space at the ends of a completion belongs to the text that goes on, that of a form to the form; that before the
// rest of a message to the message.
void ChatJob::begin_answer(const ServeOptions& options) {
  asked = AskedRetrieval(options.form, request.prompts.empty() ? options.retrievals : 0);
  calls = CallReader(&request.tools);
  const bool is_free = !request.form || !request.tools.tools.empty();  // calls are taken out of it
  using Trims = AnswerFilter::Trims;
  const bool trims = request.prompts.empty() && is_free;
  filter = AnswerFilter(request.stops,
                        !trims              ? Trims::kNothing
                        : request.continues ? Trims::kEnd
                                            : Trims::kEnds,
                        request.shows_stop);
  thought = AnswerFilter({});
  answer_tokens = written_tokens = 0;
  last_token_ns = 0;
  if (!request.echo) return;
  const RawPrompt& prompt = request.prompts[prompt_index()];
  (void)reply.add(prompt.text);
  if (!request.scores_prompt()) return reply.skip_text(count_characters(prompt.text));
  scored_tokens = 1;
  // A token that begins all texts is none of this one's.
  if (!prompt.text.starts_with(prompt.first)) reply.skip_text(-count_characters(prompt.first));
  reply.add_token({.text = prompt.first, .logprob = std::nullopt, .top = {}});
}

bool ChatJob::end_answer(const char* reason) {
  const std::string rest = calls.push(asked.finish());
  (void)reply.add(filter.push(rest + calls.finish()) + filter.finish());
  reply.add_calls(calls.calls());
  reply.end_choice(reason);
  is_answering = false;
  return ++answer_index < request.answer_count();
}

void ChatJob::note_token() {
  const int64_t now = monotonic_ns();
  if (last_token_ns != 0) metrics->observe_next_token(static_cast<double>(now - last_token_ns) / 1e9);
  last_token_ns = now;
}

int ChatJob::receive(void* user, const char* text, int32_t text_bytes) noexcept {
  ChatJob& job = *static_cast<ChatJob*>(user);
  try {
    job.note_token();
    const std::string said = job.asked.push({text, static_cast<size_t>(text_bytes)});
    const std::string shown = job.filter.push(job.calls.push(said));
    job.has_left = !job.reply.add(shown);
    return job.has_left || job.filter.is_stopped() || job.asked.has_query() ? 1 : 0;
  } catch (...) {
    job.has_left = true;  // out of memory: this answer ends
    return 1;
  }
}

int ChatJob::receive_thought(void* user, const char* text, int32_t text_bytes) noexcept {
  ChatJob& job = *static_cast<ChatJob*>(user);
  try {
    job.note_token();
    job.has_left = !job.reply.add_thought(job.thought.push({text, static_cast<size_t>(text_bytes)}));
    return job.has_left ? 1 : 0;
  } catch (...) {
    job.has_left = true;  // out of memory: this answer ends
    return 1;
  }
}

int ChatJob::receive_token(void* user, const ocellus_token_probability* chosen, const ocellus_token_probability* top,
                           int32_t top_count) noexcept {
  ChatJob& job = *static_cast<ChatJob*>(user);
  try {
    job.reply.add_token(TokenLogprob::of(*chosen, top, top_count));
    return 0;
  } catch (...) {
    job.has_left = true;  // out of memory: this answer ends
    return 1;
  }
}

ocellus_generate_params ChatJob::params(int32_t slice_tokens) {
  ocellus_generate_params params = request.params;
  params.max_tokens = tokens_left();
  params.seed += static_cast<uint64_t>(answer_index % request.choices);  // each answer has choices of its own
  params.slice_tokens = slice_tokens;
  params.deadline_ns = deadline_ns;
  params.logit_bias = request.logit_bias.data();
  params.logit_bias_count = static_cast<int32_t>(request.logit_bias.size());
  params.on_text = receive;
  params.on_thought = receive_thought;
  params.user = this;
  params.thought_user = this;
  params.constraint = constraint;
  if (request.top_logprobs) {
    params.on_token = receive_token;
    params.token_user = this;
    params.top_logprobs = *request.top_logprobs;
  }
  return params;
}

ocellus_generate_params ChatJob::prompt_params(const ocellus_logit_bias* bias) {
  ocellus_generate_params params = generate_params();
  params.max_tokens = 1;
  params.ignore_end = 1;
  params.max_thought_tokens = 0;
  params.deadline_ns = deadline_ns;
  params.logit_bias = bias;
  params.logit_bias_count = 1;
  params.on_token = receive_token;
  params.token_user = this;
  params.top_logprobs = *request.top_logprobs;
  return params;
}

std::span<const int32_t> ChatJob::unscored() const {
  if (!request.scores_prompt()) return {};
  return std::span(request.prompts[prompt_index()].tokens).subspan(scored_tokens);
}

double ChatJob::age_s() const { return static_cast<double>(monotonic_ns() - arrived_ns) / 1e9; }

}  // namespace ocellus::app
