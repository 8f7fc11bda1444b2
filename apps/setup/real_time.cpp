#include "apps/setup/real_time.h"

#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "apps/base/failure.h"
#include "apps/base/number_validator.h"
#include "apps/base/value_flags.h"

namespace ocellus::app {
namespace {

constexpr int32_t kMaxCpus = 256;  // the library's limit

std::optional<int32_t> parse_cpu(std::string_view text) {
  int32_t cpu = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cpu);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && cpu >= 0 && cpu < kMaxCpus && text[0] != '-' ? std::optional(cpu) : std::nullopt;
}

// Parses "3" or "0-3"; false for anything else.
bool add_range(std::string_view text, uint64_t* cpus) {
  const size_t dash = text.find('-');
  const std::optional<int32_t> first = parse_cpu(text.substr(0, dash));
  const std::optional<int32_t> last = dash == std::string_view::npos ? first : parse_cpu(text.substr(dash + 1));
  if (!first || !last || *first > *last) return false;
  for (int32_t cpu = *first; cpu <= *last; ++cpu) cpus[cpu / 64] |= uint64_t{1} << cpu % 64;
  return true;
}

void set_cpus(RealTimeOptions* options, const std::string& list) {
  std::fill(std::begin(options->cpus), std::end(options->cpus), 0);
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    if (!add_range(std::string_view(list).substr(at, end - at), options->cpus)) {
      throw Failure(kExitUsage, "--cpus " + list + ": write numbers of CPUs from 0 to " + std::to_string(kMaxCpus - 1) +
                                    " and ranges of them, as in 0-3,6.");
    }
    at = end + 1;
  }
}

bool is_chosen(const RealTimeOptions& options, int32_t cpu) { return (options.cpus[cpu / 64] >> cpu % 64 & 1) != 0; }

}  // namespace

void add_real_time_flags(CLI::App* command, RealTimeOptions* options) {
  const std::string group = "Real time";
  add_value(command, group, "--thread-priority", "N", &options->thread_priority,
            "SCHED_FIFO priority of compute threads, 1 to 99 (default: unchanged)")
      ->check(number_between(1, 99));
  add_parsed(
      command, group, "--cpus", "LIST", [options](const std::string& list) { set_cpus(options, list); },
      "CPUs of compute threads, as in 0-3,6 (default: all)");
  command->add_flag("--lock-memory", options->lock_memory, "Lock the engine's memory in RAM")->group(group);
  command->add_flag("--prefault", options->prefault, "Touch all memory at start, so that no page fault follows")
      ->group(group);
}

void set_real_time(const RealTimeOptions& options, ocellus_engine_config* config) {
  config->thread_priority = options.thread_priority;
  std::copy(std::begin(options.cpus), std::end(options.cpus), config->thread_cpus);
  config->lock_memory = options.lock_memory ? 1 : 0;
  config->prefault = options.prefault ? 1 : 0;
}

void choose_cpus(const RealTimeOptions& options) {
  cpu_set_t wanted, got;
  CPU_ZERO(&wanted);
  CPU_ZERO(&got);
  for (int32_t cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (is_chosen(options, cpu)) CPU_SET(cpu, &wanted);
  }
  if (CPU_COUNT(&wanted) == 0) return;
  // The system ignores CPUs that it does not have, and refuses only if none is left.
  if (sched_setaffinity(0, sizeof wanted, &wanted) != 0)
    CPU_ZERO(&got);
  else
    (void)sched_getaffinity(0, sizeof got, &got);
  for (int32_t cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (CPU_ISSET(cpu, &wanted) && !CPU_ISSET(cpu, &got)) {
      throw Failure(kExitUsage,
                    "--cpus: there is no CPU " + std::to_string(cpu) + " here, or this process may not use it.");
    }
  }
}

void raise_priority(const RealTimeOptions& options) {
  if (options.thread_priority == 0) return;
  const sched_param param = {.sched_priority = options.thread_priority};
  if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) == 0) return;
  throw Failure(kExitRuntime, "the system refused --thread-priority " + std::to_string(options.thread_priority) + " (" +
                                  std::strerror(errno) +
                                  "): raise RLIMIT_RTPRIO (ulimit -r, LimitRTPRIO=) or run with CAP_SYS_NICE.");
}

}  // namespace ocellus::app
