// Runs fuzz targets without libFuzzer, with any compiler:
//
//   ocellus_fuzz [--target=NAME]... [--seed=S] [--runs=N] [--seconds=T] [--jobs=J] [--faults=DIR] [FILE...]
//
// N inputs for each target (all of them by default), made from its seeds by a few changes each. Number S and the number
// of a run decide an input, so runs can be shared out and repeated. --seconds ends a target earlier. J processes do the
// work and others watch them: one that dies, takes 10 seconds for an input or more heap than the target allows is
// counted, its input is kept in DIR, and the work continues after it. Files are run unchanged.
//
// Prints a line of JSON for each target. Exit code 1 if anything went wrong. --self-test shows that faults are noticed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "tests/fuzz/byte_changes.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/self_test.h"
#include "tests/fuzz/worker_watch.h"

// Huge allocations requested by a file fail as they would elsewhere; the other options keep runs small.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=1024:quarantine_size_mb=8:detect_stack_use_after_return=0";
}

namespace {

using namespace ocellus::fuzz;

struct Options {
  std::vector<std::string> targets;
  std::vector<std::string> files;
  RunPlan plan;
  bool is_self_test = false;
};

bool take_number(const std::string& argument, const char* name, int64_t* out) {
  if (argument.rfind(name, 0) != 0) return false;
  char* end = nullptr;
  const char* digits = argument.c_str() + std::strlen(name);
  *out = std::strtoll(digits, &end, 10);
  if (*digits != '\0' && *end == '\0' && *out >= 0) return true;
  std::fprintf(stderr, "%s takes a number\n", name);
  std::exit(2);
}

Options read_options(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    int64_t number = 0;
    if (argument == "--self-test") {
      options.is_self_test = true;
    } else if (argument.rfind("--target=", 0) == 0) {
      options.targets.push_back(argument.substr(9));
    } else if (argument.rfind("--faults=", 0) == 0) {
      options.plan.faults_folder = argument.substr(9);
    } else if (take_number(argument, "--seed=", &number)) {
      options.plan.seed = static_cast<uint64_t>(number);
    } else if (take_number(argument, "--runs=", &options.plan.runs) ||
               take_number(argument, "--seconds=", &options.plan.seconds)) {
    } else if (take_number(argument, "--jobs=", &number)) {
      options.plan.jobs = static_cast<int>(std::clamp<int64_t>(number, 1, 256));
    } else if (argument.rfind("--", 0) == 0) {
      std::fprintf(stderr, "%s is no option; see the beginning of tests/fuzz/mutation_run.cpp\n", arguments[i]);
      std::exit(2);
    } else {
      options.files.push_back(argument);
    }
  }
  return options;
}

std::vector<Target> choose_targets(const std::vector<std::string>& names) {
  if (names.empty()) return all_targets();
  std::vector<Target> chosen;
  for (const std::string& name : names) {
    const Target* target = find_target(name);
    if (target == nullptr) {
      std::fprintf(stderr, "there is no target %s; there are", name.c_str());
      for (const Target& one : all_targets()) std::fprintf(stderr, " %s", one.name);
      std::fprintf(stderr, "\n");
      std::exit(2);
    }
    chosen.push_back(*target);
  }
  return chosen;
}

void run_file(const Target& target, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  const Bytes bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::printf("%s %s: %s\n", target.name, path.c_str(), run_exactly(target, bytes) ? "accepted" : "refused");
}

void print_json(const Target& target, const RunPlan& plan, const RunCounts& counts) {
  const double seconds = std::max(counts.seconds, 1e-9);
  std::printf("{\"target\": \"%s\", \"engine\": \"mutations\", \"seed\": %llu, \"jobs\": %d, \"executions\": %lld, ",
              target.name, static_cast<unsigned long long>(plan.seed), plan.jobs,
              static_cast<long long>(counts.executions));
  std::printf("\"accepted\": %lld, \"crashes\": %lld, \"timeouts\": %lld, \"over_memory\": %lld, ",
              static_cast<long long>(counts.accepted), static_cast<long long>(counts.crashes),
              static_cast<long long>(counts.timeouts), static_cast<long long>(counts.over_memory));
  std::printf("\"seconds\": %.1f, \"executions_per_second\": %.0f, \"worst_ms\": %.2f, \"worst_heap_bytes\": ", seconds,
              static_cast<double>(counts.executions) / seconds, static_cast<double>(counts.worst_ns) * 1e-6);
  if (counts.worst_heap_bytes >= 0) std::printf("%lld}\n", static_cast<long long>(counts.worst_heap_bytes));
  if (counts.worst_heap_bytes < 0) std::printf("null}\n");
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  const Options options = read_options(count, arguments);
  if (options.is_self_test) {
    test_worker_watch(options.plan.faults_folder);
    return 0;
  }
  bool is_sound = true;
  for (const Target& target : choose_targets(options.targets)) {
    if (!options.files.empty()) {
      for (const std::string& path : options.files) run_file(target, path);
      continue;
    }
    const RunCounts counts = run_target(target, options.plan);
    print_json(target, options.plan, counts);
    if (counts.accepted == 0) std::fprintf(stderr, "%s accepted nothing: its seeds are bad\n", target.name);
    is_sound = is_sound && counts.faults() == 0 && counts.accepted > 0;
  }
  return is_sound ? 0 : 1;
}
