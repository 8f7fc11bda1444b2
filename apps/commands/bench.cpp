// ocellus bench: rows with llama-bench's names, and rows for pictures.
#if OCELLUS_HAS_MIMALLOC
#include <mimalloc.h>
#else
#include <malloc.h>
#endif

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "apps/base/failure.h"
#include "apps/base/machine.h"
#include "apps/base/number_validator.h"
#include "apps/base/progress.h"
#include "apps/base/sizes.h"
#include "apps/base/terminal.h"
#include "apps/base/value_flags.h"
#include "apps/commands/bench_library.h"
#include "apps/commands/bench_pictures.h"
#include "apps/commands/bench_report.h"
#include "apps/commands/commands.h"
#include "apps/plot/plot_file.h"
#include "apps/setup/answer.h"
#include "apps/setup/options.h"
#include "apps/setup/policy_report.h"
#include "apps/setup/prompt.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

constexpr char kTextQuestion[] = "What is in an image?";
constexpr int64_t kMaxBatch = 1024;  // the library's limit

struct BenchOptions {
  CommonOptions common;
  std::vector<std::string> image_paths;
  std::string output = "md";
  int32_t prompt_tokens = 512;
  int32_t generated_tokens = 128;
  int32_t depth = 0;
  int32_t image_count = 1;
  int32_t visual_tokens = 0;
  std::optional<int64_t> kv_budget_bytes;
  int32_t batch = 1;
  int32_t repetitions = 5;
};

class Bench {
 public:
  // `copy_bytes_per_s`: copy rate of the GPU, 0 on the CPU.
  Bench(const BenchOptions& options, const Model& model, Running& running, double copy_bytes_per_s, Pictures* pictures)
      : options_(options),
        model_(model),
        running_(running),
        copy_bytes_per_s_(copy_bytes_per_s),
        session_(&running.session),
        pictures_(pictures) {
    if (running.limits.library != 0) library_.emplace(running, options.common.library.path, pictures);
    for (int32_t i = 1; i < options.batch; ++i) more_sessions_.push_back(take(Session::open(running.engine)));
  }

  BenchReport run() {
    BenchReport report;
    Progress progress(options_.common.quiet, "measuring", "round");
    for (int32_t i = -1; i < options_.repetitions; ++i) {
      const bool counts = i >= 0;  // the first round warms up
      progress.set(i + 1, options_.repetitions + 1);
      BenchReport round;
      if (options_.visual_tokens > 0) {
        measure_visual(1, &round);
        if (options_.batch > 1) measure_visual(options_.batch, &round);
      } else {
        measure_everything_else(&round);
      }
      if (counts) report.append(round);
      if (counts) continue;
      first_picture_ms_ = picture_ms_;
      heap_bytes_ = heap_in_use();
    }
    progress.set(options_.repetitions + 1, options_.repetitions + 1);
    add_facts(&report);
    return report;
  }

 private:
  void measure_everything_else(BenchReport* report) {
    measure_text(0, report);
    if (options_.depth > 0) measure_text(options_.depth, report);
    if (running_.limits.draft_rows > 1 && options_.generated_tokens > 0) measure_draft(report);
    if (running_.constraint && options_.generated_tokens > 0) measure_constrained(report);
    if (options_.batch > 1) measure_batch(report);
    if (options_.batch > 1 && options_.depth > 0) measure_conversations(options_.depth, report);
    if (library_)
      library_->measure(options_.image_count, report);
    else
      measure_pictures(report);
    measure_text_question(report);
  }

