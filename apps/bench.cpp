// ocellus bench: rows named as llama-bench names them, and rows for pictures.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "apps/answer.h"
#include "apps/bench_report.h"
#include "apps/commands.h"
#include "apps/failure.h"
#include "apps/image_file.h"
#include "apps/machine.h"
#include "apps/number_validator.h"
#include "apps/options.h"
#include "apps/prompt.h"
#include "apps/setup.h"
#include "apps/sizes.h"
#include "apps/terminal.h"

namespace ocellus {
namespace {

constexpr char kQuestion[] = "Caption this image.";
constexpr char kTextQuestion[] = "What is in an image?";
constexpr int32_t kFrameWidth = 640;
constexpr int32_t kFrameHeight = 480;

struct BenchOptions {
  CommonOptions common;
  std::vector<std::string> image_paths;
  std::string output = "md";
  int32_t prompt_tokens = 512;
  int32_t generated_tokens = 128;
  int32_t depth = 0;
  int32_t image_count = 1;
  int32_t batch = 1;
  int32_t repetitions = 5;
};

// The pictures of a prompt: given files in turn, or frames with a pattern, each different.
class Pictures {
 public:
  explicit Pictures(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      largest_pixels_ = std::max(largest_pixels_, probe_image(path).pixels());
      files_.push_back(read_input_file(path));
    }
    if (files_.empty()) {
      largest_pixels_ = int64_t{kFrameWidth} * kFrameHeight;
      pixels_.resize(static_cast<size_t>(largest_pixels_) * 3);
    }
  }

  int64_t largest_pixels() const { return largest_pixels_; }

  std::string describe() const {
    if (!files_.empty()) return format_count(std::ssize(files_), "file");
    return std::to_string(kFrameWidth) + "x" + std::to_string(kFrameHeight) + " RGB frames";
  }

  ocellus_status add(ocellus_session* session, int32_t index) {
    if (!files_.empty()) {
      const std::vector<uint8_t>& bytes = files_[static_cast<size_t>(index) % files_.size()];
      return ocellus_session_add_encoded_image(session, bytes.data(), static_cast<int64_t>(bytes.size()));
    }
    for (size_t i = 0; i < pixels_.size(); ++i) {
      pixels_[i] = static_cast<uint8_t>((i / 97 + i / kFrameWidth + 31 * static_cast<size_t>(index)) & 255);
    }
    const ocellus_frame frame = {.format = OCELLUS_RGB8,
                                 .width = kFrameWidth,
                                 .height = kFrameHeight,
                                 .full_range = 0,
                                 .plane = {pixels_.data(), nullptr},
                                 .stride_bytes = {int64_t{kFrameWidth} * 3, 0}};
    return ocellus_session_add_image(session, &frame);
  }

 private:
  std::vector<std::vector<uint8_t>> files_;
  std::vector<uint8_t> pixels_;
  int64_t largest_pixels_ = 0;
};

using SessionPointer = std::unique_ptr<ocellus_session, decltype(&ocellus_session_close)>;

class Bench {
 public:
  // `copy_bytes_per_s`: of the GPU, 0 on the CPU.
  Bench(const BenchOptions& options, const Model& model, const Running& running, double copy_bytes_per_s,
        Pictures* pictures)
      : options_(options),
        model_(model),
        running_(running),
        copy_bytes_per_s_(copy_bytes_per_s),
        session_(running.session.get()),
        pictures_(pictures) {
    for (int32_t i = 1; i < options.batch; ++i) {
      ocellus_session* session = nullptr;
      check(ocellus_session_open(running.engine.get(), &session));
      more_sessions_.emplace_back(session, &ocellus_session_close);
    }
  }

  BenchReport run() {
    BenchReport report;
    Progress progress(options_.common.quiet, "warming up ...");
    for (int32_t i = -1; i < options_.repetitions; ++i) {
      const bool counts = i >= 0;  // the first round warms up
      if (counts) {
        progress.set("round " + std::to_string(i + 1) + " of " + std::to_string(options_.repetitions) + " ...");
      }
      BenchReport round;
      measure_text(0, &round);
      if (options_.depth > 0) measure_text(options_.depth, &round);
      if (options_.batch > 1) measure_batch(&round);
      measure_pictures(&round);
      measure_text_question(&round);
      if (counts) report.append(round);
      if (counts) continue;
      first_picture_ms_ = picture_ms_;
      heap_bytes_ = heap_in_use();
    }
    add_facts(&report);
    return report;
  }

