#include "apps/commands/score_questions.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/base/failure.h"
#include "apps/base/number_validator.h"
#include "apps/base/plain_text.h"
#include "apps/base/value_flags.h"

namespace ocellus::app {
namespace {

void begin_question(Session* session, const QuestionOptions& asked) {
  constexpr int32_t kSinkTokens = 4;
  check(session->forget_all());
  if (asked.rolling > 0) check(session->set_rolling(asked.rolling, kSinkTokens));
}

}  // namespace

void add_question_options(CLI::App* command, QuestionOptions* options) {
  command->add_option("QUESTIONS", options->path, "JSON lines: images, prompt, answer, kind, choices")->required();
  add_value(command, "Questions", "--per-question", "N", &options->images_each, "Only questions with N pictures")
      ->check(number_between(0, 1000000));
  add_value(command, "Questions", "--limit", "K", &options->limit, "Only the first K of them")
      ->check(number_between(1, 1000000));
}

std::vector<Question> read_questions(const QuestionOptions& options, const Model& model) {
  return read_questions(options.path, options.images_each, options.limit, model.facts.image_numbers);
}

void Totals::add(const Question& question, const Outcome& outcome) {
  const ocellus_generate_stats& stats = outcome.answer.stats;
  all.add(outcome);
  by_kind[question.kind].add(outcome);
  by_images[question.image_count].add(outcome);
  for (const Choice& choice : outcome.answer.choices) {
    if (choice.text != question.answer) continue;
    ++by_choice.questions;
    by_choice.exact += &choice == outcome.answer.choices.data() ? 1 : 0;
    right_probability += choice.probability;
  }
  kv_bytes += stats.kv_bytes;
  kv_scale_bytes += stats.kv_scale_bytes;
  kv_waste_bytes += stats.kv_waste_bytes;
  kv_block_bytes += stats.kv_block_bytes;
  kv_block_elements += stats.kv_block_elements;
  kv_bytes_full += stats.kv_bytes_full;
  decoded_tokens += std::max(0, stats.generated_tokens - 1);
  first_token_ms += stats.first_token_ms;
  decode_ms += stats.decode_ms;
}

double Totals::decode_tokens_per_second() const {
  return decode_ms <= 0 ? 0 : 1000.0 * static_cast<double>(decoded_tokens) / decode_ms;
}

void ask_for_probabilities(const Model& model, std::vector<Question>* questions) {
  for (Question& question : *questions)
    question.answer_tokens = tokenize(model, trim(question.answer), OCELLUS_TEXT_ANSWER);
}

Needs needs_of(const std::vector<Question>& questions, const Model& model, const CommonOptions& options) {
  Needs needs = {.images = 0, .answer_tokens = options.params.max_tokens};
  for (const Question& question : questions) {
    needs.images = std::max(needs.images, question.image_count);
    needs.prompt_tokens = std::max(needs.prompt_tokens, count_text_tokens(model, question.parts));
    needs.answer_tokens = std::max(needs.answer_tokens, std::ssize(question.answer_tokens));
    needs.answer_tokens = std::max(needs.answer_tokens, most_answer_tokens(model, question.choices));
    for (const PromptPart& part : question.parts) {
      if (part.is_image) needs.largest.include(part.image);
    }
  }
  return needs;
}

bool score_questions(Running& running, const std::vector<Question>& questions, const QuestionOptions& asked,
                     const CommonOptions& options, const OnAnswer& on_answer, Totals* totals) {
  CommonOptions silent = options;
  silent.quiet = true;  // the caller has one progress line for all questions
  for (const Question& question : questions) {
    const std::string where = asked.path + ", line " + std::to_string(question.line);
    Outcome outcome;
    try {
      begin_question(&running.session, asked);
      outcome.answer = answer_turn(&running.session, question.parts, silent, Streaming::kOff, "", question.choices);
      if (!question.answer_tokens.empty() && !outcome.answer.interrupted) {
        begin_question(&running.session, asked);
        outcome.expected = score_turn(&running.session, question.parts, silent, question.answer_tokens);
      }
    } catch (const Failure& failure) {
      throw Failure(failure.exit_code(), where + ": " + failure.what());
    }
    if (outcome.answer.interrupted || outcome.expected.interrupted) return false;
    outcome.is_exact = trim(question.answer) == outcome.answer.text;
    totals->add(question, outcome);
    on_answer(question, outcome, *totals);
  }
  return true;
}

}  // namespace ocellus::app
