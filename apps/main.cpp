// The ocellus program. Every command has a file of its own; see commands.h.
#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <string>

#include "apps/commands.h"
#include "apps/failure.h"
#include "apps/terminal.h"
#include "runtime/ocellus.h"

namespace ocellus::app {
namespace {

constexpr char kAbout[] = "Ocellus: small vision-language models inside one memory budget.";
constexpr char kExitCodes[] =
    "Answers go to stdout, everything else to stderr.\n"
    "Exit codes: 0 ok, 1 runtime failure, 2 bad usage, 3 does not fit the budget or the plan, 4 bad input file.\n"
    "Try: ocellus caption PICTURE, ocellus plan --images 8 --budget 128M, ocellus COMMAND --help.";

void declare_commands(CLI::App* program, Action* action) {
  program->footer(kExitCodes);
  program->set_version_flag("--version", std::string("ocellus ") + ocellus_version());
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
  add_devices_command(program, action);
}

// The parser's complaint as one sentence.
std::string describe_usage_error(const CLI::App& program, const CLI::ParseError& error) {
  const auto chosen = program.get_subcommands();
  const std::string help = chosen.empty() ? "ocellus --help" : "ocellus " + chosen[0]->get_name() + " --help";
  std::string what = error.what();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    const std::string extra = what.substr(what.find_last_of(' ') + 1);
    what = (extra[0] == '-' ? "unknown flag " : "unexpected argument ") + extra;
  } else if (error.get_name() == "ArgumentMismatch") {
    const bool twice = what.find("received 2") != std::string::npos;
    what = what.substr(0, what.find(':')) + (twice ? " is given twice" : " needs a value");
  } else if (error.get_name() == "ConversionError") {
    // "Could not convert: --seed = many": what no bound refuses already must be a whole number.
    const size_t name = what.find(": ") + 2, equals = what.find(" = ", name);
    what = what.substr(name, equals - name) + ": " + what.substr(equals + 3) + " is not a whole number";
  } else if (chosen.empty() && error.get_name() == "RequiredError") {
    what = "no command given";
  }
  return what.substr(0, what.find('\n')) + "; see '" + help + "'.";
}

// The parser alone would complain about the arguments of an unknown command, or about a missing one.
void check_command_name(const CLI::App& program, const std::string& name) {
  if (name.empty() || name[0] == '-') return;
  const auto named = [&name](const CLI::App* command) { return command->get_name() == name; };
  if (program.get_subcommands(named).empty()) {
    throw Failure(kExitUsage, "unknown command " + name + "; see 'ocellus --help'.");
  }
}

int run(int argument_count, char** arguments) {
  CLI::App program(kAbout, "ocellus");
  Action action;
  declare_commands(&program, &action);
  check_command_name(program, argument_count > 1 ? arguments[1] : "");
  try {
    program.parse(argument_count, arguments);
  } catch (const CLI::Success& asked_for_help) {
    return program.exit(asked_for_help);
  } catch (const CLI::ParseError& error) {
    throw Failure(kExitUsage, describe_usage_error(program, error));
  }
  const int exit_code = action();
  flush_output();
  return exit_code;
}

}  // namespace
}  // namespace ocellus::app

int main(int argument_count, char** arguments) {
  ocellus::app::reserve_standard_streams();
  std::signal(SIGPIPE, SIG_DFL);  // `ocellus ... | head -1` ends quietly whatever the parent process set
  try {
    return ocellus::app::run(argument_count, arguments);
  } catch (const ocellus::app::Failure& failure) {
    ocellus::app::print_failure(failure.what());
    return failure.exit_code();
  } catch (const std::exception& error) {
    ocellus::app::print_failure(error.what());
    return ocellus::app::kExitRuntime;
  }
}
