// ocellus methods
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/base/failure.h"
#include "apps/base/terminal.h"
#include "apps/commands/commands.h"
#include "apps/setup/answer.h"
#include "apps/setup/method_list.h"

namespace ocellus::app {

void add_methods_command(CLI::App* program, Action* action) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command = program->add_subcommand("methods", "List the cache methods and their options");
  command->add_flag("--json", *json, "The same as one JSON object")->group("Output");
  command->callback([=] {
    *action = [=] {
      print(*json ? json_line(methods_json()) : methods_text());
      return kExitOk;
    };
  });
}

}  // namespace ocellus::app
