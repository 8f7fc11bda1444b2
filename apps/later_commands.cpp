// Commands that other versions have.
#include <CLI/CLI.hpp>
#include <string>

#include "apps/commands.h"
#include "apps/failure.h"

namespace ocellus {

void add_later_commands(CLI::App* program, Action* action) {
  for (const std::string name : {"watch"}) {
    CLI::App* command = program->add_subcommand(name, "Not in this version")->prefix_command()->group("Later versions");
    command->callback([=] {
      *action = [=]() -> int {
        throw Failure(kExitUsage, "the command " + name + " is not available in this version.");
      };
    });
  }
}

}  // namespace ocellus
