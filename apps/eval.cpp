// ocellus eval QUESTIONS.jsonl
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>

#include "apps/answer.h"
#include "apps/commands.h"
#include "apps/failure.h"
#include "apps/number_validator.h"
#include "apps/options.h"
#include "apps/questions.h"
#include "apps/setup.h"
#include "apps/sizes.h"
#include "apps/table.h"
#include "apps/terminal.h"

namespace ocellus {
namespace {

struct EvalOptions {
  CommonOptions common;
  std::string path;
  int64_t images_each = -1;
  int64_t limit = 0;
};

struct Score {
  int64_t questions = 0;
  int64_t exact = 0;
  double accuracy() const { return questions == 0 ? 0 : static_cast<double>(exact) / static_cast<double>(questions); }
  void add(bool is_exact) {
    ++questions;
    exact += is_exact ? 1 : 0;
  }
};

// Sums over all questions.
struct Totals {
  Score all;
  std::map<std::string, Score> by_kind;
  std::map<int64_t, Score> by_images;
  int64_t kv_bytes = 0;
  int64_t kv_bytes_full = 0;
  int64_t decoded_tokens = 0;
  double first_token_ms = 0;
  double decode_ms = 0;

  void add(const Question& question, const ocellus_generate_stats& stats, bool is_exact) {
    all.add(is_exact);
    by_kind[question.kind].add(is_exact);
    by_images[question.image_count].add(is_exact);
    kv_bytes += stats.kv_bytes;
    kv_bytes_full += stats.kv_bytes_full;
    decoded_tokens += std::max(0, stats.generated_tokens - 1);
    first_token_ms += stats.first_token_ms;
    decode_ms += stats.decode_ms;
  }
  double mean(double sum) const { return all.questions == 0 ? 0 : sum / static_cast<double>(all.questions); }
  int64_t mean(int64_t sum) const { return all.questions == 0 ? 0 : sum / all.questions; }
  double decode_tokens_per_second() const {
    return decode_ms <= 0 ? 0 : 1000.0 * static_cast<double>(decoded_tokens) / decode_ms;
  }
};

std::string trimmed(const std::string& text) {
  const char* space = " \t\r\n";
  const size_t begin = text.find_first_not_of(space);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(space) + 1 - begin);
}

// One engine that can hold every question.
Needs needs_of(const std::vector<Question>& questions, const Model& model, const CommonOptions& options) {
  Needs needs = {.images = 0, .answer_tokens = options.answer_tokens};
  for (const Question& question : questions) {
    needs.images = std::max(needs.images, question.image_count);
    needs.prompt_tokens = std::max(needs.prompt_tokens, count_text_tokens(model.get(), question.parts));
    for (const PromptPart& part : question.parts) {
      if (part.is_image) needs.image_pixels = std::max(needs.image_pixels, part.image.pixels());
    }
  }
  return needs;
}

nlohmann::ordered_json score_json(const Score& score) {
  return {{"questions", score.questions}, {"exact", score.exact}, {"accuracy", score.accuracy()}};
}

std::string summary_json(const Totals& totals, const Running& running) {
  nlohmann::ordered_json object = score_json(totals.all);
  object["by_kind"] = nlohmann::ordered_json::object();
  for (const auto& [kind, score] : totals.by_kind) object["by_kind"][kind] = score_json(score);
  object["by_images"] = nlohmann::ordered_json::object();
  for (const auto& [count, score] : totals.by_images) object["by_images"][std::to_string(count)] = score_json(score);
  object["kv_bytes"] = totals.mean(totals.kv_bytes);  // per question
  object["kv_bytes_full"] = totals.mean(totals.kv_bytes_full);
  object["arena_bytes"] = running.plan.total_bytes;
  object["ttft_ms"] = totals.mean(totals.first_token_ms);
  object["decode_tok_s"] = totals.decode_tokens_per_second();
  object["policy"] = {{"kv_bits", 16}, {"calib", "none"}, {"evict", "none"}, {"keep", 1}, {"reuse", "none"}};
  return json_line(object);
}

std::string summary_text(const Totals& totals, const Running& running) {
  Table scores("lrrr");
  const auto add = [&scores](const std::string& name, const Score& score) {
    scores.add_row(
        {name, std::to_string(score.questions), std::to_string(score.exact), format_number(score.accuracy(), 3)});
  };
  scores.add_row({"", "questions", "exact", "accuracy"});
  scores.add_rule();
  for (const auto& [kind, score] : totals.by_kind) add(kind.empty() ? "(no kind)" : kind, score);
  scores.add_rule();
  for (const auto& [count, score] : totals.by_images) add(format_count(count, "picture"), score);
  scores.add_rule();
  add("all", totals.all);
  Table facts("ll");
  facts.add_row({"cache per question", format_bytes(totals.mean(totals.kv_bytes))});
  facts.add_row({"  unpacked", format_bytes(totals.mean(totals.kv_bytes_full))});
  facts.add_row({"memory of the engine", format_bytes(running.plan.total_bytes)});
  facts.add_row({"time to the first token", format_number(totals.mean(totals.first_token_ms), 1) + " ms"});
  facts.add_row({"decode", format_number(totals.decode_tokens_per_second(), 1) + " tokens/s"});
  return scores.plain_text() + "\n" + facts.plain_text();
}

std::string question_json(const Question& question, const Answer& answer, bool is_exact) {
  nlohmann::ordered_json object = {{"line", question.line},       {"n", question.image_count}, {"kind", question.kind},
                                   {"expected", question.answer}, {"answer", answer.text},     {"exact", is_exact}};
  object.update(stats_json(answer.stats));
  return json_line(object);
}

int run_eval(const EvalOptions& options) {
  const std::vector<Question> questions = read_questions(options.path, options.images_each, options.limit);
  const Model model = open_model(options.common);
  const Running running = start(model, options.common, needs_of(questions, model, options.common));
  CommonOptions silent = options.common;
  silent.quiet = true;  // one progress line for all questions
  Progress progress(options.common.quiet, "reading the first question ...");
  Totals totals;
  for (const Question& question : questions) {
    const std::string where = options.path + ", line " + std::to_string(question.line);
    check(ocellus_session_reset(running.session.get()), where);
    Answer answer;
    try {
      answer = answer_turn(running.session.get(), question.parts, silent, Streaming::kOff);
    } catch (const Failure& failure) {
      throw Failure(failure.exit_code(), where + ": " + failure.what());
    }
    if (answer.interrupted) return kExitInterrupted;
    const bool is_exact = trimmed(question.answer) == answer.text;
    totals.add(question, answer.stats, is_exact);
    if (options.common.json) print(question_json(question, answer, is_exact));
    progress.set(std::to_string(totals.all.questions) + " of " + format_count(std::ssize(questions), "question") +
                 ", accuracy " + format_number(totals.all.accuracy(), 3));
  }
  progress.stop();
  print(options.common.json ? summary_json(totals, running) : summary_text(totals, running));
  return kExitOk;
}

}  // namespace

void add_eval_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<EvalOptions>();
  CLI::App* command = program->add_subcommand("eval", "Exact-match accuracy over a file of questions");
  command->add_option("QUESTIONS", options->path, "One JSON object a line: images, prompt, answer, kind")
      ->required()
      ->option_text("FILE");
  command->add_option("--per-question", options->images_each, "Only questions with N pictures")
      ->option_text("N")
      ->check(number_between(0, 1000000));
  command->add_option("--limit", options->limit, "Only the first K of them")
      ->option_text("K")
      ->check(number_between(1, 1000000));
  add_common_options(command, &options->common);
  command->callback([=] { *action = [=] { return run_eval(*options); }; });
}

}  // namespace ocellus