  void measure_text(int32_t depth, BenchReport* report) {
    const std::string at_depth = depth > 0 ? " @ d" + std::to_string(depth) : "";
    if (options_.prompt_tokens > 0) {
      start_at(depth);
      const ocellus_generate_stats stats = generate(options_.prompt_tokens, exact_params(1));
      report->add("pp" + std::to_string(options_.prompt_tokens) + at_depth, "tokens/s",
                  per_second(options_.prompt_tokens, stats.prefill_ms));
    }
    if (options_.generated_tokens > 0) {
      start_at(depth);
      // The prompt yields the first token; only the steps after it are measured.
      const ocellus_generate_stats stats = generate(1, exact_params(options_.generated_tokens + 1));
      const std::string name = batch_name(1) + at_depth;
      report->add(name, "tokens/s", per_second(stats.generated_tokens - 1, stats.decode_ms));
      report->add(name + " token median", "ms", stats.token_median_ms);
      report->add(name + " token p95", "ms", stats.token_p95_ms);
      add_traffic(name, 1, depth * running_.plan.kv_bytes_per_token,
                  stats.decode_ms / std::max(1, stats.generated_tokens - 1), report);
    }
  }

  // Adds the bytes that a step must read (weights and cache) over its time. `past_bytes`: cache of a session at the
  // start.
  void add_traffic(const std::string& name, int32_t sessions, int64_t past_bytes, double step_ms,
                   BenchReport* report) const {
    if (step_ms <= 0) return;
    const int64_t answer_bytes = options_.generated_tokens / 2 * running_.plan.kv_bytes_per_token;
    const int64_t bytes = model_.facts.step_weight_bytes + sessions * (past_bytes + answer_bytes);
    const double bytes_per_s = static_cast<double>(bytes) / (step_ms * 1e-3);
    report->add(name + " reads", "GB/s", bytes_per_s * 1e-9);
    if (copy_bytes_per_s_ > 0) report->add(name + " of copy rate", "%", 100.0 * bytes_per_s / copy_bytes_per_s_);
  }

  // An answer that was given before: every guess of its draft is right.
  void measure_draft(BenchReport* report) {
    ocellus_generate_stats stats = {};
    for (int i = 0; i < 2; ++i) {
      check(session_->forget_all());
      check(session_->add_text(kTextQuestion));
      stats = generate(0, exact_params(options_.generated_tokens + 1));
    }
    const std::string name = batch_name(1) + " said before";
    report->add(name, "tokens/s", per_second(stats.generated_tokens - 1, stats.decode_ms));
    report->add(name + ", a step", "tokens", 1 + 1.0 * stats.accepted_tokens / std::max(1, stats.decode_steps));
  }

  void measure_constrained(BenchReport* report) {
    start_at(0);
    ocellus_generate_params params = generate_params(options_.common);
    params.max_tokens = options_.generated_tokens + 1;
    const ocellus_generate_stats stats = generate(1, params);
    const double tokens = stats.generated_tokens - 1;  // an answer may end early
    report->add(batch_name(1) + " constrained", "tokens/s", per_second(tokens, stats.decode_ms));
    report->add(batch_name(1) + " constrained, a step", "tokens", tokens / std::max(1, stats.decode_steps));
  }

  void measure_batch(BenchReport* report) {
    for (Session* session : first_sessions(options_.batch)) check(session->forget_all());
    decode_together(options_.batch, 0, batch_name(options_.batch), report);
  }

  // Conversations as papers measure them: every prompt of `depth` tokens is read, then all are answered together.
  void measure_conversations(int32_t depth, BenchReport* report) {
    const std::vector<Session*> sessions = first_sessions(options_.batch);
    const std::vector each(sessions.size(), exact_params(options_.generated_tokens));
    std::vector<ocellus_generate_stats> stats(sessions.size());
    std::vector<int32_t> tokens(static_cast<size_t>(depth));
    for (Session* session : sessions) check(session->forget_all());
    const auto start = std::chrono::steady_clock::now();
    for (Session* session : sessions) {
      for (int32_t& token : tokens) token = next_token();
      check(session->add_tokens(tokens));
    }
    check(batch_generate(handles_of(sessions), each, stats));
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    double bytes = 0;
    for (const ocellus_generate_stats& one : stats) bytes += static_cast<double>(one.kv_bytes);
    const std::string name = batch_name(options_.batch) + " @ d" + std::to_string(depth);
    report->add(name + " latency", "ms", elapsed.count());
    report->add(name + " throughput", "tokens/s",
                per_second(options_.batch * options_.generated_tokens, elapsed.count()));
    report->add(name + " token median", "ms", stats[0].token_median_ms);
    report->add(name + " caches at the end", "MiB", bytes / (1 << 20));
  }

