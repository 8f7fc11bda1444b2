// ChatScheduler: given texts, and prompts whose tokens are scored.
#include <algorithm>

#include "apps/serve/chat_job.h"
#include "apps/serve/chat_scheduler.h"

namespace ocellus::app {

// Answers with the most probable of the given texts, and with the probability of each.
void ChatScheduler::answer_by_choice(const Job& job) {
  std::vector<Choice> scores;
  if (const ocellus_status status = score_choices(job->session.get(), job->request.scored, &scores);
      status != OCELLUS_OK) {
    throw library_error(status, "score_choices");
  }
  ocellus_generate_params params = job->params(0);
  params.max_tokens = 0;  // only the statistics count
  ocellus_generate_stats stats = {};
  if (job->session.generate(params, nullptr, &stats)) {
    job->usage.prompt_tokens += stats.prompt_tokens;
  }
  for (const Choice& one : scores) job->usage.completion_tokens += one.tokens;
  job->reply.add_scores(std::move(scores));
  finish(job, "stop");
}

// Lets the model say the next tokens of the prompt, each by a bias above all logits: log-probabilities are without it.
void ChatScheduler::score_prompt(const Job& job) {
  constexpr float kAboveAll = 1e30f;
  const std::span<const int32_t> tokens = job->unscored();
  const size_t count = std::min(tokens.size(), static_cast<size_t>(slice_tokens()));
  for (const int32_t token : tokens.first(count)) {
    const ocellus_logit_bias bias = {.token = token, .bias = kAboveAll};
    const ocellus_generate_params params = job->prompt_params(&bias);
    ocellus_generate_stats stats = {};
    stats.stop = OCELLUS_STOP_FAILED;
    const ocellus_status status = job->session.generate(params, nullptr, &stats).code();
    if (job->is_prompts_first()) job->usage.prompt_tokens += stats.prompt_tokens + stats.generated_tokens;
    if (must_stop(job) || stats.stop == OCELLUS_STOP_CANCELLED) return drop(job);
    if (status != OCELLUS_OK) return fail(job, library_error(status, "prompt"));
    if (stats.stop != OCELLUS_STOP_MAX_TOKENS) {
      const bool is_late = stats.stop == OCELLUS_STOP_DEADLINE;
      return fail(job, is_late ? library_error(OCELLUS_DEADLINE) : library_error(OCELLUS_FULL, "prompt"));
    }
    ++job->scored_tokens;
  }
  if (!job->unscored().empty()) return;
  job->request.params.max_tokens == 0 ? finish(job, "length") : generate_first(job);
}

}  // namespace ocellus::app
