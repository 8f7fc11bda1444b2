// ocellus devices
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/answer.h"
#include "apps/commands.h"
#include "apps/failure.h"
#include "apps/machine.h"
#include "apps/options.h"
#include "apps/sizes.h"
#include "apps/table.h"
#include "apps/terminal.h"

namespace ocellus {
namespace {

int run_devices(const CommonOptions& options) {
  const std::vector<std::string> features = vector_features();
  const SystemMemory memory = system_memory();
  if (options.json) {
    nlohmann::ordered_json cpu = {
        {"device", "cpu"},  {"name", processor_name()},           {"cores", usable_cores()},
        {"simd", features}, {"memory_bytes", memory.total_bytes}, {"available_bytes", memory.available_bytes}};
    nlohmann::ordered_json object = {{"command", "devices"}, {"devices", {cpu}}, {"cuda", "not built in"}};
    print(json_line(object));
    return kExitOk;
  }
  std::string simd;
  for (const std::string& feature : features) simd += (simd.empty() ? "" : " ") + feature;
  Table table("ll");
  table.add_row({"cpu", processor_name()});
  table.add_row({"  cores", std::to_string(usable_cores())});
  table.add_row({"  SIMD", simd.empty() ? "none known" : simd});
  table.add_row(
      {"  memory", format_mib(memory.total_bytes) + " MiB, " + format_mib(memory.available_bytes) + " MiB available"});
  table.add_row({"cuda", "not built in"});
  print(table.plain_text());
  return kExitOk;
}

}  // namespace

void add_devices_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<CommonOptions>();
  CLI::App* command = program->add_subcommand("devices", "What this machine offers");
  add_common_options(command, options.get());
  command->callback([=] { *action = [=] { return run_devices(*options); }; });
}

}  // namespace ocellus