  // Measures decoding over visual tokens that are put into the caches without encoding.
  void measure_visual(int32_t count, BenchReport* report) {
    for (Session* session : first_sessions(count)) {
      check(session->forget_all());
      check(session->add_synthetic_image());
    }
    const std::string name = batch_name(count) + " @ v" + std::to_string(options_.visual_tokens);
    decode_together(count, running_.plan.kv_bytes_per_image, name, report);
  }

  std::string batch_name(int32_t count) const {
    return "tg" + std::to_string(options_.generated_tokens) + (count > 1 ? " b" + std::to_string(count) : "");
  }

  std::vector<Session*> first_sessions(int32_t count) {
    std::vector<Session*> sessions = {session_};
    for (Session& session : more_sessions_) sessions.push_back(&session);
    sessions.resize(static_cast<size_t>(count));
    return sessions;
  }

  // Adds one token to each session, then answers in all; the steps after the first token are measured.
  void decode_together(int32_t count, int64_t past_bytes, const std::string& name, BenchReport* report) {
    const std::vector<Session*> sessions = first_sessions(count);
    const std::vector each(sessions.size(), exact_params(options_.generated_tokens + 1));
    std::vector<ocellus_generate_stats> stats(sessions.size());
    for (Session* session : sessions) {
      const int32_t token = next_token();
      check(session->add_tokens({&token, 1}));
    }
    check(batch_generate(handles_of(sessions), each, stats));
    const double step_ms = stats[0].decode_ms / std::max(1, stats[0].generated_tokens - 1);
    report->add(name, "tokens/s", step_ms > 0 ? 1000.0 * count / step_ms : 0);
    if (options_.visual_tokens > 0) report->add(name + " token median", "ms", stats[0].token_median_ms);
    add_traffic(name, count, past_bytes, step_ms, report);
  }

  ocellus_generate_stats ask_about_pictures(Session* session) {
    check(session->forget_all());
    check(session->begin_turn());
    for (int32_t i = 0; i < options_.image_count; ++i) check(pictures_->add(session, i));
    check(session->add_text(kCaptionPrompt));
    check(session->end_turn());
    ocellus_generate_stats stats;
    check(session->generate(exact_params(1), nullptr, &stats));
    return stats;
  }

  // Links the same pictures in all sessions of the batch.
  void measure_shared(const std::string& owner, BenchReport* report) {
    ocellus_generate_stats stats = {};
    for (Session* session : first_sessions(options_.batch)) {
      check(session->clear_library(owner.c_str()));
      stats = ask_about_pictures(session);
    }
    report->add("TTFT " + format_count(options_.image_count, "image") + ", from the device", "ms",
                stats.first_token_ms);
    const ocellus_engine_stats engine = running_.engine_stats();
    report->add("shared images", "MiB", mebibytes(engine.shared_bytes_used));
    report->add("saved by sharing", "MiB", mebibytes(engine.shared_bytes_saved));
    for (Session* session : first_sessions(options_.batch)) check(session->forget_all());
  }

  void measure_pictures(BenchReport* report) {
    if (options_.image_count == 0) return;
    const std::string owner = "round-" + std::to_string(++rounds_);  // a new one shares nothing yet
    check(session_->clear_library(owner.c_str()));
    const ocellus_generate_stats stats = ask_about_pictures(session_);
    const std::string count = format_count(options_.image_count, "image");
    const double images = options_.image_count;
    picture_ms_ = (stats.preprocess_ms + stats.encode_ms) / images;
    report->add("image preprocess", "ms", stats.preprocess_ms / images);
    report->add("image encode", "ms", stats.encode_ms / images);
    report->add("image tokens", "tokens", stats.image_tokens / images);
    report->add(count + " prefill", "ms", stats.prefill_ms);
    report->add("TTFT " + count + ", cold", "ms", stats.first_token_ms);
    if (running_.limits.shared_images > 0) measure_shared(owner, report);
  }

