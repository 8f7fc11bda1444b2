// ocellus pull
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/base/terminal.h"
#include "apps/commands/commands.h"
#include "apps/hub/hub_pair.h"
#include "apps/setup/answer.h"
#include "apps/setup/known_models.h"

namespace ocellus::app {
namespace {

constexpr char kNotes[] =
    "The pair comes into the hub's usual cache, where its other tools find it, and theirs is found: below "
    "HF_HUB_CACHE, "
    "else HF_HOME/hub, else ~/.cache/huggingface/hub. Files that are there are checked by their hashes and not fetched "
    "again; a fetch that was cut goes on where it was.\n"
    "\nWithout QUANT: Q8_0, else Q4_K_M, else the best that the repository has. The paths of the model and of its "
    "vision "
    "part are printed; -hf NAME with any command uses both.\n"
    "\nHF_ENDPOINT names another hub, HF_TOKEN a token for models that need one, https_proxy a proxy.\n"
    "\nExamples:\n"
    "  ocellus pull SmolVLM2-2.2B\n"
    "  ocellus pull ggml-org/SmolVLM-500M-Instruct-GGUF:Q8_0\n"
    "  ocellus caption -hf SmolVLM2-2.2B picture.jpg\n";

struct PullOptions {
  std::string name;
  HubOptions hub;
  bool json = false;
};

int run_pull(const PullOptions& options) {
  const HubName name = read_hub_name(options.name);
  const HubPair pair = pull_pair(name, options.hub);
  if (options.json) {
    print(json_line({{"command", "pull"},
                     {"repository", pair.repository},
                     {"commit", pair.commit},
                     {"model", pair.model},
                     {"mmproj", pair.mmproj},
                     {"bytes", pair.bytes},
                     {"fetched_bytes", pair.fetched_bytes}}));
    return kExitOk;
  }
  print(pair.model + "\n" + (pair.mmproj.empty() ? "" : pair.mmproj + "\n"));
  if (!options.hub.quiet)
    print_note("ocellus: " + name.text() + " at commit " + pair.commit.substr(0, 12) + ": " + format_bytes(pair.bytes) +
               ", of which " +
               (pair.fetched_bytes > 0 ? format_count(pair.fetched_bytes, "byte") + " came now."
                                       : "all were in the cache; their hashes are right."));
  return kExitOk;
}

}  // namespace

void add_pull_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<PullOptions>();
  CLI::App* command = program->add_subcommand("pull", "Fetch a published model, both files of it, by its name");
  command
      ->add_option("NAME", options->name,
                   "A model that `ocellus models --published` lists, or OWNER/NAME at the hub; either with :QUANT")
      ->required()
      ->type_name(list_known_models(KnownModels::kPublished));
  command->add_flag("--offline", options->hub.offline, "Connect to nothing; check what the cache has");
  command->add_flag("--json", options->json, "The same as one JSON object");
  command->add_flag("--quiet", options->hub.quiet, "No progress and no remarks on stderr");
  command->footer(kNotes);
  command->callback([=] { *action = [=] { return run_pull(*options); }; });
}

}  // namespace ocellus::app
