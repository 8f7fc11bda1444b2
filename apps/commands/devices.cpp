// ocellus devices
#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/base/failure.h"
#include "apps/base/machine.h"
#include "apps/base/sizes.h"
#include "apps/base/table.h"
#include "apps/base/terminal.h"
#include "apps/commands/commands.h"
#include "apps/setup/answer.h"

namespace ocellus::app {
namespace {

std::vector<ocellus_gpu_facts> probe_gpus() {
  std::vector<ocellus_gpu_facts> gpus;
  for (int32_t i = 0; i < gpu_count(); ++i) gpus.push_back(take(probe_gpu(i)));
  return gpus;
}

std::string version_text(int32_t version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string code_text(const ocellus_gpu_facts& gpu) {
  return std::to_string(gpu.code_capability / 10) + "." + std::to_string(gpu.code_capability % 10);
}

nlohmann::ordered_json gpu_json(const ocellus_gpu_facts& gpu) {
  nlohmann::ordered_json object = {
      {"device", "cuda:" + std::to_string(gpu.index)},
      {"name", gpu.name},
      {"compute_capability", std::to_string(gpu.compute_major) + "." + std::to_string(gpu.compute_minor)},
      {"code_capability", code_text(gpu)},
      {"multiprocessors", gpu.multiprocessors},
      {"integrated", gpu.integrated != 0},
      {"driver", version_text(gpu.driver_version)},
      {"cuda", version_text(gpu.runtime_version)},
      {"memory_bytes", gpu.memory_bytes},
      {"available_bytes", gpu.free_bytes},
      {"l2_bytes", gpu.l2_bytes}};
  object["outside_bytes"] =
      gpu.outside_bytes < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(gpu.outside_bytes);
  object["copy_bytes_per_s"] = gpu.copy_bytes_per_s;
  return object;
}

void add_gpu(Table* table, const ocellus_gpu_facts& gpu) {
  table->add_row({"cuda:" + std::to_string(gpu.index), gpu.name});
  table->add_row({"  compute capability", std::to_string(gpu.compute_major) + "." + std::to_string(gpu.compute_minor) +
                                              ", " + std::to_string(gpu.multiprocessors) + " multiprocessors" +
                                              (gpu.integrated != 0 ? ", shares the host's memory" : "")});
  table->add_row({"  kernels for", code_text(gpu)});
  table->add_row({"  CUDA", version_text(gpu.runtime_version) + ", driver for " + version_text(gpu.driver_version)});
  table->add_row({"  memory", format_mib(gpu.memory_bytes) + " MiB, " + format_mib(gpu.free_bytes) + " MiB available"});
  table->add_row({"  copy rate", std::to_string(std::llround(gpu.copy_bytes_per_s / 1e9)) + " GB/s, read and written"});
  table->add_row({"  outside any arena", gpu.outside_bytes < 0
                                             ? "not known"
                                             : format_mib(gpu.outside_bytes) + " MiB (context, kernels, library)"});
}

std::string cuda_text(size_t gpu_count) {
  if (!built_with_cuda()) return "not built in";
  return gpu_count == 0 ? "no device found" : format_count(static_cast<int64_t>(gpu_count), "device");
}

struct DevicesOptions {
  bool json = false;
};

int run_devices(const DevicesOptions& options) {
  const std::vector<std::string> features = vector_features();
  const SystemMemory memory = system_memory();
  const std::vector<ocellus_gpu_facts> gpus = probe_gpus();
  if (options.json) {
    nlohmann::ordered_json cpu = {
        {"device", "cpu"},  {"name", processor_name()},           {"cores", usable_cores()},
        {"simd", features}, {"memory_bytes", memory.total_bytes}, {"available_bytes", memory.available_bytes}};
    nlohmann::ordered_json object = {{"command", "devices"}, {"devices", {cpu}}, {"cuda", cuda_text(gpus.size())}};
    for (const ocellus_gpu_facts& gpu : gpus) object["devices"].push_back(gpu_json(gpu));
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
  for (const ocellus_gpu_facts& gpu : gpus) add_gpu(&table, gpu);
  if (gpus.empty()) table.add_row({"cuda", cuda_text(0)});
  print(table.plain_text());
  return kExitOk;
}

}  // namespace

void add_devices_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<DevicesOptions>();
  CLI::App* command = program->add_subcommand("devices", "Show the devices and cores of this machine");
  command->add_flag("--json", options->json, "The same as one JSON object");
  command->callback([=] { *action = [=] { return run_devices(*options); }; });
}

}  // namespace ocellus::app