  void measure_text_question(BenchReport* report) {
    check(session_->forget_all());
    check(session_->begin_turn());
    check(session_->add_text(kTextQuestion));
    check(session_->end_turn());
    report->add("TTFT text", "ms", generate(0, exact_params(1)).first_token_ms);
  }

  void add_facts(BenchReport* report) const {
    const ocellus_engine_stats engine = running_.engine_stats();
    if (options_.image_count > 0 && !library_) report->add("first image preprocess + encode", "ms", first_picture_ms_);
    report->add("load", "ms", engine.load_ms);
    report->add("arena", "MiB", mebibytes(engine.arena_bytes));
    report->add("peak RSS of the process", "MiB", mebibytes(peak_resident_bytes()));
    const ocellus_plan& plan = running_.plan;
    if (plan.kv_bytes_per_image > 0) report->add("cache per image", "MiB", mebibytes(plan.kv_bytes_per_image));
    report->add("cache per session", "MiB", mebibytes(plan.kv_bytes_per_session));
    report->add("heap growth while measuring", "bytes", static_cast<double>(heap_in_use() - heap_bytes_));
    if (copy_bytes_per_s_ <= 0) return;
    report->add("copy rate", "GB/s", copy_bytes_per_s_ * 1e-9);
    report->add("pinned host memory", "MiB", mebibytes(plan.staging_bytes));
    report->add("outside the arena", "MiB", mebibytes(engine.outside_bytes));
    report->add("growth outside the arena while measuring", "MiB",
                mebibytes(engine.outside_bytes_now - engine.outside_bytes));
  }

  // Starts an empty session, or one with `depth` tokens in its cache.
  void start_at(int32_t depth) {
    check(session_->forget_all());
    if (depth > 0) generate(depth, exact_params(1));
  }

  // Asks for exactly that many tokens of any kind.
  ocellus_generate_params exact_params(int32_t tokens) const {
    ocellus_generate_params params = generate_params(options_.common);
    params.max_tokens = tokens;
    params.ignore_end = 1;
    params.constraint = nullptr;
    return params;
  }

  // Adds `random_tokens` and answers.
  ocellus_generate_stats generate(int32_t random_tokens, const ocellus_generate_params& params) {
    std::vector<int32_t> tokens(static_cast<size_t>(random_tokens));
    for (int32_t& token : tokens) token = next_token();
    if (random_tokens > 0) check(session_->add_tokens(tokens));
    ocellus_generate_stats stats;
    check(session_->generate(params, nullptr, &stats));
    return stats;
  }

  // Numerical Recipes' generator: the same tokens in every run.
  int32_t next_token() {
    random_ = random_ * 1664525u + 1013904223u;
    return static_cast<int32_t>((random_ >> 8) % static_cast<uint32_t>(model_.facts.vocabulary_size));
  }

#if OCELLUS_HAS_MIMALLOC
  // Blocks that this thread allocated.
  static int64_t heap_in_use() {
    int64_t bytes = 0;
    const auto add = [](const mi_heap_t*, const mi_heap_area_t* area, void*, size_t, void* sum) {
      *static_cast<int64_t*>(sum) += static_cast<int64_t>(area->used * area->block_size);
      return true;
    };
    mi_heap_visit_blocks(mi_heap_get_default(), false, add, &bytes);
    return bytes;
  }
#else
  static int64_t heap_in_use() { return static_cast<int64_t>(::mallinfo2().uordblks); }
#endif

  static double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

  static double per_second(int32_t count, double elapsed_ms) {
    return elapsed_ms > 0 ? 1000.0 * count / elapsed_ms : 0;
  }

