// ocellus methods
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "apps/base/failure.h"
#include "apps/base/terminal.h"
#include "apps/commands/commands.h"
#include "apps/setup/answer.h"
#include "apps/setup/method_list.h"
#include "apps/setup/method_page.h"

namespace ocellus::app {

namespace {

struct MethodsOptions {
  std::string name;  // empty: all
  bool json = false;
};

int run_methods(const MethodsOptions& options) {
  if (options.json)
    print(json_line(options.name.empty() ? methods_json() : method_page_json(options.name)));
  else
    print(options.name.empty() ? methods_text() : method_page(options.name));
  return kExitOk;
}

}  // namespace

void add_methods_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<MethodsOptions>();
  CLI::App* command = program->add_subcommand("methods", "List the cache methods and their options");
  command->add_option("NAME", options->name, "Only this method")
      ->type_name("{" + join_method_names(OCELLUS_METHOD_EVICT, MethodNames::kAll) + "|" +
                  join_method_names(OCELLUS_METHOD_KV_SCHEME, MethodNames::kAll) + "|" +
                  join_method_names(OCELLUS_METHOD_REDUCE, MethodNames::kAll) + "}");
  command->add_flag("--json", options->json, "The same as one JSON object");
  command->callback([=] { *action = [=] { return run_methods(*options); }; });
}

}  // namespace ocellus::app
