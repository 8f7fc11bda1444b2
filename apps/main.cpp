// The ocellus program. Every command has a file of its own; see commands.h.
#if OCELLUS_HAS_MIMALLOC
#include <mimalloc.h>
#endif

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <exception>
#include <filesystem>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "apps/base/branches.h"
#include "apps/base/failure.h"
#include "apps/base/neighbour_flags.h"
#include "apps/base/terminal.h"
#include "apps/base/usage_error.h"
#include "apps/commands/commands.h"
#include "apps/help/help_request.h"
#include "runtime/ocellus.h"

namespace ocellus::app {
namespace {

constexpr char kAbout[] = "Run small vision-language models inside one memory budget";
constexpr char kNotes[] =
    "Answers go to stdout, everything else to stderr.\n"
    "\nExit status:\n"
    "  0        success\n"
    "  1        failure at run time\n"
    "  2        bad usage\n"
    "  3        does not fit the budget or the plan\n"
    "  4        bad input file\n"
    "  128 + N  ended by signal N (Ctrl-C: 130; serve and watch: 0)\n"
    "\nExamples:\n"
    "  ocellus caption picture.jpg\n"
    "  ocellus ask --prompt \"How many images show a ring?\" a.png b.png\n"
    "  ocellus plan --images 8 --budget 128M\n"
    "  ocellus watch /dev/video0 --http 127.0.0.1:8080\n"
    "\nEnvironment:\n"
    "The program reads no variables of its own. The CUDA driver reads CUDA_VISIBLE_DEVICES; `ocellus pull` and -hf "
    "read\n"
    "those of the hub's own tools: HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE; and https_proxy.\n"
    "\nFiles:\n"
    "  share/ocellus/models  the installed model, with a card that says what it knows\n"
    "  MODEL.calib.json      the calibration of a model, beside it; written by `ocellus calibrate`\n";

std::string version_text() {
  const std::string with = OCELLUS_BUILT_WITH, without = OCELLUS_BUILT_WITHOUT;
  return std::string("ocellus ") + ocellus_version() + "\nwith: " + (with.empty() ? "nothing optional" : with) +
         (without.empty() ? "" : "\nwithout: " + without) + "\n" + describe_branches();
}

void declare_commands(CLI::App* program, Action* action) {
  program->set_help_flag();  // find_help answers
  program->set_version_flag("--version", version_text(), "Version of the program, and what it was built with");
  program->require_subcommand(1);
  add_caption_command(program, action);
  add_ask_command(program, action);
  add_chat_command(program, action);
  add_plan_command(program, action);
  add_eval_command(program, action);
  add_perplexity_command(program, action);
  add_calibrate_command(program, action);
  add_bench_command(program, action);
  add_library_command(program, action);
  add_watch_command(program, action);
  add_serve_command(program, action);
  add_make_model_command(program, action);
  add_pull_command(program, action);
  add_models_command(program, action);
  add_devices_command(program, action);
  add_methods_command(program, action);
  add_pages_command(program, action);
  program->footer(kNotes);  // last, as commands would inherit it
}

// The parser alone would complain about the arguments of an unknown command, or about a missing one. `names`: the
// command, and the one of its own commands that follows; `before`: the names of those that `parent` is.
void check_command_name(const CLI::App& parent, std::span<const std::string> names, const std::string& before = "") {
  const bool has_commands = !parent.get_subcommands([](const CLI::App*) { return true; }).empty();
  if (!has_commands || names.empty() || names[0].empty() || names[0][0] == '-') return;
  const std::string& name = names[0];
  const auto named = parent.get_subcommands([&name](const CLI::App* command) { return command->get_name() == name; });
  if (!named.empty()) return check_command_name(*named[0], names.subspan(1), before + name + " ");
  Arguments known;
  for (const CLI::App* command : parent.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(command->get_name());
  const std::string alike = find_alike(name, known);
  if (before.empty() && alike.empty() && name.find_first_of("./") != std::string::npos)
    throw Failure(kExitUsage, name + ": there is neither such a file nor such a command.");
  throw Failure(kExitUsage, "unknown command " + before + name +
                                (alike.empty() ? "; see" : "; is " + before + alike + " meant? See") + " 'ocellus " +
                                before + "--help'.");
}

// A picture alone is captioned. A command's name is one, even where a file is called like it.
void add_missing_command(const CLI::App& program, Arguments* arguments) {
  if (arguments->empty() || arguments->front().empty() || arguments->front()[0] == '-') return;
  const std::string& first = arguments->front();
  const auto named = program.get_subcommands([&](const CLI::App* command) { return command->get_name() == first; });
  std::error_code ignored;
  if (named.empty() && std::filesystem::is_regular_file(first, ignored))
    arguments->insert(arguments->begin(), "caption");
}

int run(int argument_count, char** arguments) {
  Arguments given(arguments + 1, arguments + std::max(argument_count, 1));
  if (!given.empty() && given[0] == "help") {  // `ocellus help plan` is `ocellus plan --help`
    given[0] = "--help";
  }
  CLI::App program(kAbout, "ocellus");
  Action action;
  declare_commands(&program, &action);
  add_missing_command(program, &given);
  check_command_name(program, given);
  if (const auto help = find_help(program, given)) {
    print(*help);
    flush_output();
    return kExitOk;
  }
  given = translate_neighbour_flags(std::move(given));
  try {
    program.parse(Arguments(given.rbegin(), given.rend()));
  } catch (const CLI::Success& asked_for_version) {
    std::ostringstream version;
    const int exit_code = program.exit(asked_for_version, version, version);
    print(version.str());
    flush_output();
    return exit_code;
  } catch (const CLI::ParseError& error) {
    throw Failure(kExitUsage, describe_usage_error(program, error));
  }
  if (const auto empty = find_empty_value(program)) throw Failure(kExitUsage, *empty);
  if (const auto shared = find_shared_output(program)) throw Failure(kExitUsage, *shared);
  const int exit_code = action();
  flush_output();
  return exit_code;
}

/// Under a limit of addresses (ulimit -v) a stack that may not grow ends a program without a word. It grows to what all
/// commands need before anything else takes the addresses.
[[gnu::noinline]] void grow_stack() {
  volatile char pages[size_t{256} << 10];
  for (size_t end = sizeof pages; end > 0; end -= 4096) pages[end - 1] = 0;
}

// Freed memory returns to the system at once: later, mimalloc would wait for the thread's next allocation, and what
// large bodies took would stay with a server that has nothing to do.
void set_up_heap() {
#if OCELLUS_HAS_MIMALLOC && MI_MALLOC_VERSION >= 210
  mi_option_set(mi_option_purge_delay, 0);
#elif OCELLUS_HAS_MIMALLOC
  mi_option_set(mi_option_decommit_delay, 0);
  mi_option_set(mi_option_segment_decommit_delay, 0);
#endif
}

}  // namespace
}  // namespace ocellus::app

int main(int argument_count, char** arguments) {
  ocellus::app::set_up_heap();
  ocellus::app::grow_stack();
  ocellus::app::reserve_standard_streams();
  std::signal(SIGPIPE, SIG_DFL);  // `ocellus ... | head -1` ends quietly whatever the parent process set
  try {
    return ocellus::app::run(argument_count, arguments);
  } catch (const ocellus::app::Failure& failure) {
    ocellus::app::print_failure(failure.what());
    return failure.exit_code();
  } catch (const std::exception& error) {
    ocellus::app::print_failure(ocellus::app::describe_exception(error));
    return ocellus::app::kExitRuntime;
  }
}
