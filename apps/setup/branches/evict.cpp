#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "apps/base/failure.h"
#include "apps/base/value_flags.h"
#include "apps/setup/branches.h"
#include "apps/setup/method_list.h"

namespace ocellus::app {

void add_evict_flags(CLI::App* command, EvictOptions* options) {
  add_method_flag(command, "--evict", OCELLUS_METHOD_EVICT, &options->method,
                  "Method that evicts cached tokens (default: none). With options as in david:rho=1,window=8; 'ocellus "
                  "methods' lists all");
  add_share_flag(command, "--keep", &options->keep, "Fraction of tokens that --evict keeps (default: 1)");
}

void add_compress_flag(CLI::App* command, EvictOptions* options) {
  const std::string name = command->get_name();
  const bool counts_answers = name == "eval" || name == "calibrate";
  if (counts_answers) options->compress_at = "before-suffix";
  const std::string standard = counts_answers    ? "before-suffix"
                               : name == "watch" ? "prompt-end; with --memory rolling image-end"
                                                 : "prompt-end";
  add_value(command, "Cache", "--compress-at", "prompt-end|before-suffix|image-end", &options->compress_at,
            "When pictures are compressed (default: " + standard +
                "). before-suffix: before the text after which the model answers, so that one-word answers come from "
                "the compressed cache")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kCompressTimes), std::end(kCompressTimes))));
}

void set_eviction(const EvictOptions& options, ocellus_limits* limits, std::vector<std::string>* notes) {
  set_method("--evict", options.method, limits->cache.evict);
  limits->cache.keep = options.keep;
  if (!(options.keep > 0)) throw Failure(kExitUsage, "--keep 0 would keep nothing: give a fraction of more than 0.");
  if (options.keep < 1 && options.method == "none") {
    throw Failure(kExitUsage, "--keep below 1 needs a method: add --evict david or --evict snapkv.");
  }
  if (options.keep == 1 && options.method != "none") {
    notes->push_back("--evict " + options.method + " drops nothing without --keep; --keep 0.2 keeps a fifth.");
  }
  if (!options.compress_at) return;
  const auto* const time = std::find(std::begin(kCompressTimes), std::end(kCompressTimes), *options.compress_at);
  limits->cache.compress_at = static_cast<int32_t>(time - kCompressTimes);
}

}  // namespace ocellus::app