 private:
  void measure_text(int32_t depth, BenchReport* report) {
    const std::string at_depth = depth > 0 ? " @ d" + std::to_string(depth) : "";
    if (options_.prompt_tokens > 0) {
      start_at(depth);
      const ocellus_generate_stats stats = generate(options_.prompt_tokens, 1);
      report->add("pp" + std::to_string(options_.prompt_tokens) + at_depth, "tokens/s",
                  per_second(options_.prompt_tokens, stats.prefill_ms));
    }
    if (options_.generated_tokens > 0) {
      start_at(depth);
      // The prompt gives the first token; the steps after it are measured.
      const ocellus_generate_stats stats = generate(1, options_.generated_tokens + 1);
      const std::string name = "tg" + std::to_string(options_.generated_tokens) + at_depth;
      report->add(name, "tokens/s", per_second(stats.generated_tokens - 1, stats.decode_ms));
      report->add(name + " token median", "ms", stats.token_median_ms);
      report->add(name + " token p95", "ms", stats.token_p95_ms);
      add_traffic(name, depth, 1, stats.decode_ms / std::max(1, stats.generated_tokens - 1), report);
    }
  }

  // Bytes a step has to read at least, weights and cache, over its time.
  void add_traffic(const std::string& name, int32_t depth, int32_t sessions, double step_ms,
                   BenchReport* report) const {
    if (step_ms <= 0) return;
    const int64_t cache_tokens = int64_t{depth} + options_.generated_tokens / 2;
    const int64_t bytes = model_.facts.step_weight_bytes + sessions * cache_tokens * running_.plan.kv_bytes_per_token;
    const double bytes_per_s = static_cast<double>(bytes) / (step_ms * 1e-3);
    report->add(name + " reads", "GB/s", bytes_per_s * 1e-9);
    if (copy_bytes_per_s_ > 0) report->add(name + " of copy rate", "%", 100.0 * bytes_per_s / copy_bytes_per_s_);
  }

  void measure_batch(BenchReport* report) {
    std::vector<ocellus_session*> sessions = {session_};
    for (const SessionPointer& session : more_sessions_) sessions.push_back(session.get());
    ocellus_generate_params params = generate_params(options_.common);
    params.max_tokens = options_.generated_tokens + 1;
    params.ignore_end = 1;
    const std::vector<ocellus_generate_params> each(sessions.size(), params);
    std::vector<ocellus_generate_stats> stats(sessions.size());
    for (ocellus_session* session : sessions) {
      const int32_t token = next_token();
      check(ocellus_session_reset(session));
      check(ocellus_session_add_tokens(session, &token, 1));
    }
    check(ocellus_batch_generate(sessions.data(), each.data(), stats.data(), options_.batch));
    const std::string name = "tg" + std::to_string(options_.generated_tokens) + " b" + std::to_string(options_.batch);
    const double step_ms = stats[0].decode_ms / std::max(1, stats[0].generated_tokens - 1);
    report->add(name, "tokens/s", step_ms > 0 ? 1000.0 * options_.batch / step_ms : 0);
    add_traffic(name, 0, options_.batch, step_ms, report);
  }

  void measure_pictures(BenchReport* report) {
    if (options_.image_count == 0) return;
    check(ocellus_session_reset(session_));
    check(ocellus_session_begin_turn(session_));
    for (int32_t i = 0; i < options_.image_count; ++i) check(pictures_->add(session_, i));
    check(ocellus_session_add_text(session_, kQuestion, sizeof kQuestion - 1, 0));
    check(ocellus_session_end_turn(session_));
    const ocellus_generate_stats stats = generate(0, 1);
    const std::string count = format_count(options_.image_count, "image");
    const double images = options_.image_count;
    picture_ms_ = (stats.preprocess_ms + stats.encode_ms) / images;
    report->add("image preprocess", "ms", stats.preprocess_ms / images);
    report->add("image encode", "ms", stats.encode_ms / images);
    report->add("image tokens", "tokens", stats.image_tokens / images);
    report->add(count + " prefill", "ms", stats.prefill_ms);
    report->add("TTFT " + count + ", cold", "ms", stats.first_token_ms);
  }

  void measure_text_question(BenchReport* report) {
    check(ocellus_session_reset(session_));
    check(ocellus_session_begin_turn(session_));
    check(ocellus_session_add_text(session_, kTextQuestion, sizeof kTextQuestion - 1, 0));
    check(ocellus_session_end_turn(session_));
    report->add("TTFT text", "ms", generate(0, 1).first_token_ms);
  }

  void add_facts(BenchReport* report) const {
    const ocellus_engine_stats engine = running_.engine_stats();
    if (options_.image_count > 0) report->add("first image preprocess + encode", "ms", first_picture_ms_);
    report->add("load", "ms", engine.load_ms);
    report->add("arena", "MiB", mebibytes(engine.arena_bytes));
    report->add("peak RSS of the process", "MiB", mebibytes(peak_resident_bytes()));
    report->add("cache per image", "MiB", mebibytes(running_.plan.kv_bytes_per_image));
    report->add("heap growth while measuring", "bytes", static_cast<double>(heap_in_use() - heap_bytes_));
    if (copy_bytes_per_s_ <= 0) return;
    report->add("copy rate", "GB/s", copy_bytes_per_s_ * 1e-9);
    report->add("pinned host memory", "MiB", mebibytes(running_.plan.staging_bytes));
    report->add("outside the arena", "MiB", mebibytes(engine.outside_bytes));
    report->add("growth outside the arena while measuring", "MiB",
                mebibytes(engine.outside_bytes_now - engine.outside_bytes));
  }

