// ocellus eval QUESTIONS.jsonl
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "apps/base/failure.h"
#include "apps/base/number_validator.h"
#include "apps/base/progress.h"
#include "apps/base/sizes.h"
#include "apps/base/table.h"
#include "apps/base/terminal.h"
#include "apps/base/value_flags.h"
#include "apps/commands/commands.h"
#include "apps/commands/score_questions.h"
#include "apps/plot/plot_file.h"
#include "apps/setup/policy_report.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

struct EvalOptions {
  CommonOptions common;
  QuestionOptions questions;
  bool perplexity = false;
};

nlohmann::ordered_json score_json(const Score& score) {
  nlohmann::ordered_json object = {
      {"questions", score.questions}, {"exact", score.exact}, {"accuracy", score.accuracy()}};
  if (score.forced_tokens == 0) return object;
  object["perplexity"] = score.perplexity();
  object["forced_tokens"] = score.forced_tokens;
  return object;
}

std::string summary_json(const Totals& totals, const Running& running) {
  nlohmann::ordered_json object = score_json(totals.all);
  object["by_kind"] = nlohmann::ordered_json::object();
  for (const auto& [kind, score] : totals.by_kind) object["by_kind"][kind] = score_json(score);
  object["by_images"] = nlohmann::ordered_json::object();
  for (const auto& [count, score] : totals.by_images) object["by_images"][std::to_string(count)] = score_json(score);
  if (totals.by_choice.questions > 0) {
    object["by_choice"] = score_json(totals.by_choice);
    object["by_choice"]["probability"] = totals.mean_right_probability();
  }
  object["kv_bytes"] = totals.mean(totals.kv_bytes);  // per question
  object["kv_scale_bytes"] = totals.mean(totals.kv_scale_bytes);
  object["kv_waste_bytes"] = totals.mean(totals.kv_waste_bytes);
  object["kv_visual_bits"] = totals.bits_per_element();
  object["kv_bytes_full"] = totals.mean(totals.kv_bytes_full);
  object["arena_bytes"] = running.plan.total_bytes;
  object["ttft_ms"] = totals.mean(totals.first_token_ms);
  object["decode_tok_s"] = totals.decode_tokens_per_second();
  object["policy"] = policy_json(running.limits);
  return json_line(object);
}

std::string summary_text(const Totals& totals, const Running& running) {
  const bool perplexity = totals.all.forced_tokens > 0;
  Table scores(perplexity ? "lrrrr" : "lrrr");
  const auto add_row = [&](std::vector<std::string> cells, const std::string& last) {
    if (perplexity) cells.push_back(last);
    scores.add_row(cells);
  };
  const auto add = [&](const std::string& name, const Score& score) {
    add_row({name, std::to_string(score.questions), std::to_string(score.exact), format_number(score.accuracy(), 3)},
            format_number(score.perplexity(), 4));
  };
  add_row({"", "questions", "exact", "accuracy"}, "perplexity");
  scores.add_rule();
  for (const auto& [kind, score] : totals.by_kind) add(kind.empty() ? "(no kind)" : kind, score);
  scores.add_rule();
  for (const auto& [count, score] : totals.by_images) add(format_count(count, "picture"), score);
  scores.add_rule();
  add("all", totals.all);
  Table facts("ll");
  if (perplexity) {
    facts.add_row({"perplexity of the expected answers", format_number(totals.all.perplexity(), 4) + " over " +
                                                             format_count(totals.all.forced_tokens, "token")});
  }
  if (totals.by_choice.questions > 0) {
    facts.add_row({"accuracy by choice", format_number(totals.by_choice.accuracy(), 3)});
    facts.add_row({"  probability of the right one", format_number(totals.mean_right_probability(), 3)});
  }
  facts.add_row({"cache per question", format_bytes(totals.mean(totals.kv_bytes))});
  if (totals.kv_scale_bytes > 0) facts.add_row({"  of it scales", format_bytes(totals.mean(totals.kv_scale_bytes))});
  if (totals.kv_block_elements > 0)
    facts.add_row({"  a visual key or value", format_number(totals.bits_per_element(), 2) + " bits, all counted"});
  facts.add_row({"  plus empty slots", format_bytes(totals.mean(totals.kv_waste_bytes))});
  facts.add_row({"  all of it as f16", format_bytes(totals.mean(totals.kv_bytes_full))});
  facts.add_row({"memory of the engine", format_bytes(running.plan.total_bytes)});
  facts.add_row({"time to the first token", format_number(totals.mean(totals.first_token_ms), 1) + " ms"});
  facts.add_row({"decode", format_number(totals.decode_tokens_per_second(), 1) + " tokens/s"});
  return scores.plain_text() + "\n" + facts.plain_text();
}

