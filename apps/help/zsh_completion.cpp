#include "apps/base/plain_text.h"
#include "apps/help/completions.h"

namespace ocellus::app {
namespace {

// Text inside '...[text]...': quotes, brackets and colons have meanings there.
std::string escape_spec(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\'')
      safe += "'\\''";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      safe += std::string("\\") + c;
    else
      safe += c;
  }
  return safe;
}

// ":form:_files", ":form:(words)", ":form: "
std::string value_spec(const HelpFlag& flag) {
  if (flag.form.empty()) return "";
  const std::string begin = ":" + escape_spec(flag.form) + ":";
  if (flag.takes_file()) return begin + "_files";
  if (flag.takes_folder()) return begin + "_files -/";
  return begin + (flag.values.empty() ? " " : "(" + join_words(flag.values, " ") + ")");
}

// '(-m --model)'{-m,--model}'[Text model]:FILE:_files'
std::string flag_spec(const HelpFlag& flag) {
  const std::string rest = "[" + escape_spec(flag.first_sentence()) + "]" + value_spec(flag) + "'";
  if (flag.names.size() > 1 && !flag.repeats)
    return "'(" + join_words(flag.names, " ") + ")'{" + join_words(flag.names, ",") + "}'" + rest;
  return (flag.repeats ? "'*" : "'") + flag.names[0] + rest;
}

std::string argument_spec(const HelpFlag& argument) {
  const std::string words = argument.values.empty() ? " " : "(" + join_words(argument.values, " ") + ")";
  const std::string action = argument.takes_file() ? "_files" : argument.takes_folder() ? "_files -/" : words;
  return std::string("'") + (argument.repeats ? "*" : "") + (argument.is_required || argument.repeats ? ":" : "::") +
         escape_spec(argument.form) + ":" + action + "'";
}

std::string function_name(const HelpPage& page) {
  std::string name = "_" + page.name;
  for (char& c : name) c = c == ' ' || c == '-' ? '_' : c;
  return name;
}

std::string described_commands(const HelpPage& page) {
  std::string list;
  for (const HelpCommands& some : page.commands)
    for (const HelpCommand& one : some.commands)
      list += "    '" + escape_spec(one.name) + ":" + escape_spec(one.about) + "'\n";
  return list;
}

std::string help_spec(const HelpPage& page) {
  std::vector<std::string> keys;
  for (const HelpGroup& group : page.groups) keys.push_back(group.key);
  return "'(-h --help)'{-h,--help}'[This help, or the flags of a group]::group:(" + join_words(keys, " ") + " all)'";
}

std::string command_function(const HelpPage& page) {
  std::string text = function_name(page) + "() {\n  _arguments -s \\\n";
  for (const HelpFlag& flag : page.all_flags()) text += "    " + flag_spec(flag) + " \\\n";
  for (const HelpFlag& argument : page.arguments) text += "    " + argument_spec(argument) + " \\\n";
  return text + "    " + help_spec(page) + "\n}\n\n";
}

// Commands, then the function of the one that is given. A picture alone is captioned.
std::string parent_function(const HelpPage& page, const std::vector<HelpPage>& pages) {
  std::string text = function_name(page) +
                     "() {\n  local context state state_descr line\n  local -a commands\n  typeset -A opt_args\n"
                     "  commands=(\n" +
                     described_commands(page) + "  )\n  _arguments -C '(-h --help)'{-h,--help}'[This help]' \\\n";
  for (const HelpFlag& flag : page.all_flags()) text += "    " + flag_spec(flag) + " \\\n";
  text +=
      "    '1:command:->command' '*::argument:->argument'\n  case $state in\n    command) _describe command commands" +
      std::string(page.name == "ocellus" ? "; _files" : "") + " ;;\n    argument)\n      case $line[1] in\n";
  for (const HelpPage& other : pages) {
    const std::string begin = page.name + " ";
    if (!other.name.starts_with(begin) || other.name.find(' ', begin.size()) != std::string::npos) continue;
    text += "        " + other.name.substr(begin.size()) + ") " + function_name(other) + " ;;\n";
  }
  return text + "        *) _files ;;\n      esac ;;\n  esac\n}\n\n";
}

}  // namespace

std::string zsh_completion(const std::vector<HelpPage>& pages) {
  std::string text = "#compdef ocellus\n# zsh completion for ocellus, generated from the texts of --help.\n\n";
  for (const HelpPage& page : pages)
    text += page.commands.empty() ? command_function(page) : parent_function(page, pages);
  return text + "_ocellus \"$@\"\n";
}

}  // namespace ocellus::app
