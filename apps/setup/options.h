// Flags that commands share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/camera/depth_range.h"
#include "apps/setup/cache_options.h"
#include "apps/setup/constraint_options.h"
#include "apps/setup/real_time.h"
#include "apps/setup/trace_file.h"
#include "runtime/ocellus.h"

namespace CLI {
class App;
}

namespace ocellus::app {

struct CommonOptions {
  std::string model_path;  // empty: the bundled pair
  std::string mmproj_path;
  std::string
      hub_name;  // a pair by the name of its repository, or by one of `ocellus models --published`; empty: files
  bool offline = false;  // only out of the cache
  std::string shape;     // a model without files; empty: use files
  std::string shape_format = "Q8_0";
  ocellus_device device = OCELLUS_DEVICE_AUTO;
  int32_t device_index = 0;
  std::optional<int64_t> budget_bytes;
  std::optional<int32_t> sessions;
  std::optional<int32_t> images;
  std::optional<int32_t> text_tokens;
  std::optional<int64_t> image_pixels;
  std::optional<int32_t> image_side;    // longest side of a picture
  std::optional<int64_t> whole_pixels;  // maximum size of a picture that is not decoded row by row
  int32_t image_tiles = 0;              // 0: the model's choice
  int32_t image_rows = 0;               // 0: the usual number
  DepthRange depth;                     // depths that 16-bit grey shows
  int32_t prompt_rows = 0;              // 0: the library's choice
  int32_t synthetic_tokens = 0;         // replaces pictures; no common flag
  int32_t threads = 0;
  int32_t gpu_memory = OCELLUS_GPU_MEMORY_AUTO;
  int32_t cpu_math = OCELLUS_CPU_MATH_F16;
  bool lean = false;
  bool batch_invariant = false;
  RealTimeOptions real_time;
  std::shared_ptr<TraceFile> trace;  // null: none. Shared by all engines of a command; the first opens it
  CacheOptions cache;
  int32_t answer_tokens = 128;
  int32_t thought_tokens = 0;   // maximum, in addition to the answer; -1: the model's standard
  bool shows_thoughts = false;  // on stderr
  bool numbers_images = false;  // in prompts
  float temperature = 0.0f;
  int32_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float typical_p = 1.0f;
  float top_n_sigma = 0.0f;
  float repeat_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  float dry_multiplier = 0.0f;
  float dry_base = 1.75f;
  int32_t dry_length = 2;
  std::vector<ocellus_logit_bias> logit_bias;
  uint64_t seed = 0;
  std::optional<int32_t> top_logprobs;  // nullopt: no log-probabilities of an answer's tokens
  bool is_stream = false;  // frames of a camera: drafts and kept views are planned where they are tried and fit
  std::optional<ocellus_draft> draft;  // nullopt: off, unless `is_stream`
  int32_t draft_rows = 7;
  std::shared_ptr<AnswerConstraint> constraint;  // null: none
  int32_t constraints = 0;                       // planned for requests, where `constraint` is null
  int64_t constraint_bytes = 0;                  // memory of each; 0: the library's own
  bool keeps_views = false;                      // pictures come again: kept views are planned where they fit
  std::optional<int32_t> kept_views;             // nullopt: none, unless one of `is_stream` and `keeps_views`
  float view_change = 0;
  bool json = false;
  bool quiet = false;
  std::string plot_path;  // empty: none
};

// Returns the number of `name` among the words that a flag takes, which `sentence` lists. Throws a Failure for others.
int32_t number_of(const std::string& flag, const std::string& name, std::initializer_list<std::string_view> words,
                  const std::string& sentence);

// Adds the flags that the command has in common with others, by a table of both. `options` must outlive the parser.
void add_shared_flags(CLI::App* command, CommonOptions* options);

// `options` must outlive the parameters, which refer to its biases.
ocellus_generate_params generate_params(const CommonOptions& options);

}  // namespace ocellus::app
