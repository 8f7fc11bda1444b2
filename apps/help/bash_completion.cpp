#include "apps/base/plain_text.h"
#include "apps/help/completions.h"

namespace ocellus::app {
namespace {

constexpr char kBegin[] = R"(# bash completion for ocellus, generated from the texts of --help.

_ocellus() {
  local current=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]} command= words= values= kind= i
  [[ $flag == = ]] && flag=${COMP_WORDS[COMP_CWORD - 2]}
  [[ $current == = ]] && flag=${COMP_WORDS[COMP_CWORD - 1]} current=
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
)";

constexpr char kEnd[] = R"(  esac
  case $kind in
    files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    folders) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    words) mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current") ;;
    value) COMPREPLY=() ;;
    *)
      mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
      if [[ $current != -* && -n $files ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen "$files" -- "$current")
      fi ;;
  esac
}

complete -F _ocellus ocellus
)";

std::string list_commands(const HelpPage& page) {
  std::string list;
  for (const HelpCommands& some : page.commands)
    for (const HelpCommand& one : some.commands) list += one.name + " ";
  return list;
}

// The line about what follows a flag: its `kind`, and `values` where it takes words.
std::string flag_case(const std::vector<std::string>& names, const std::string& kind,
                      const std::vector<std::string>& values = {}) {
  return "        " + join_words(names, " | ") + ") kind=" + kind +
         (values.empty() ? "" : " values='" + join_words(values, " ") + "'") + " ;;\n";
}

std::string command_case(const HelpPage& page) {
  std::string words = list_commands(page), cases, groups;
  std::vector<std::string> files, folders, others, keys;
  for (const HelpFlag& flag : page.all_flags()) {
    words += join_words(flag.names, " ") + " ";
    if (flag.form.empty()) continue;
    auto& list = flag.takes_file() ? files : flag.takes_folder() ? folders : others;
    if (flag.takes_file() || flag.takes_folder() || flag.values.empty())
      list.insert(list.end(), flag.names.begin(), flag.names.end());
    else
      cases += flag_case(flag.names, "words", flag.values);
  }
  for (const HelpGroup& group : page.groups) keys.push_back(group.key);
  keys.emplace_back("all");
  if (page.commands.empty()) cases += flag_case({"-h", "--help"}, "words", keys);
  if (!files.empty()) cases += flag_case(files, "files");
  if (!folders.empty()) cases += flag_case(folders, "folders");
  if (!others.empty()) cases += flag_case(others, "value");
  std::string arguments;
  for (const HelpFlag& argument : page.arguments) {
    if (!argument.values.empty()) words += join_words(argument.values, " ") + " ";
    arguments = argument.takes_file() ? "-f" : argument.takes_folder() && arguments.empty() ? "-d" : arguments;
  }
  if (page.name == "ocellus") arguments = "-f";  // a picture alone is captioned
  return "    '" + page.command() + "')\n      words='" + words + "-h --help' files=" + arguments +
         "\n      case $flag in\n" + cases + "        *) ;;\n      esac ;;\n";
}

}  // namespace

std::string bash_completion(const std::vector<HelpPage>& pages) {
  std::string text = kBegin;
  for (const HelpPage& page : pages) {
    const std::string command = page.command();
    if (command.empty()) continue;
    const size_t space = command.find(' ');
    const std::string parent = space == std::string::npos ? "" : command.substr(0, space);
    const std::string name = space == std::string::npos ? command : command.substr(space + 1);
    text += "      '" + parent + " " + name + "') command='" + command + "' ;;\n";
  }
  text += "      *) ;;\n    esac\n  done\n  local files=\n  case $command in\n";
  for (const HelpPage& page : pages) text += command_case(page);
  return text + kEnd;
}

}  // namespace ocellus::app