void add_accuracy(const std::string& label, const Score& score, Chart* chart) {
  const std::string count = std::to_string(score.exact) + " of " + std::to_string(score.questions);
  chart->bars.push_back({label, {score.accuracy()}, format_number(score.accuracy(), 3) + ", " + count});
}

void add_perplexity(const std::string& label, const Score& score, Chart* chart) {
  if (score.forced_tokens > 0)
    chart->bars.push_back({label, {score.perplexity()}, format_number(score.perplexity(), 4)});
}

using AddBar = void (*)(const std::string& label, const Score& score, Chart* chart);

void add_score_bars(const Totals& totals, AddBar add, Chart* chart) {
  add("all", totals.all, chart);
  for (const auto& [kind, score] : totals.by_kind) add(kind.empty() ? "(no kind)" : kind, score, chart);
  for (const auto& [count, score] : totals.by_images) add(format_count(count, "picture"), score, chart);
}

Plot draw_scores(const Totals& totals, const Model& model, const Running& running) {
  Chart accuracy = {.title = "Accuracy, by kind and by number of pictures", .axis = "share of exact answers", .end = 1};
  Chart perplexity = {.title = "Perplexity of the expected answers", .axis = "perplexity, 1 is the best", .begin = 1};
  add_score_bars(totals, add_accuracy, &accuracy);
  add_score_bars(totals, add_perplexity, &perplexity);
  Plot plot = {
      .title = "Answers of " + std::string(model.facts.name),
      .remarks = {format_count(totals.all.questions, "question") + ", cache " + describe_policy(running.limits) + ", " +
                  format_bytes(totals.mean(totals.kv_bytes)) + " a question"},
      .charts = {std::move(accuracy)}};
  if (!perplexity.bars.empty()) plot.charts.push_back(std::move(perplexity));
  return plot;
}

std::string question_json(const Question& question, const Outcome& outcome) {
  nlohmann::ordered_json object = {{"line", question.line},         {"n", question.image_count},
                                   {"kind", question.kind},         {"expected", question.answer},
                                   {"answer", outcome.answer.text}, {"exact", outcome.is_exact}};
  if (!outcome.answer.choices.empty()) object.update(choices_json(outcome.answer.choices));
  if (outcome.expected.tokens > 0) {
    object["nll"] = outcome.expected.nll;
    object["forced_tokens"] = outcome.expected.tokens;
  }
  object.update(stats_json(outcome.answer.stats));
  return json_line(object);
}

int run_eval(const EvalOptions& options) {
  check_plot(options.common.plot_path);
  const Model model = open_model(options.common);
  std::vector<Question> questions = read_questions(options.questions, model);
  if (options.perplexity) ask_for_probabilities(model, &questions);
  Needs needs = needs_of(questions, model, options.common);
  if (options.questions.rolling > 0) needs.images = std::min<int64_t>(needs.images, options.questions.rolling);
  Running running = start(model, options.common, needs);
  Progress progress(options.common.quiet, "answering", "question");
  progress.set(0, std::ssize(questions));
  const auto show = [&](const Question& question, const Outcome& outcome, const Totals& sums) {
    if (options.common.json) print(question_json(question, outcome));
    progress.set(sums.all.questions, std::ssize(questions), "accuracy " + format_number(sums.all.accuracy(), 3));
  };
  Totals totals;
  if (!score_questions(running, questions, options.questions, options.common, show, &totals)) {
    return kExitInterrupted;
  }
  progress.stop();
  print(options.common.json ? summary_json(totals, running) : summary_text(totals, running));
  write_plot(options.common.plot_path, draw_scores(totals, model, running));
  return kExitOk;
}

}  // namespace

void add_eval_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<EvalOptions>();
  CLI::App* command = program->add_subcommand("eval", "Measure exact-match accuracy over a file of questions");
  add_question_options(command, &options->questions);
  command
      ->add_flag("--perplexity", options->perplexity,
                 "Also the probability of each expected answer. Reads every question twice")
      ->group("Questions");
  add_value(command, "Questions", "--rolling", "N", &options->questions.rolling,
            "Rolling sessions of N pictures. The oldest one makes room for a new one")
      ->check(number_between(1, 65536));
  add_shared_flags(command, &options->common);
  command->callback([=] { *action = [=] { return run_eval(*options); }; });
}

}  // namespace ocellus::app