  // An empty session, or one with `depth` tokens in its cache.
  void start_at(int32_t depth) {
    check(ocellus_session_reset(session_));
    if (depth > 0) generate(depth, 1);
  }

  // Adds `random_tokens` and generates exactly `token_count`.
  ocellus_generate_stats generate(int32_t random_tokens, int32_t token_count) {
    std::vector<int32_t> tokens(static_cast<size_t>(random_tokens));
    for (int32_t& token : tokens) token = next_token();
    if (random_tokens > 0) check(ocellus_session_add_tokens(session_, tokens.data(), random_tokens));
    ocellus_generate_params params = generate_params(options_.common);
    params.max_tokens = token_count;
    params.ignore_end = 1;
    ocellus_generate_stats stats;
    check(ocellus_session_generate(session_, &params, &stats));
    return stats;
  }

  // Numerical Recipes' generator: the same tokens in every run.
  int32_t next_token() {
    random_ = random_ * 1664525u + 1013904223u;
    return static_cast<int32_t>((random_ >> 8) % static_cast<uint32_t>(model_.facts.vocabulary_size));
  }

  static int64_t heap_in_use() { return static_cast<int64_t>(::mallinfo2().uordblks); }

  static double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

  static double per_second(int32_t count, double milliseconds) {
    return milliseconds > 0 ? 1000.0 * count / milliseconds : 0;
  }

  const BenchOptions& options_;
  const Model& model_;
  const Running& running_;
  double copy_bytes_per_s_;
  ocellus_session* session_;
  std::vector<SessionPointer> more_sessions_;
  Pictures* pictures_;
  uint32_t random_ = 1;
  double picture_ms_ = 0;
  double first_picture_ms_ = 0;
  int64_t heap_bytes_ = 0;  // after the warm-up
};

int run_bench(const BenchOptions& options) {
  const Model model = open_model(options.common);
  BenchOptions fitted = options;
  fitted.image_count = model.facts.has_vision ? options.common.images.value_or(1) : 0;
  Pictures pictures(options.image_paths);
  std::vector<PromptPart> question(1);
  question[0].text = kQuestion;
  const int64_t text_rows =
      int64_t{options.depth} + 1 + std::max<int64_t>(options.prompt_tokens + 1, options.generated_tokens + 2);
  const Needs needs = {.images = fitted.image_count,
                       .prompt_tokens = std::max(text_rows, count_text_tokens(model.get(), question) + 1),
                       .image_pixels = pictures.largest_pixels()};
  // Before the engine takes the memory: the copy that is measured needs some, too.
  ocellus_gpu_facts gpu = {};
  const bool on_gpu = runs_on_gpu(options.common);
  if (on_gpu) check(ocellus_probe_gpu(options.common.device_index, &gpu));
  fitted.common.sessions = std::max(options.batch, options.common.sessions.value_or(1));
  const Running running = start(model, fitted.common, needs);
  BenchReport report = Bench(fitted, model, running, gpu.copy_bytes_per_s, &pictures).run();
  report.set_heading({{"model", model.facts.name},
                      {"weights", model.facts.weight_format},
                      {"parameters", model.facts.parameter_count},
                      {"device", on_gpu ? std::string(gpu.name) : processor_name()},
                      {"threads", options.common.threads > 0 ? options.common.threads : usable_cores()},
                      {"pictures", fitted.image_count > 0 ? pictures.describe() : "none"},
                      {"repetitions", options.repetitions},
                      {"version", ocellus_version()}});
  const std::string format = options.common.json ? "json" : options.output;
  print(format == "json" ? report.json() : format == "csv" ? report.csv() : report.markdown());
  return kExitOk;
}

}  // namespace

void add_bench_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* command = program->add_subcommand("bench", "Speed and memory");
  const auto count = [command](const char* name, int32_t* value, const char* help, int32_t low) {
    command->add_option(name, *value, help)->option_text("N")->check(number_between(low, 1000000));
  };
  command->add_option("IMAGE", options->image_paths, "Pictures to look at (default: generated frames)")
      ->option_text("...");
  count("-p", &options->prompt_tokens, "Tokens of the prompt row; 0: none (default: 512)", 0);
  count("-n", &options->generated_tokens, "Tokens of the generation row; 0: none (default: 128)", 0);
  count("-d", &options->depth, "Also measure with so many tokens in the cache (default: 0)", 0);
  count("-b", &options->batch, "Also generate for so many sessions together (default: 1)", 1);
  count("-r", &options->repetitions, "Rounds after the warm-up (default: 5)", 1);
  command->add_option("--output", options->output, "Format of the table (default: md)")
      ->option_text("md|csv|json")
      ->check(CLI::IsMember({"md", "csv", "json"}));
  add_common_options(command, &options->common, AnswerLength::kOwnFlag);
  add_shape_options(command, &options->common);
  command->callback([=] { *action = [=] { return run_bench(*options); }; });
}

}  // namespace ocellus
