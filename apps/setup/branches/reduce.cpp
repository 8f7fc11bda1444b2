#include <CLI/CLI.hpp>

#include "apps/base/number_validator.h"
#include "apps/base/value_flags.h"
#include "apps/setup/branches.h"
#include "apps/setup/method_list.h"

namespace ocellus::app {

void add_reduce_flags(CLI::App* command, ReduceOptions* options) {
  add_method_flag(
      command, "--reduce", OCELLUS_METHOD_REDUCE, &options->method,
      "Method that drops tokens before they are read (default: none). They are tokens of pictures; 'ocellus "
      "methods' lists all");
  add_share_flag(command, "--reduce-keep", &options->keep,
                 "Fraction of a picture's tokens that --reduce keeps (default: 1)");
  add_value(command, "Cache", "--reduce-ms", "MS", &options->target_ms,
            "Target time for reading a prompt (default: none). Fewer tokens are kept, a sixteenth at least, where the "
            "prompts before it took longer")
      ->check(number_between(0, 1e6));
}

void set_reduction(const ReduceOptions& options, ocellus_limits* limits, std::vector<std::string>* notes) {
  set_method("--reduce", options.method, limits->reduce);
  limits->reduce_keep = options.keep;
  limits->reduce_ms = options.target_ms;
  if (options.keep == 1 && options.target_ms == 0 && options.method != "none")
    notes->push_back("--reduce " + options.method +
                     " drops nothing without --reduce-keep; --reduce-keep 0.5 keeps half.");
}

}  // namespace ocellus::app
