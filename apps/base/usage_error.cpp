#include "apps/base/usage_error.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <tuple>

namespace ocellus::app {
namespace {

// Flags by which other programs name what to download.
constexpr std::string_view kFileFlags[] = {"-hff", "--hf-file", "-mu", "--model-url"},
                           kTokenFlags[] = {"-hft", "--hf-token"}, kNameFlags[] = {"-hf", "-hfr", "--hf", "--hf-repo"};

// Options whose values name what a command writes.
constexpr std::string_view kOutputs[] = {"--draw", "--history", "--library", "--plot", "--trace"};

std::string see_help(const CLI::App& program) {
  std::string command = "ocellus ";
  for (auto chosen = program.get_subcommands(); !chosen.empty(); chosen = chosen[0]->get_subcommands())
    command += chosen[0]->get_name() + " ";
  return "; see '" + command + "--help'.";
}

// Returns nullopt unless `flag` is one of the above.
std::optional<std::string> explain_download(const std::string& flag) {
  const std::string name = flag.substr(0, flag.find('='));
  const auto is_one = [&name](const auto& flags) {
    return std::find(std::begin(flags), std::end(flags), name) != std::end(flags);
  };
  if (is_one(kNameFlags))
    return name + ": it belongs to commands that take a model, as in `ocellus caption -hf SmolVLM-500M picture.jpg`.";
  if (is_one(kTokenFlags))
    return name + ": put the token into the variable HF_TOKEN, where no list of processes shows it.";
  if (is_one(kFileFlags))
    return name + ": name the repository with -hf OWNER/NAME:QUANT, which finds both files in it.";
  return {};
}

const CLI::App& chosen_command(const CLI::App& program) {
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands()[0];
  return *command;
}

// Names of a command's flags, with their dashes.
Arguments flags_of(const CLI::App& command) {
  Arguments names = {"-h", "--help"};  // which the parser does not know
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string describe_unknown(const CLI::App& program, const std::string& argument) {
  if (const auto explained = explain_download(argument)) return *explained;
  if (argument[0] != '-') return "unexpected argument " + argument + see_help(program);
  const std::string alike = find_alike(argument.substr(0, argument.find('=')), flags_of(chosen_command(program)));
  if (alike.empty()) return "unknown flag " + argument + see_help(program);
  return "unknown flag " + argument + "; is " + alike + " meant? S" + see_help(program).substr(3);
}

// The place that a path names, also if there is nothing yet.
std::filesystem::path place_of(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(std::filesystem::absolute(path), ignored);
  return whole.has_filename() ? whole : whole.parent_path();
}

// The number of letters to insert, remove, replace or swap with the next (optimal string alignment).
size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> edits(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t k = 0; k <= b.size(); ++k) {
      if (i == 0 || k == 0) {
        edits[i][k] = i + k;
        continue;
      }
      const size_t replaced = edits[i - 1][k - 1] + (a[i - 1] == b[k - 1] ? 0 : 1);
      edits[i][k] = std::min({edits[i - 1][k] + 1, edits[i][k - 1] + 1, replaced});
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
        edits[i][k] = std::min(edits[i][k], edits[i - 2][k - 2] + 1);
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::string find_alike(const std::string& name, const Arguments& names) {
  constexpr size_t kShortest = 3;
  if (name.size() <= kShortest) return "";
  std::string best;
  size_t least = 1 + name.size() / 4;  // one edit more than are forgiven
  for (const std::string& one : names) {
    const bool begins = one.size() > kShortest && (name.starts_with(one) || one.starts_with(name));
    const size_t edits = begins ? 1 : edits_between(name, one);
    if (edits < least) std::tie(best, least) = std::tie(one, edits);
  }
  return best;
}

std::string describe_usage_error(const CLI::App& program, const CLI::ParseError& error) {
  std::string what = error.what();
  const bool is_unknown = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  const bool is_missing = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError);
  if (is_unknown || is_missing) {  // an unknown flag explains more than a missing one
    const Arguments unknown = program.remaining(/*recurse=*/true);
    const auto flag = std::find_if(unknown.begin(), unknown.end(), [](const auto& text) { return text[0] == '-'; });
    if (flag != unknown.end()) return describe_unknown(program, *flag);
    if (is_unknown) return describe_unknown(program, unknown.at(0));
  }
  if (error.get_name() == "ArgumentMismatch") {
    const bool twice = what.find("received 2") != std::string::npos;
    what = what.substr(0, what.find(':')) + (twice ? " is given twice" : " needs a value");
  } else if (error.get_name() == "ConversionError") {
    // "Could not convert: --seed = many": whatever passed the bounds' validators must be a whole number.
    const size_t name = what.find(": ") + 2, equals = what.find(" = ", name);
    what = what.substr(name, equals - name) + ": " + what.substr(equals + 3) + " is not a whole number";
  } else if (program.get_subcommands().empty() && is_missing) {
    what = "no command given";
  } else if (is_missing && what.starts_with("A subcommand")) {
    std::string names;
    const CLI::App* const chosen = program.get_subcommands()[0];
    for (const CLI::App* command : chosen->get_subcommands([](const CLI::App*) { return true; }))
      names += (names.empty() ? " " : ", ") + command->get_name();
    what = chosen->get_name() + " needs one of" + names;
  }
  return what.substr(0, what.find('\n')) + see_help(program);
}

std::optional<std::string> find_empty_value(const CLI::App& program) {
  for (const CLI::Option* option : chosen_command(program).get_options()) {
    const std::string name = option->get_name();
    const Arguments& values = option->results();
    if (name == "--prompt" || name == "--caption" || std::find(values.begin(), values.end(), "") == values.end())
      continue;
    return name + " is empty: give it a value, or leave it out" + see_help(program);
  }
  return {};
}

std::optional<std::string> find_shared_output(const CLI::App& program) {
  std::vector<const CLI::Option*> outputs;
  for (const CLI::Option* option : chosen_command(program).get_options()) {
    const bool is_output =
        std::find(std::begin(kOutputs), std::end(kOutputs), option->get_name()) != std::end(kOutputs);
    if (is_output && option->count() > 0) outputs.push_back(option);
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (place_of(outputs[i]->results().back()) == place_of(outputs[k]->results().back()))
        return outputs[k]->get_name() + " and " + outputs[i]->get_name() + " both write " +
               outputs[i]->results().back() + ": give one of them another name.";
  return {};
}

}  // namespace ocellus::app
