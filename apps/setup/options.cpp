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
#include "apps/base/sizes.h"
#include "apps/base/terminal.h"

namespace ocellus::app {
namespace {

constexpr int32_t kMaxCount = 1000000;
constexpr int32_t kMaxThreads = 256;  // the library's limit

void set_device(CommonOptions* options, const std::string& device) {
  constexpr std::string_view kCuda = "cuda";
  if (device == "auto" || device == "cpu") {
    options->device = device == "cpu" ? OCELLUS_DEVICE_CPU : OCELLUS_DEVICE_AUTO;
    return;
  }
  const std::string index = device.rfind(kCuda, 0) == 0 ? device.substr(kCuda.size()) : "?";
  const bool is_number = index.size() > 1 && index.size() < 5 && index[0] == ':' &&
                         std::all_of(index.begin() + 1, index.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!index.empty() && !is_number) {
    throw Failure(kExitUsage, "--device " + device + ": the devices are auto, cpu, cuda and cuda:N.");
  }
  if (ocellus_built_with_cuda() == 0) {
    throw Failure(kExitUsage, "--device " + device + ": this build has no CUDA; use --device cpu.");
  }
  options->device = OCELLUS_DEVICE_CUDA;
  options->device_index = index.empty() ? 0 : std::atoi(index.c_str() + 1);
  const int32_t count = ocellus_gpu_count();
  if (options->device_index >= count) {
    throw Failure(kExitUsage, "--device " + device + ": this machine has " + format_count(count, "CUDA device") + ".");
  }
}

// Names in the order of ocellus_gpu_memory.
void set_gpu_memory(CommonOptions* options, const std::string& name) {
  options->gpu_memory =
      number_of("--gpu-memory", name, {"auto", "device", "shared", "mapped"}, "auto, device, shared or mapped");
}

void set_cpu_math(CommonOptions* options, const std::string& name) {
  options->cpu_math = number_of("--cpu-math", name, {"f16", "bf16"}, "f16 or bf16");
}

void set_draft(CommonOptions* options, const std::string& name) {
  options->draft = static_cast<ocellus_draft>(
      number_of("--draft", name, {"auto", "off", "last", "lookup"}, "auto, last, lookup or off"));
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

void add_pixels_option(CLI::App* command, const std::string& name, std::optional<int64_t>* pixels,
                       const std::string& help, const std::string& group) {
  const auto set = [=](const std::string& text) {
    *pixels = parse_pixels(text);
    if (!*pixels)
      throw Failure(kExitUsage,
                    name + " " + text + ": write WIDTHxHEIGHT, as in 1920x1080, or a pixel count; below 2^31 pixels.");
  };
  command->add_option_function<std::string>(name, set, help)->option_text("SIZE")->group(group);
}

void add_model_options(CLI::App* command, CommonOptions* options) {
  const auto model = command
                         ->add_option("-m,--model", options->model_path,
                                      "Text model, a GGUF file or the first of a split one (default: the bundled pair)")
                         ->option_text("FILE")
                         ->group("Model");
  command->add_option("--mmproj", options->mmproj_path, "Its vision part, a GGUF file")
      ->option_text("FILE")
      ->needs(model)
      ->group("Model");
  command
      ->add_option_function<std::string>(
          "--device", [options](const std::string& device) { set_device(options, device); }, "Device to run on")
      ->option_text("auto|cpu|cuda:N")
      ->group("Model");
  command->add_option("--threads", options->threads, "Threads (default: one per core)")
      ->option_text("N")
      ->check(number_between(0, kMaxThreads))
      ->group("Model");
  command
      ->add_option_function<std::string>(
          "--cpu-math", [options](const std::string& name) { set_cpu_math(options, name); },
          "How a CPU multiplies F16 weights: as exactly as F16 (default), or rounded to bf16 where that is faster")
      ->option_text("f16|bf16")
      ->group("Model");
}

void add_depth_option(CLI::App* command, CommonOptions* options, const std::string& group) {
  command
      ->add_option_function<std::string>(
          "--depth-range", [options](const std::string& text) { options->depth = parse_depth_range(text); },
          "Pictures and frames of 16-bit grey are depth: show NEAR as white, FAR and no reading (0) as black; in their "
          "units, as 300..5000 (default: no depth, the upper eight bits)")
      ->option_text("NEAR..FAR")
      ->group(group);
}

void add_picture_size_options(CLI::App* command, CommonOptions* options, const std::string& group) {
  add_pixels_option(command, "--image-pixels", &options->image_pixels, "Largest picture, WIDTHxHEIGHT or a pixel count",
                    group);
  command
      ->add_option("--image-side", options->image_side,
                   "Longest side of a picture (default: the pictures', 8192 or more), 65500 at most")
      ->option_text("N")
      ->check(number_between(1, 65500))
      ->group(group);
  add_pixels_option(command, "--whole-pixels", &options->whole_pixels,
                    "Largest picture that must be decoded as a whole: progressive JPEG, interlaced PNG, WebP", group);
}

void add_memory_options(CLI::App* command, CommonOptions* options) {
  const std::string group = "Memory (limits that the engine is planned for)";
  command
      ->add_option_function<std::string>(
          "--budget", [options](const std::string& size) { set_budget(options, size); },
          "Maximum bytes to use: K M G (1024), KB MB GB (1000), or bytes")
      ->option_text("SIZE")
      ->group(group);
  command
      ->add_option("--image-tiles", options->image_tiles,
                   "Maximum tiles of a picture, besides its overview (default: by the model)")
      ->option_text("N")
      ->check(number_between(1, 256))
      ->group(group);
  command
      ->add_option("--image-rows", options->image_rows,
                   "Maximum rows of a picture in models that take any size; larger ones are reduced (default: 1280)")
      ->option_text("N")
      ->check(number_between(1, 65536))
      ->group(group);
  command->add_option("--sessions", options->sessions, "Number of sessions")
      ->option_text("N")
      ->check(number_between(1, 1024))
      ->group(group);
  command->add_option("--images", options->images, "Maximum pictures in a conversation")
      ->option_text("N")
      ->check(number_between(0, kMaxCount))
      ->group(group);
  command
      ->add_option("--text-tokens", options->text_tokens,
                   "Maximum text tokens in a conversation, answers and thoughts included")
      ->option_text("N")
      ->check(number_between(1, kMaxCount))
      ->group(group);
  command->add_option("--prompt-rows", options->prompt_rows, "Prompt rows processed at once (default: all)")
      ->option_text("N")
      ->check(number_between(1, kMaxCount))
      ->group(group);
  add_picture_size_options(command, options, group);
  add_depth_option(command, options, group);
  command
      ->add_option_function<std::string>(
          "--gpu-memory", [options](const std::string& name) { set_gpu_memory(options, name); },
          "What a GPU gets from the host is copied to its memory, or read in the host's (shared), the weights too "
          "(mapped); auto: shared on a Jetson")
      ->option_text("auto|device|shared|mapped")
      ->group(group);
  command->add_flag("--lean", options->lean, "Use less scratch memory, at lower speed")->group(group);
  command
      ->add_flag(
          "--batch-invariant", options->batch_invariant,
          "The same answer, bit by bit, whatever is decoded beside it, and in serve whatever was read before, at "
          "lower speed")
      ->group(group);
}

void add_sampling_options(CLI::App* command, CommonOptions* options, AnswerLength answer_length) {
  const auto add = [command](const char* name, auto* value, const char* help, double low, double high) {
    command->add_option(name, *value, help)
        ->option_text(std::is_integral_v<std::remove_pointer_t<decltype(value)>> ? "N" : "X")
        ->check(number_between(low, high))
        ->group("Answers");
  };
  if (answer_length == AnswerLength::kCommonFlag) {
    add("-n", &options->answer_tokens, "Maximum tokens of an answer (default: 128)", 1, kMaxCount);
  }
  add("--temp", &options->temperature, "Temperature; 0: greedy (default: 0)", 0, 100);
  add("--top-k", &options->top_k, "Sample from the K most probable tokens; 0: off", 0, kMaxCount);
  add("--top-p", &options->top_p, "Sample from the most probable tokens that make up P; 1: off", 0, 1);
  add("--min-p", &options->min_p, "Drop tokens less probable than P times the maximum; 0: off", 0, 1);
  add("--typical-p", &options->typical_p,
      "Sample from the tokens of most usual surprise that make up P, after top-k; 1: off", 1e-6, 1);
  add("--top-n-sigma", &options->top_n_sigma,
      "Drop logits more than N standard deviations below the largest, before top-k; 0: off", 0, 1000);
  add("--repeat-penalty", &options->repeat_penalty,
      "Repetition penalty; 1: off. This and the others are of the newest 64 tokens", 0.1, 100);
  add("--frequency-penalty", &options->frequency_penalty, "Penalty for every time that a token occurs; 0: off", -100,
      100);
  add("--presence-penalty", &options->presence_penalty, "Penalty for tokens that occur; 0: off", -100, 100);
  add("--dry-multiplier", &options->dry_multiplier,
      "Penalty for tokens that continue a repeat (DRY, without sequence breakers); 0: off", 0, 100);
  add("--dry-base", &options->dry_base, "It grows by this factor with every token of the repeat (default: 1.75)", 1,
      100);
  add("--dry-allowed-length", &options->dry_length, "From this length on (default: 2)", 1, 64);
  command
      ->add_option_function<std::vector<std::string>>(
          "--logit-bias", [options](const std::vector<std::string>& biases) { set_logit_bias(options, biases); },
          "Add X to the logit of a token, by its id; may be repeated")
      ->option_text("TOKEN=X")
      ->allow_extra_args(false)
      ->group("Answers");
  command->add_option("--seed", options->seed, "Seed of the sampler (default: 0)")
      ->option_text("N")
      ->check(whole_number())
      ->group("Answers");
  command
      ->add_option_function<std::string>(
          "--draft", [options](const std::string& name) { set_draft(options, name); },
          "Guess what an answer goes on with, and read that at once: the last answer to the same prompt, what followed "
          "the same words before, or both as far as it pays (auto). Answers stay the same")
      ->option_text("auto|last|lookup|off")
      ->group("Answers");
  command
      ->add_option("--draft-rows", options->draft_rows,
                   "Maximum tokens that are read at once, the newest and guessed ones (default: 7)")
      ->option_text("N")
      ->check(number_between(2, 16))
      ->group("Answers");
}

}  // namespace

int32_t number_of(const std::string& flag, const std::string& name, std::initializer_list<std::string_view> words,
                  const std::string& sentence) {
  const auto found = std::find(words.begin(), words.end(), name);
  if (found == words.end()) throw Failure(kExitUsage, flag + " " + name + ": it is " + sentence + ".");
  return static_cast<int32_t>(found - words.begin());
}

void add_common_options(CLI::App* command, CommonOptions* options, AnswerLength answer_length, CacheFlags cache_flags) {
  add_model_options(command, options);
  add_memory_options(command, options);
  add_real_time_options(command, &options->real_time);
  add_cache_options(command, &options->cache, cache_flags);
  add_sampling_options(command, options, answer_length);
  command->add_flag("--json", options->json, "One JSON object per answer on stdout")->group("Output");
  command->add_flag("--quiet", options->quiet, "No progress and no remarks on stderr")->group("Output");
  command
      ->add_option_function<std::string>(
          "--trace",
          [options](const std::string& path) { options->trace = std::make_shared<TraceFile>(path, print_note); },
          "Write a timeline to FILE, for chrome://tracing and Perfetto")
      ->option_text("FILE")
      ->group("Output");
}

void add_shape_options(CLI::App* command, CommonOptions* options) {
  const auto shape = command
                         ->add_option("--shape", options->shape,
                                      "Shape of a public model, as SmolVLM-256M, with random weights instead of files; "
                                      "an unknown name lists all")
                         ->option_text("NAME")
                         ->excludes("--model")
                         ->group("Model");
  command
      ->add_option(
          "--format", options->shape_format,
          "Type of its files, as F16 or Q4_K_M (default: Q8_0), mixed as llama.cpp does; an unknown name lists all")
      ->option_text("NAME")
      ->needs(shape)
      ->group("Model");
}

void add_thought_options(CLI::App* command, CommonOptions* options) {
  options->thought_tokens = -1;
  command
      ->add_option(
          "--think-tokens", options->thought_tokens,
          "Maximum tokens that a thinking model thinks before an answer, planned in addition; 0: none (default: 1024 "
          "if its chat template opens a thought, else 0); fewer where the answer would have no room")
      ->option_text("N")
      ->check(number_between(0, kMaxCount))
      ->group("Answers");
}

void add_kept_view_options(CLI::App* command, CommonOptions* options) {
  command
      ->add_option("--kept-views", options->kept_views,
                   "Views of pictures that are not encoded again while their pixels stay the same; 0: none (default: "
                   "those of all pictures in a prompt, if the budget has room, else of one)")
      ->option_text("N")
      ->check(number_between(0, OCELLUS_MOST_KEPT_VIEWS))
      ->group("Memory");
  command
      ->add_option(
          "--view-change", options->view_change,
          "For cameras with noise: nor while no patch's mean brightness differs from the encoded view's by more "
          "than this share, 0 to 1 (default: 0)")
      ->option_text("X")
      ->check(number_between(0, 1))
      ->group("Memory");
}

void add_show_thoughts_option(CLI::App* command, CommonOptions* options) {
  command->add_flag("--show-thoughts", options->shows_thoughts, "Print thoughts on stderr (--json has them anyway)")
      ->group("Output");
}

void add_number_option(CLI::App* command, CommonOptions* options) {
  command->add_flag(
      "--number-images", options->numbers_images,
      "Number the pictures in the prompt: \"Picture 1: \", \"Image-1: \" or \"Image 1: \", by the model's "
      "family");
}

ocellus_generate_params generate_params(const CommonOptions& options) {
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.max_tokens = options.answer_tokens;
  params.max_thought_tokens = options.thought_tokens;
  params.temperature = options.temperature;
  params.top_k = options.top_k;
  params.top_p = options.top_p;
  params.min_p = options.min_p;
  params.typical_p = options.typical_p;
  params.top_n_sigma = options.top_n_sigma;
  params.repetition_penalty = options.repeat_penalty;
  params.frequency_penalty = options.frequency_penalty;
  params.presence_penalty = options.presence_penalty;
  params.dry_multiplier = options.dry_multiplier;
  params.dry_base = options.dry_base;
  params.dry_length = options.dry_length;
  params.logit_bias = options.logit_bias.data();
  params.logit_bias_count = static_cast<int32_t>(options.logit_bias.size());
  params.seed = options.seed;
  params.top_logprobs = options.top_logprobs.value_or(0);
  params.draft = options.draft.value_or(OCELLUS_DRAFT_AUTO);
  params.constraint = options.constraint != nullptr ? options.constraint->compiled : nullptr;
  return params;
}

}  // namespace ocellus::app
