#include "apps/commands/plan_machine.h"

#include <algorithm>
#include <cstring>

#include "apps/base/failure.h"
#include "apps/base/machine.h"
#include "apps/base/sizes.h"
#include "apps/base/table.h"

namespace ocellus::app {
namespace {

// Rates are NVIDIA's for dense matrices; of Orin they are those of the GPU without the accelerators beside it, half of
// what is given for sparse ones. f16 is with sums in f32. What the system takes is an estimate: on Jetson the memory
// that Linux does not see, a system without a desktop and CUDA's context, elsewhere the driver and CUDA's context.
struct KnownMachine {
  const char* name;
  bool shares_memory;
  double memory_gib, system_gib;
  double gb_per_s, f16_tflops, int8_tops;
  const char* source;
};
constexpr KnownMachine kMachines[] = {
    {"orin-nano-8gb", true, 8, 1.5, 102, 17, 33, "Jetson Orin Nano Super datasheet, 25 W"},
    {"orin-nano-8gb-15w", true, 8, 1.5, 68, 10, 20, "Jetson Orin Nano datasheet, before Super mode"},
    {"orin-nx-16gb", true, 16, 2, 102.4, 19, 38, "Jetson Orin NX datasheet, Super mode: 1173 MHz"},
    {"agx-orin-32gb", true, 32, 2.5, 204.8, 27, 54, "Jetson AGX Orin technical brief: 930 MHz"},
    {"agx-orin-64gb", true, 64, 3.5, 204.8, 43, 85, "Jetson AGX Orin technical brief: 1.3 GHz"},
    {"thor", true, 128, 6, 273, 259, 517, "Jetson Thor datasheet: T5000"},
    {"rtx-3060-12gb", false, 12, 1, 360, 25.6, 102,
     "GA102 white paper, at the 28 multiprocessors and 1.78 GHz of GA106"},
    {"rtx-4090", false, 24, 1, 1008, 165.2, 660.6, "Ada white paper"},
    {"h100", false, 80, 1.5, 3350, 989.4, 1979, "H100 datasheet: SXM"},
    {"h200", false, 141, 2, 4800, 989.4, 1979, "H200 datasheet: SXM"},
};

// Operations of tensor cores in f16 per multiprocessor and clock, those in int8 are twice as many: the white papers of
// each architecture. GeForce cards of 8.6, 8.9 and 12.0 have half of it with sums in f32.
struct TensorRate {
  int32_t capability;  // from this compute capability on
  double per_clock;
};
constexpr TensorRate kTensorRates[] = {{80, 2048}, {86, 1024},  {87, 2048}, {89, 1024},
                                       {90, 4096}, {100, 8192}, {120, 1024}};

constexpr int64_t kMostReadBytes = int64_t{1} << 30;  // more than caches hold

Machine gpu_at_hand(const CommonOptions& options) {
  const ocellus_gpu_facts gpu = take(probe_gpu(options.limits.device_index));
  double per_clock = 0;
  for (const TensorRate& rate : kTensorRates)
    if (10 * gpu.compute_major + gpu.compute_minor >= rate.capability) per_clock = rate.per_clock;
  const double f16 = per_clock * gpu.multiprocessors * gpu.clock_khz * 1e3;
  return {.name = gpu.name,
          .source = "measured",
          .is_at_hand = true,
          .shares_memory = gpu.integrated != 0,
          .memory_bytes = gpu.memory_bytes,
          .system_bytes = gpu.memory_bytes - gpu.free_bytes + std::max<int64_t>(gpu.outside_bytes, 0),
          .bytes_per_s = gpu.copy_bytes_per_s,
          .f16_per_s = f16,
          .int8_per_s = 2 * f16};
}

Machine cpu_at_hand(const Model& model, const CommonOptions& options) {
  const SystemMemory memory = system_memory();
  const int64_t bytes = std::min(model.facts.step_weight_bytes, kMostReadBytes);
  return {.name = processor_name(),
          .source = "measured",
          .is_at_hand = true,
          .shares_memory = true,
          .memory_bytes = memory.total_bytes,
          .system_bytes = memory.total_bytes - memory.available_bytes,
          .bytes_per_s =
              measure_read_rate(bytes, options.limits.thread_count > 0 ? options.limits.thread_count : usable_cores())};
}

bool is_quantised(const ocellus_model_facts& facts) {
  const char* const plain[] = {"F32", "F16", "BF16"};
  return std::none_of(plain, plain + 3, [&](const char* name) { return std::strcmp(facts.weight_format, name) == 0; });
}

// Pictures that share a budget with text have known bytes in a full session only.
int64_t full_cache(const ocellus_limits& limits, const ocellus_plan& plan, int64_t pictures) {
  if (pictures > 0 && plan.kv_bytes_per_image == 0) return plan.kv_bytes_per_session;
  return pictures * plan.kv_bytes_per_image + limits.max_text_tokens * plan.kv_bytes_per_token;
}

}  // namespace

std::vector<std::string> machine_names() {
  std::vector<std::string> names = {kThisMachine};
  for (const KnownMachine& machine : kMachines) names.emplace_back(machine.name);
  return names;
}

Machine find_machine(const std::string& name, const Model& model, const CommonOptions& options) {
  const auto bytes = [](double gib) { return static_cast<int64_t>(gib * (int64_t{1} << 30)); };
  for (const KnownMachine& known : kMachines)
    if (name == known.name)
      return {.name = name,
              .source = known.source,
              .shares_memory = known.shares_memory,
              .memory_bytes = bytes(known.memory_gib),
              .system_bytes = bytes(known.system_gib),
              .bytes_per_s = known.gb_per_s * 1e9,
              .f16_per_s = known.f16_tflops * 1e12,
              .int8_per_s = known.int8_tops * 1e12};
  return runs_on_gpu(options) ? gpu_at_hand(options) : cpu_at_hand(model, options);
}

SpeedBounds bound_speed(const Machine& machine, const Model& model, const ocellus_limits& limits,
                        const ocellus_plan& plan) {
  const ocellus_model_facts& facts = model.facts;
  const int64_t pictures = limits.max_images + clip_pictures(model, limits.max_clip_frames);
  SpeedBounds bounds = {.step_bytes = facts.step_weight_bytes, .cache_bytes = full_cache(limits, plan, pictures)};
  bounds.work = take(Plan::work(model, limits));
  const double rate = is_quantised(facts) ? machine.int8_per_s : machine.f16_per_s;
  const auto seconds = [&](int64_t bytes, int64_t operations) {
    const double reading = static_cast<double>(bytes) / machine.bytes_per_s;
    return rate > 0 ? std::max(reading, static_cast<double>(operations) / rate) : reading;
  };
  bounds.decode_tokens_per_s = 1 / seconds(bounds.step_bytes, 0);
  bounds.full_tokens_per_s = 1 / seconds(bounds.step_bytes + bounds.cache_bytes, 0);
  const int64_t encode = bounds.work.encode_operations, vision_bytes = pictures > 0 ? facts.vision_weight_bytes : 0;
  bounds.encode_ms = 1e3 * seconds(vision_bytes, encode);
  // Views of several pictures may go through the tower together, which reads its weights once.
  bounds.first_token_ms =
      1e3 * (seconds(vision_bytes, pictures * encode) + seconds(bounds.step_bytes, bounds.work.prompt_operations));
  return bounds;
}

std::string machine_text(const Machine& machine, const SpeedBounds& bounds, const std::string& seen) {
  const bool knows_operations = machine.f16_per_s > 0;
  std::string text = machine.name + ": " + format_mib(machine.memory_bytes) + " MiB, of which the system takes about " +
                     format_mib(machine.system_bytes) + "; " + format_number(machine.bytes_per_s * 1e-9, 1) + " GB/s";
  if (knows_operations)
    text += ", " + format_number(machine.f16_per_s * 1e-12, 1) + " TFLOP/s in f16, " +
            format_number(machine.int8_per_s * 1e-12, 1) + " TOP/s in int8";
  Table table("llrl");
  const auto add = [&](const std::string& name, double value, const char* unit) {
    table.add_row({" ", name, format_number(value, 1), unit});
  };
  const auto add_time = [&](const std::string& name, double ms) {
    constexpr double kMinute = 60e3, kSecond = 1e3;
    if (ms >= kMinute) return add(name, ms / kMinute, "min");
    ms >= 10 * kSecond ? add(name, ms / kSecond, "s") : add(name, ms, "ms");
  };
  add("decode with an empty cache", bounds.decode_tokens_per_s, "tokens/s");
  add("decode with a full one", bounds.full_tokens_per_s, "tokens/s");
  if (bounds.work.encode_operations > 0)
    add_time("one picture with the most views" + (seen.empty() ? "" : ", " + seen), bounds.encode_ms);
  add_time("first token after all pictures and text", bounds.first_token_ms);
  text += " (" + machine.source + ")\n";
  if (!machine.is_at_hand)
    text +=
        "What CUDA takes there outside the plan, for its context, kernels and library, `ocellus devices` can tell "
        "there alone; it is among what the system takes.\n";
  return text + "At best, by " + (knows_operations ? "bytes and operations" : "bytes alone") + ":\n" +
         table.plain_text();
}

nlohmann::ordered_json machine_json(const Machine& machine, const SpeedBounds& bounds) {
  return {{"name", machine.name},
          {"source", machine.source},
          {"shares_memory", machine.shares_memory},
          {"memory_bytes", machine.memory_bytes},
          {"system_bytes", machine.system_bytes},
          {"bytes_per_s", machine.bytes_per_s},
          {"f16_per_s", machine.f16_per_s},
          {"int8_per_s", machine.int8_per_s},
          {"step_bytes", bounds.step_bytes},
          {"cache_bytes", bounds.cache_bytes},
          {"encode_operations", bounds.work.encode_operations},
          {"prompt_operations", bounds.work.prompt_operations},
          {"decode_tok_s", bounds.decode_tokens_per_s},
          {"decode_full_tok_s", bounds.full_tokens_per_s},
          {"encode_ms", bounds.encode_ms},
          {"first_token_ms", bounds.first_token_ms}};
}

}  // namespace ocellus::app
