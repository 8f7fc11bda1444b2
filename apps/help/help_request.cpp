#include "apps/help/help_request.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/base/failure.h"
#include "apps/base/plain_text.h"
#include "apps/base/usage_error.h"
#include "apps/help/help_page.h"
#include "apps/help/help_text.h"

namespace ocellus::app {
namespace {

constexpr std::string_view kAll = "all", kValue = "--help=";

// nullptr if the command has none of that name.
const CLI::App* find_command(const CLI::App& parent, const std::string& name) {
  const auto named = parent.get_subcommands([&name](const CLI::App* command) { return command->get_name() == name; });
  return named.empty() ? nullptr : named[0];
}

bool takes_next(const CLI::App& command, const std::string& argument) {
  const CLI::Option* const option = command.get_option_no_throw(argument);
  return option != nullptr && option->nonpositional() && option->get_items_expected_min() > 0;
}

// Returns the page for `asked`: empty, a group, or all.
std::string answer(const CLI::App& command, const std::string& asked) {
  const HelpPage page = read_page(command);
  if (asked.empty()) return short_help(page);
  std::string key = to_lower(asked);
  std::replace(key.begin(), key.end(), ' ', '-');
  if (key == kAll) return full_help(page);
  if (const HelpGroup* const group = page.find_group(key)) return group_help(*group);
  std::vector<std::string> keys;
  if (page.commands.empty())
    for (const HelpGroup& group : page.groups) keys.push_back(group.key);
  for (const HelpCommands& some : page.commands)
    for (const HelpCommand& one : some.commands) keys.push_back(one.name);
  const std::string alike = find_alike(key, keys), kind = page.commands.empty() ? "group of flags" : "command";
  throw Failure(kExitUsage, "--help " + asked + ": " + page.name + " has no such " + kind +
                                (alike.empty() ? "" : " (is " + alike + " meant?)") + "; it has " +
                                join_words(keys, ", ") + " and all.");
}

}  // namespace

std::optional<std::string> find_help(const CLI::App& program, const std::vector<std::string>& arguments) {
  const CLI::App* command = &program;
  bool may_be_command = true, is_asked = false;
  std::string group;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const bool is_help = argument == "-h" || argument == "--help" || argument.starts_with(kValue);
    if (argument == "--") break;
    if (is_help) {
      is_asked = true;
      if (argument.starts_with(kValue)) group = argument.substr(kValue.size());
      // `ocellus --help library add entries`
      while (may_be_command && i + 1 < arguments.size() && find_command(*command, arguments[i + 1]) != nullptr)
        command = find_command(*command, arguments[++i]);
      if (group.empty() && i + 1 < arguments.size() && !arguments[i + 1].starts_with('-')) group = arguments[++i];
    } else if (argument.starts_with('-')) {
      i += takes_next(*command, argument) ? 1 : 0;
    } else if (const CLI::App* const named = may_be_command ? find_command(*command, argument) : nullptr) {
      command = named;
    } else {
      may_be_command = false;
    }
  }
  if (!is_asked) return std::nullopt;
  return answer(*command, group);
}

}  // namespace ocellus::app