  const BenchOptions& options_;
  const Model& model_;
  Running& running_;
  double copy_bytes_per_s_;
  Session* session_;
  std::vector<Session> more_sessions_;
  Pictures* pictures_;
  std::optional<LibraryBench> library_;
  uint32_t random_ = 1;
  double picture_ms_ = 0;
  int32_t rounds_ = 0;
  double first_picture_ms_ = 0;
  int64_t heap_bytes_ = 0;  // after the warm-up
};

// Returns the session limits that the requested rows need.
Needs needs_of(const BenchOptions& options, const Model& model, const Pictures& pictures) {
  if (options.visual_tokens > 0) return {.images = 0, .prompt_tokens = 1 + options.generated_tokens + 2};
  std::vector<PromptPart> question(1);
  question[0].text = kCaptionPrompt;
  if (!options.common.library.path.empty()) question[0].text += std::string(" ") + kElsewhere;
  const int64_t text_rows =
      int64_t{options.depth} + 1 + std::max<int64_t>(options.prompt_tokens + 1, options.generated_tokens + 2);
  return {.images = options.image_count,
          .prompt_tokens = std::max(text_rows, count_text_tokens(model, question) + 1),
          .largest = pictures.largest()};
}

// Checks positions before weights are loaded or generated.
void check_positions(const BenchOptions& options, const ocellus_model_facts& facts, const Needs& needs) {
  if (facts.context_length == 0 || options.visual_tokens + needs.prompt_tokens <= facts.context_length) return;
  throw Failure(kExitOverBudget, "--visual " + std::to_string(options.visual_tokens) + " and the text take " +
                                     std::to_string(options.visual_tokens + needs.prompt_tokens) +
                                     " positions, but the model has " + std::to_string(facts.context_length) + ".");
}

// Returns the maximum number of sessions whose caches fit --kv-budget.
int32_t batch_in_budget(const BenchOptions& options, const Model& model, const Needs& needs) {
  CommonOptions one = options.common;
  one.sessions = 1;
  one.quiet = true;
  const int64_t bytes = plan_memory(model, make_limits(model, one, needs), one).kv_bytes_per_session;
  if (bytes > *options.kv_budget_bytes) {
    throw Failure(kExitOverBudget, "the cache of one session takes " + format_bytes(bytes) +
                                       ", more than the --kv-budget of " + format_bytes(*options.kv_budget_bytes) +
                                       ".");
  }
  return static_cast<int32_t>(std::min<int64_t>(*options.kv_budget_bytes / bytes, kMaxBatch));
}

nlohmann::ordered_json heading(const BenchOptions& options, const Model& model, const Running& running,
                               const std::string& device, const std::string& pictures) {
  nlohmann::ordered_json object = {
      {"model", model.facts.name},
      {"weights", model.facts.weight_format},
      {"parameters", model.facts.parameter_count},
      {"device", device},
      {"threads", options.common.limits.thread_count > 0 ? options.common.limits.thread_count : usable_cores()},
      {"pictures", pictures},
      {"cache", describe_policy(running.limits)}};
  if (running.limits.cpu_math == OCELLUS_CPU_MATH_BF16) object["cpu math"] = "bf16";
  if (options.kv_budget_bytes) object["kv budget"] = format_bytes(*options.kv_budget_bytes);
  if (options.visual_tokens > 0) object["sessions"] = options.batch;
  object["repetitions"] = options.repetitions;
  object["version"] = ocellus_version();
  return object;
}

// Benchmark entries belong to an owner of their own.
void set_library_owner(bool sees, LibraryOptions* library) {
  if (library->path.empty()) return;
  if (!sees) throw Failure(kExitUsage, "bench --library measures pictures: it needs a vision part and --images.");
  if (!library->owner.empty()) throw Failure(kExitUsage, "bench --library has an owner of its own: omit --owner.");
  library->owner = "bench";
}

