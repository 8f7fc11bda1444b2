// Flags that commands share.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/camera/depth_range.h"
#include "apps/setup/branches.h"
#include "apps/setup/real_time.h"
#include "apps/setup/trace_file.h"
#include "runtime/ocellus.hpp"

namespace CLI {
class App;
}

namespace ocellus::app {

struct ModelOptions {
  std::string path;  // empty: the bundled pair
  std::string mmproj_path;
  std::string hub_name;  // a pair by its repository, or one of `ocellus models --published`; empty: files
  bool offline = false;  // only out of the cache
  std::string shape;     // a model without files; empty: use files
  std::string shape_format = "Q8_0";
};

// Sizes of pictures; nullopt: those that the command needs.
struct PictureOptions {
  std::optional<int64_t> pixels;
  std::optional<int32_t> side;          // the longest
  std::optional<int64_t> whole_pixels;  // maximum size of a picture that is not decoded row by row
  DepthRange depth;                     // depths that 16-bit grey shows
};

struct CommonOptions {
  ModelOptions model;
  ocellus_limits limits = ocellus::limits();  // as flags set them; make_limits() adds what follows from the others
  std::optional<int64_t> budget_bytes;
  std::optional<int32_t> sessions;
  std::optional<int32_t> images;
  std::optional<int32_t> text_tokens;
  PictureOptions pictures;
  RealTimeOptions real_time;
  std::shared_ptr<TraceFile> trace;  // null: none. Shared by all engines of a command; the first opens it
  PackOptions pack;
  EvictOptions evict;
  ReduceOptions reduce;
  ReuseOptions reuse;
  LibraryOptions library;
  DraftOptions draft;
  ConstrainOptions constrain;
  ocellus_generate_params params = ocellus::generate_params();  // as flags set them; see generate_params()
  std::vector<ocellus_logit_bias> logit_bias;
  std::optional<int32_t> top_logprobs;  // nullopt: no log-probabilities of an answer's tokens
  bool shows_thoughts = false;          // on stderr
  bool numbers_images = false;          // in prompts
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
