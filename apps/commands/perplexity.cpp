// ocellus perplexity FILE.txt
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>

#include "apps/base/failure.h"
#include "apps/base/interrupt.h"
#include "apps/base/number_validator.h"
#include "apps/base/progress.h"
#include "apps/base/sizes.h"
#include "apps/base/table.h"
#include "apps/base/terminal.h"
#include "apps/base/value_flags.h"
#include "apps/commands/commands.h"
#include "apps/setup/answer.h"
#include "apps/setup/image_file.h"
#include "apps/setup/options.h"
#include "apps/setup/policy_report.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

struct PerplexityOptions {
  CommonOptions common;
  std::string path;
  int64_t tokens = 4000;
  int64_t window = 1024;
  int64_t context = 0;  // 0: half a window
};

// A stretch of the text, read in a session of its own: the first tokens are the prompt, the others are forced.
struct Window {
  std::vector<int32_t> prompt;
  std::vector<int32_t> forced;
};

// Sums over all windows.
struct Sums {
  int64_t windows = 0;
  int64_t prompt_tokens = 0;
  int64_t forced_tokens = 0;
  double nll = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
  int64_t kv_bytes = 0;
  int64_t kv_bytes_full = 0;
  double perplexity() const { return std::exp(nll / static_cast<double>(forced_tokens)); }
  // The first token of a window takes no step.
  double tokens_per_second() const {
    return decode_ms <= 0 ? 0 : 1000.0 * static_cast<double>(forced_tokens - windows) / decode_ms;
  }
};

std::vector<Window> cut_windows(const PerplexityOptions& options, const Model& model) {
  const std::vector<uint8_t> bytes = read_input_file(options.path);
  const std::vector<int32_t> start = tokenize(model, "", OCELLUS_TEXT_START);
  std::vector<int32_t> tokens = tokenize(model, std::string(bytes.begin(), bytes.end()), 0);
  tokens.resize(std::min(tokens.size(), static_cast<size_t>(options.tokens)));
  std::vector<Window> windows;
  for (int64_t first = 0; first + options.context < std::ssize(tokens); first += options.window) {
    const auto begin = tokens.begin() + first, forced = begin + options.context;
    const auto end = tokens.begin() + std::min(first + options.window, std::ssize(tokens));
    Window window = {.prompt = start, .forced = {forced, end}};
    window.prompt.insert(window.prompt.end(), begin, forced);
    windows.push_back(std::move(window));
  }
  if (windows.empty()) {
    throw Failure(kExitBadInput, options.path + ": the text has " + format_count(std::ssize(tokens), "token") +
                                     ", all of which a --context of " + std::to_string(options.context) +
                                     " takes: give more text or less context.");
  }
  return windows;
}

// Returns false if the user interrupted it.
bool read_window(Session* session, const Window& window, Sums* sums, std::string* json) {
  const InterruptScope interruptible(session);
  std::vector<float> log_probabilities(window.forced.size());
  ocellus_generate_stats stats = {};
  check(session->forget_all());
  ocellus_status status = session->add_tokens(window.prompt).code();
  if (status == OCELLUS_OK && interruptible.is_requested()) return false;
  if (status == OCELLUS_OK) status = session->score(window.forced, log_probabilities, &stats).code();
  if (status == OCELLUS_CANCELLED) return false;
  check(status);
  double nll = 0;
  for (const float value : log_probabilities) nll -= double{value};
  nlohmann::ordered_json object = {
      {"window", sums->windows}, {"nll", nll}, {"forced_tokens", std::ssize(window.forced)}};
  object.update(stats_json(stats));
  *json = json_line(object);
  ++sums->windows;
  sums->prompt_tokens += stats.prompt_tokens;
  sums->forced_tokens += std::ssize(window.forced);
  sums->nll += nll;
  sums->prefill_ms += stats.prefill_ms;
  sums->decode_ms += stats.decode_ms;
  sums->kv_bytes += stats.kv_bytes;
  sums->kv_bytes_full += stats.kv_bytes_full;
  return true;
}

std::string summary_json(const PerplexityOptions& options, const Sums& sums, const Running& running) {
  const nlohmann::ordered_json object = {{"perplexity", sums.perplexity()},
                                         {"nll", sums.nll},
                                         {"forced_tokens", sums.forced_tokens},
                                         {"prompt_tokens", sums.prompt_tokens},
                                         {"windows", sums.windows},
                                         {"window", options.window},
                                         {"context", options.context},
                                         {"kv_bytes", sums.kv_bytes / sums.windows},  // per window, at its end
                                         {"kv_bytes_full", sums.kv_bytes_full / sums.windows},
                                         {"arena_bytes", running.plan.total_bytes},
                                         {"prefill_ms", sums.prefill_ms},
                                         {"decode_tok_s", sums.tokens_per_second()},
                                         {"policy", policy_json(running.limits)}};
  return json_line(object);
}

std::string summary_text(const PerplexityOptions& options, const Sums& sums, const Running& running) {
  Table facts("ll");
  facts.add_row({"perplexity", format_number(sums.perplexity(), 4)});
  facts.add_row({"tokens", format_count(sums.forced_tokens, "token") + " in " + format_count(sums.windows, "window") +
                               ", each after " + std::to_string(options.context)});
  facts.add_row({"cache at the end of a window", format_bytes(sums.kv_bytes / sums.windows)});
  facts.add_row({"  with nothing dropped", format_bytes(sums.kv_bytes_full / sums.windows)});
  facts.add_row({"memory of the engine", format_bytes(running.plan.total_bytes)});
  facts.add_row({"decode", format_number(sums.tokens_per_second(), 1) + " tokens/s"});
  return facts.plain_text();
}

int run_perplexity(PerplexityOptions options) {
  if (options.context == 0) options.context = options.window / 2;
  if (options.context >= options.window) {
    throw Failure(kExitUsage, "--context must be less than --window, which is " + std::to_string(options.window) + ".");
  }
  const Model model = open_model(options.common);
  const std::vector<Window> windows = cut_windows(options, model);
  const Needs needs = {
      .images = 0, .prompt_tokens = std::ssize(windows[0].prompt) + std::ssize(windows[0].forced), .answer_tokens = 0};
  Running running = start(model, options.common, needs);
  Progress progress(options.common.quiet, "reading the text", "window");
  progress.set(0, std::ssize(windows));
  Sums sums;
  for (const Window& window : windows) {
    std::string json;
    if (!read_window(&running.session, window, &sums, &json)) return kExitInterrupted;
    if (options.common.json) print(json);
    progress.set(sums.windows, std::ssize(windows), "perplexity " + format_number(sums.perplexity(), 3));
  }
  progress.stop();
  print(options.common.json ? summary_json(options, sums, running) : summary_text(options, sums, running));
  return kExitOk;
}

}  // namespace

void add_perplexity_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<PerplexityOptions>();
  CLI::App* command = program->add_subcommand("perplexity", "Measure the perplexity of a text, read through the cache");
  command->add_option("FILE", options->path, "Plain text")->required();
  const auto count = [command](const char* name, int64_t* value, const char* help, int64_t low) {
    add_value(command, "Text", name, "N", value, help)->check(number_between(low, 1000000));
  };
  count("--tokens", &options->tokens, "Tokens of the text to read (default: 4000)", 2);
  count("--window", &options->window, "Tokens read together (default: 1024). Each begins in an empty session", 2);
  count("--context", &options->context, "Of these, the tokens of the prompt (default: half)", 1);
  add_shared_flags(command, &options->common);
  command->callback([=] { *action = [=] { return run_perplexity(*options); }; });
}

}  // namespace ocellus::app