int run_bench(const BenchOptions& options) {
  check_plot(options.common.plot_path);
  const Model model = open_model(options.common);
  BenchOptions fitted = options;
  const bool sees = model.facts.has_vision && options.visual_tokens == 0;
  fitted.image_count = sees ? options.common.images.value_or(1) : 0;
  fitted.common.limits.synthetic_tokens = options.visual_tokens;
  set_library_owner(sees, &fitted.common.library);
  Pictures pictures(options.image_paths);
  const Needs needs = needs_of(fitted, model, pictures);
  check_positions(options, model.facts, needs);
  if (options.kv_budget_bytes) fitted.batch = batch_in_budget(fitted, model, needs);
  // Before the engine takes the memory: the measured copy needs some as well.
  ocellus_gpu_facts gpu = {};
  const bool on_gpu = runs_on_gpu(options.common);
  if (on_gpu) gpu = take(probe_gpu(options.common.limits.device_index));
  fitted.common.sessions = std::max(fitted.batch, options.common.sessions.value_or(1));
  Running running = start(model, fitted.common, needs);
  BenchReport report = Bench(fitted, model, running, gpu.copy_bytes_per_s, &pictures).run();
  const std::string seen = fitted.image_count > 0      ? pictures.describe()
                           : options.visual_tokens > 0 ? format_count(options.visual_tokens, "synthetic token")
                                                       : "none";
  report.set_heading(heading(fitted, model, running, on_gpu ? std::string(gpu.name) : processor_name(), seen));
  const std::string format = options.common.json ? "json" : options.output;
  print(format == "json" ? report.json() : format == "csv" ? report.csv() : report.markdown());
  write_plot(options.common.plot_path, report.plot());
  return kExitOk;
}

void set_kv_budget(BenchOptions* options, const std::string& size) {
  options->kv_budget_bytes = parse_bytes(size);
  if (!options->kv_budget_bytes) {
    throw Failure(kExitUsage, "--kv-budget " + size + ": write a size as --budget takes it, 512M or 5G.");
  }
}

}  // namespace

void add_bench_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* command = program->add_subcommand("bench", "Measure speed and memory");
  const auto count = [command](const char* name, int32_t* value, const char* help, int32_t low) {
    CLI::Option* const option = add_value(command, "Benchmark", name, "N", value, help);
    return option->check(number_between(low, 1000000));
  };
  const auto images =
      command->add_option("IMAGE", options->image_paths, "Pictures to encode (default: generated frames)");
  const auto prompt = count("-p", &options->prompt_tokens, "Tokens of the prompt row; 0: none (default: 512)", 0);
  count("-n", &options->generated_tokens, "Tokens of the generation row; 0: none (default: 128)", 0);
  const auto depth = count("-d", &options->depth, "Also measure with N tokens in the cache (default: 0)", 0);
  const auto batch = count("-b", &options->batch, "Also generate in N sessions together (default: 1)", 1);
  const auto visual =
      count("--visual", &options->visual_tokens, "Only generate, over N synthetic visual tokens a cache", 1);
  visual->excludes(images)->excludes(prompt)->excludes(depth);
  add_parsed(
      command, "Benchmark", "--kv-budget", "SIZE",
      [raw = options.get()](const std::string& size) { set_kv_budget(raw, size); },
      "Generate in as many sessions as have caches that fit")
      ->needs(visual)
      ->excludes(batch);
  count("-r", &options->repetitions, "Rounds after the warm-up (default: 5)", 1);
  add_value(command, "Benchmark", "--output", "md|csv|json", &options->output, "Format of the table (default: md)")
      ->check(CLI::IsMember({"md", "csv", "json"}));
  add_shared_flags(command, &options->common);
  command->callback([=] {
    if (options->visual_tokens > 0 && options->generated_tokens == 0)
      throw Failure(kExitUsage, "bench --visual measures generation: leave -n 0 out.");
    *action = [=] { return run_bench(*options); };
  });
}

}  // namespace ocellus::app
