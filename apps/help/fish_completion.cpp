#include "apps/base/plain_text.h"
#include "apps/help/completions.h"

namespace ocellus::app {
namespace {

constexpr char kFishBegin[] = R"(# fish completion for ocellus, generated from the texts of --help.

# True if the command line so far names this command.
function __ocellus_is
    set -l words (commandline -opc)
    set -l given
    for word in $words[2..-1]
        switch "$given $word"
            case NAMES
                set given (string trim "$given $word")
        end
    end
    test "$given" = "$argv"
end

)";

// Text inside '...'
std::string quoted(const std::string& text) {
  std::string safe = "'";
  for (const char c : text) safe += (c == '\'' || c == '\\' ? "\\" : "") + std::string(1, c);
  return safe + "'";
}

std::string line_begin(const HelpPage& page) {
  return "complete -c ocellus -n " + quoted("__ocellus_is " + page.command());
}

std::string flag_line(const HelpPage& page, const HelpFlag& flag) {
  std::string line = line_begin(page);
  for (const std::string& name : flag.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (flag.takes_file())
    line += " -r -F";
  else if (flag.takes_folder())
    line += " -x -a '(__fish_complete_directories)'";
  else if (!flag.form.empty())
    line += " -x" + (flag.values.empty() ? std::string() : " -a " + quoted(join_words(flag.values, " ")));
  return line + " -d " + quoted(flag.first_sentence()) + "\n";
}

std::string page_lines(const HelpPage& page) {
  std::string text;
  bool takes_file = page.name == "ocellus", takes_folder = false;
  for (const HelpFlag& argument : page.arguments) {
    takes_file = takes_file || argument.takes_file();
    takes_folder = takes_folder || argument.takes_folder();
    if (!argument.values.empty()) text += line_begin(page) + " -a " + quoted(join_words(argument.values, " ")) + "\n";
  }
  if (!takes_file)
    text += line_begin(page) + " -f" + (takes_folder ? " -a '(__fish_complete_directories)'" : "") + "\n";
  for (const HelpCommands& some : page.commands)
    for (const HelpCommand& one : some.commands)
      text += line_begin(page) + " -a " + one.name + " -d " + quoted(one.about) + "\n";
  for (const HelpFlag& flag : page.all_flags()) text += flag_line(page, flag);
  return text + line_begin(page) + " -s h -l help -d 'This help, or the flags of a group'\n";
}

}  // namespace

std::string fish_completion(const std::vector<HelpPage>& pages) {
  std::string names;
  for (const HelpPage& page : pages) {
    const std::string path = page.command();
    const size_t space = path.find(' ');
    if (!path.empty()) names += " " + quoted(space == std::string::npos ? " " + path : path);
  }
  std::string text = kFishBegin;
  text.replace(text.find(" NAMES"), 6, names);
  for (const HelpPage& page : pages) text += page_lines(page) + "\n";
  text.pop_back();
  return text;
}

}  // namespace ocellus::app
