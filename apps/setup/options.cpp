#include "apps/setup/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "apps/base/failure.h"
#include "apps/base/number_validator.h"
#include "apps/base/plain_text.h"
#include "apps/base/sizes.h"
#include "apps/base/terminal.h"
#include "apps/base/value_flags.h"
#include "apps/setup/known_models.h"

namespace ocellus::app {
namespace {

constexpr int32_t kMaxCount = 1000000;
constexpr int32_t kMaxThreads = 256;  // the library's limit

void set_device(CommonOptions* options, const std::string& device) {
  constexpr std::string_view kCuda = "cuda";
  if (device == "auto" || device == "cpu") {
    options->limits.device = device == "cpu" ? OCELLUS_DEVICE_CPU : OCELLUS_DEVICE_AUTO;
    return;
  }
  const std::string index = device.rfind(kCuda, 0) == 0 ? device.substr(kCuda.size()) : "?";
  const bool is_number = index.size() > 1 && index.size() < 5 && index[0] == ':' &&
                         std::all_of(index.begin() + 1, index.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!index.empty() && !is_number) {
    throw Failure(kExitUsage, "--device " + device + ": the devices are auto, cpu, cuda and cuda:N.");
  }
  if (!built_with_cuda()) {
    throw Failure(kExitUsage, "--device " + device + ": this build has no CUDA; use --device cpu.");
  }
  options->limits.device = OCELLUS_DEVICE_CUDA;
  options->limits.device_index = index.empty() ? 0 : std::atoi(index.c_str() + 1);
  const int32_t count = gpu_count();
  if (options->limits.device_index >= count) {
    throw Failure(kExitUsage, "--device " + device + ": this machine has " + format_count(count, "CUDA device") + ".");
  }
}

// Names in the order of ocellus_gpu_memory.
void set_gpu_memory(CommonOptions* options, const std::string& name) {
  options->limits.gpu_memory =
      number_of("--gpu-memory", name, {"auto", "device", "shared", "mapped"}, "auto, device, shared or mapped");
}

void set_cpu_math(CommonOptions* options, const std::string& name) {
  options->limits.cpu_math = number_of("--cpu-math", name, {"f16", "bf16"}, "f16 or bf16");
}

void set_logit_bias(CommonOptions* options, const std::vector<std::string>& biases) {
  for (const std::string& text : biases) {
    ocellus_logit_bias bias{};
    const char* const end = text.data() + text.size();
    const auto token = std::from_chars(text.data(), end, bias.token);
    const bool has_token = token.ec == std::errc() && token.ptr != end && *token.ptr == '=';
    const auto value = std::from_chars(has_token ? token.ptr + 1 : end, end, bias.bias);
    if (!has_token || value.ec != std::errc() || value.ptr != end)
      throw Failure(kExitUsage, "--logit-bias " + text + ": write the id of a token and a number, as in 42=-1.5.");
    options->logit_bias.push_back(bias);
  }
}

void set_budget(CommonOptions* options, const std::string& size) {
  options->budget_bytes = parse_bytes(size);
  if (!options->budget_bytes) {
    throw Failure(kExitUsage, "--budget " + size + ": write a whole number of bytes or one with a unit, as in 512M, " +
                                  "2G (powers of 1024) or 44MB (powers of 1000); below 2^63 bytes.");
  }
}

void add_pixels_flag(CLI::App* command, const std::string& name, std::optional<int64_t>* pixels,
                     const std::string& help) {
  const auto set = [=](const std::string& text) {
    *pixels = parse_pixels(text);
    if (!*pixels)
      throw Failure(kExitUsage,
                    name + " " + text + ": write WIDTHxHEIGHT, as in 1920x1080, or a pixel count; below 2^31 pixels.");
  };
  add_parsed(command, "Memory", name, "SIZE", set, help);
}

void add_model_flags(CLI::App* command, CommonOptions* options) {
  const auto model =
      add_value(command, "Model", "-m,--model", "FILE", &options->model.path,
                "Text model, a GGUF file (default: the bundled one). Give the first file of a split model");
  add_value(command, "Model", "--mmproj", "FILE", &options->model.mmproj_path, "Its vision part, a GGUF file")
      ->needs(model);
  const auto hub = add_value(command, "Model", "--hf-repo", "NAME", &options->model.hub_name,
                             "Model by name (also -hf): OWNER/NAME[:QUANT] at the hub, or one of `ocellus models "
                             "--published`. It is fetched where the cache has not got it")
                       ->type_name(list_known_models(KnownModels::kPublished))
                       ->excludes(model);
  command->add_flag("--offline", options->model.offline, "Fetch nothing: the model comes out of the cache")
      ->needs(hub)
      ->group("Model");
  add_parsed(
      command, "Model", "--device", "auto|cpu|cuda:N",
      [options](const std::string& device) { set_device(options, device); },
      "Device (default: auto, a GPU if there is one)");
  add_value(command, "Model", "--threads", "N", &options->limits.thread_count, "CPU threads (default: one per core)")
      ->check(number_between(0, kMaxThreads));
  add_parsed(
      command, "Model", "--cpu-math", "f16|bf16", [options](const std::string& name) { set_cpu_math(options, name); },
      "Arithmetic with F16 weights on a CPU (default: f16). bf16 rounds them, where the CPU is faster that way");
}

void add_shape_flags(CLI::App* command, CommonOptions* options) {
  const auto shape =
      add_value(command, "Model", "--shape", "NAME", &options->model.shape,
                "Random weights in the shape of a public model. For example SmolVLM-256M; an unknown name lists all")
          ->type_name(list_known_models(KnownModels::kAll))
          ->excludes("--model")
          ->excludes("--hf-repo");
  add_value(command, "Model", "--format", "NAME", &options->model.shape_format,
            "Weight format of --shape (default: Q8_0). F16, Q4_K_M and others, mixed as llama.cpp mixes them; an "
            "unknown name lists all")
      ->needs(shape);
}

void add_depth_flag(CLI::App* command, CommonOptions* options) {
  add_parsed(
      command, "Memory", "--depth-range", "NEAR..FAR",
      [options](const std::string& text) { options->pictures.depth = parse_depth_range(text); },
      "Range of depths in 16-bit grey pictures, as 300..5000 (default: no depth). NEAR becomes white, FAR and no "
      "reading (0) black; without it the upper eight bits are shown");
}

void add_picture_size_flags(CLI::App* command, CommonOptions* options) {
  add_pixels_flag(command, "--image-pixels", &options->pictures.pixels,
                  "Largest picture, WIDTHxHEIGHT or a pixel count");
  add_value(command, "Memory", "--image-side", "N", &options->pictures.side,
            "Longest side of a picture, at most 65500 (default: that of the pictures, 8192 or more)")
      ->check(number_between(1, 65500));
  add_pixels_flag(
      command, "--whole-pixels", &options->pictures.whole_pixels,
      "Largest picture that must be decoded as a whole. These are progressive JPEG, interlaced PNG and WebP");
}

void add_memory_flags(CLI::App* command, CommonOptions* options) {
  const auto add = [command](const char* name, auto* value, const char* help, double low, double high) {
    add_value(command, "Memory", name, "N", value, help)->check(number_between(low, high));
  };
  add_parsed(
      command, "Memory", "--budget", "SIZE", [options](const std::string& size) { set_budget(options, size); },
      "Maximum memory: 512M, 2G (1024) or 44MB (1000)");
  add("--sessions", &options->sessions, "Number of sessions (default: 1; serve 4)", 1, 1024);
  add("--images", &options->images, "Maximum pictures in a conversation", 0, kMaxCount);
  add("--text-tokens", &options->text_tokens,
      "Maximum text tokens in a conversation. They include answers and thoughts", 1, kMaxCount);
  add("--image-tiles", &options->limits.max_tiles,
      "Maximum tiles of a picture, besides its overview (default: by the model)", 1, 256);
  add("--image-rows", &options->limits.max_image_rows,
      "Maximum tokens of a picture in models that take any size (default: 1280, or by the model). Larger ones are "
      "reduced",
      1, 65536);
  add("--prompt-rows", &options->limits.max_prompt_rows, "Prompt tokens processed at once (default: all)", 1,
      kMaxCount);
  add_picture_size_flags(command, options);
  add_depth_flag(command, options);
  add_parsed(
      command, "Memory", "--gpu-memory", "auto|device|shared|mapped",
      [options](const std::string& name) { set_gpu_memory(options, name); },
      "Where a GPU reads its inputs (default: auto, shared on a Jetson). device: in its own memory, shared: pictures "
      "and tokens in the host's, mapped: the weights there as well");
  command
      ->add_flag_callback(
          "--lean", [options] { options->limits.lean = 1; }, "Less scratch memory, at lower speed")
      ->group("Memory");
  command
      ->add_flag_callback(
          "--batch-invariant", [options] { options->limits.batch_invariant = 1; },
          "Bit-identical answers for any batch, at lower speed. In serve also for any part of a prompt that is reused")
      ->group("Memory");
}

void add_sampling_flags(CLI::App* command, CommonOptions* options) {
  const auto add = [command](const char* name, auto* value, const char* help, double low, double high) {
    add_value(command, "Sampling", name, std::is_integral_v<std::remove_pointer_t<decltype(value)>> ? "N" : "X", value,
              help)
        ->check(number_between(low, high));
  };
  add("--temp", &options->params.temperature, "Temperature (default: 0, greedy)", 0, 100);
  add("--top-k", &options->params.top_k, "Top-k sampling (default: 0, off)", 0, kMaxCount);
  add("--top-p", &options->params.top_p, "Nucleus sampling with mass P (default: 1, off)", 0, 1);
  add("--min-p", &options->params.min_p, "Minimum probability, as a fraction of the maximum (default: 0, off)", 0, 1);
  add("--typical-p", &options->params.typical_p, "Locally typical sampling with mass P, after top-k (default: 1, off)",
      1e-6, 1);
  add("--top-n-sigma", &options->params.top_n_sigma,
      "Discard logits N standard deviations below the maximum, before top-k (default: 0, off)", 0, 1000);
  add("--repeat-penalty", &options->params.repetition_penalty,
      "Repetition penalty (default: 1, off). All penalties look at the last 64 tokens", 0.1, 100);
  add("--frequency-penalty", &options->params.frequency_penalty,
      "Penalty for each occurrence of a token (default: 0, off)", -100, 100);
  add("--presence-penalty", &options->params.presence_penalty,
      "Penalty for tokens that have occurred (default: 0, off)", -100, 100);
  add("--dry-multiplier", &options->params.dry_multiplier,
      "DRY: penalty for continuing a repeated sequence, without sequence breakers (default: 0, off)", 0, 100);
  add("--dry-base", &options->params.dry_base, "DRY: growth of the penalty per token of the repeat (default: 1.75)", 1,
      100);
  add("--dry-allowed-length", &options->params.dry_length, "DRY: longest repeat that is not penalised (default: 2)", 1,
      64);
  command
      ->add_option_function<std::vector<std::string>>(
          "--logit-bias", [options](const std::vector<std::string>& biases) { set_logit_bias(options, biases); },
          "Add X to the logit of a token, given by its id. May be repeated")
      ->option_text("TOKEN=X")
      ->allow_extra_args(false)
      ->group("Sampling");
  add_value(command, "Sampling", "--seed", "N", &options->params.seed, "Seed of the sampler (default: 0)")
      ->check(whole_number());
}

void add_length_flag(CLI::App* command, CommonOptions* options) {
  add_value(command, "Answers", "-n", "N", &options->params.max_tokens, "Maximum tokens of an answer (default: 128)")
      ->check(number_between(1, kMaxCount));
}

void add_thought_flag(CLI::App* command, CommonOptions* options) {
  options->params.max_thought_tokens = -1;
  add_value(command, "Answers", "--think-tokens", "N", &options->params.max_thought_tokens,
            "Maximum tokens of thoughts, besides the answer's. They are planned in addition; 0: no thoughts (default: "
            "1024 if the chat template opens a thought, else 0); fewer where the answer would have no room")
      ->check(number_between(0, kMaxCount));
}

void add_output_flags(CLI::App* command, CommonOptions* options) {
  command->add_flag("--json", options->json, "JSON on stdout, one object per answer")->group("Output");
  command->add_flag("--quiet", options->quiet, "No progress and no remarks on stderr")->group("Output");
  add_parsed(
      command, "Output", "--trace", "FILE",
      [options](const std::string& path) { options->trace = std::make_shared<TraceFile>(path, print_note); },
      "Write a timeline for chrome://tracing and Perfetto");
}

void add_plot_flag(CLI::App* command, CommonOptions* options) {
  add_value(command, "Output", "--plot", "FILE", &options->plot_path,
            "Draw the results as charts in an SVG file, for browsers and reports");
}

void add_show_thoughts_flag(CLI::App* command, CommonOptions* options) {
  command->add_flag("--show-thoughts", options->shows_thoughts, "Print thoughts on stderr. --json always has them")
      ->group("Output");
}

void add_number_flag(CLI::App* command, CommonOptions* options) {
  command
      ->add_flag("--number-images", options->numbers_images,
                 "Number the pictures in the prompt. \"Picture 1: \", \"Image-1: \" or \"Image 1: \", by the model's "
                 "family")
      ->group("Prompt");
}

// Flags that are defined together, and the commands that have them.
struct FlagSet {
  void (*add)(CLI::App* command, CommonOptions* options);
  std::string_view commands;
};

// All commands that run or plan a model.
constexpr std::string_view kAll = "caption ask chat watch serve plan eval perplexity calibrate bench add search";
// Commands that sample tokens, and commands whose -n is the length of an answer. `library add` writes captions
// greedily.
constexpr std::string_view kSampling = "caption ask chat watch serve plan eval calibrate bench";
constexpr std::string_view kAnswering = "caption ask chat watch serve plan eval calibrate add";

// Adds the flags of one part of the options.
template <auto kPart, auto kAdd>
void add_part(CLI::App* command, CommonOptions* options) {
  kAdd(command, &(options->*kPart));
}

constexpr FlagSet kFlagSets[] = {
    {add_number_flag, "caption ask chat"},
    {add_length_flag, kAnswering},
    {add_part<&CommonOptions::constrain, add_constraint_flags>, "caption ask chat watch plan bench"},
    {add_part<&CommonOptions::constrain, add_constraint_size_flag>, "caption ask chat watch serve plan bench"},
    {add_thought_flag, "caption ask chat watch serve plan"},
    {add_part<&CommonOptions::draft, add_draft_flags>, "caption ask chat watch serve plan eval calibrate bench add"},
    {add_sampling_flags, kSampling},
    {add_output_flags, kAll},
    {add_plot_flag, "plan eval calibrate bench"},
    {add_show_thoughts_flag, "caption ask chat"},
    {add_model_flags, kAll},
    {add_shape_flags, "caption serve plan bench"},
    {add_memory_flags, kAll},
    {add_part<&CommonOptions::pack, add_bits_flags>,
     "caption ask chat watch serve plan eval perplexity bench add search"},
    {add_part<&CommonOptions::evict, add_evict_flags>, kAll},
    {add_part<&CommonOptions::reduce, add_reduce_flags>, kAll},
    {add_part<&CommonOptions::pack, add_scheme_flag>, kAll},
    {add_part<&CommonOptions::evict, add_compress_flag>, kAll},
    {add_part<&CommonOptions::reuse, add_reuse_flags>, kAll},
    {add_part<&CommonOptions::library, add_library_flags>, kAll},
    {add_part<&CommonOptions::reuse, add_kept_view_flags>, "watch plan"},
    {add_part<&CommonOptions::real_time, add_real_time_flags>, kAll},
};

}  // namespace

int32_t number_of(const std::string& flag, const std::string& name, std::initializer_list<std::string_view> words,
                  const std::string& sentence) {
  const auto found = std::find(words.begin(), words.end(), name);
  if (found == words.end()) throw Failure(kExitUsage, flag + " " + name + ": it is " + sentence + ".");
  return static_cast<int32_t>(found - words.begin());
}

void add_shared_flags(CLI::App* command, CommonOptions* options) {
  for (const FlagSet& set : kFlagSets) {
    if (lists_word(set.commands, command->get_name())) set.add(command, options);
  }
}

ocellus_generate_params generate_params(const CommonOptions& options) {
  ocellus_generate_params params = options.params;
  params.logit_bias = options.logit_bias.data();
  params.logit_bias_count = static_cast<int32_t>(options.logit_bias.size());
  params.top_logprobs = options.top_logprobs.value_or(0);
  params.draft = options.draft.params();
  params.constraint = options.constrain.params();
  return params;
}

}  // namespace ocellus::app
