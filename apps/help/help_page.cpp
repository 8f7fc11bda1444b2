#include "apps/help/help_page.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "apps/base/plain_text.h"
#include "apps/help/help_words.h"

namespace ocellus::app {
namespace {

constexpr char kUngrouped[] = "Options";  // the parser's name for it
constexpr size_t kMostUsual = 12;

std::vector<std::string> split_values(const std::string& list) {
  std::vector<std::string> words;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find_first_of("|,", at), list.size());
    if (end > at) words.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// The words of a form like "auto|cpu|cuda:N" or "none|snapkv[:KEY=VALUE,...]" that stand for themselves.
std::vector<std::string> plain_words(const std::string& form) {
  std::vector<std::string> words = split_values(form.substr(0, form.find('[')));
  std::erase_if(words, [](const std::string& word) {
    const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
    return !std::all_of(word.begin(), word.end(), is_plain);
  });
  return words;
}

// Without a form of several words they are in the type's name, where checks put them: "TEXT:{images,bits,keep}".
std::vector<std::string> words_of(const CLI::Option& option, const std::string& form) {
  if (form.find('|') != std::string::npos) return plain_words(form);
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return split_values(type.substr(begin + 1, end - begin - 1));
}

HelpFlag read_flag(const CLI::Option& option) {
  HelpFlag flag;
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  flag.form = option.get_option_text();
  flag.meaning = option.get_description();
  flag.values = words_of(option, flag.form);
  flag.is_required = option.get_required();
  flag.repeats = option.get_expected_max() > 1;
  return flag;
}

HelpFlag read_argument(const CLI::Option& option) {
  HelpFlag argument = read_flag(option);
  argument.names = {option.get_name(/*positional=*/true)};
  argument.form = argument.names[0];
  return argument;
}

HelpGroup read_group(const CLI::App& command, const std::string& name, std::string_view about) {
  HelpGroup group{.key = "", .title = name == kUngrouped ? "Flags" : name, .about = std::string(about), .flags = {}};
  group.key = to_lower(group.title);
  std::replace(group.key.begin(), group.key.end(), ' ', '-');
  for (const CLI::Option* option : command.get_options())
    if (option->nonpositional() && option->get_group() == name) group.flags.push_back(read_flag(*option));
  return group;
}

std::vector<HelpFlag> choose_usual(const HelpPage& page, std::string_view names) {
  const std::vector<HelpFlag> all = page.all_flags();
  if (all.size() <= kMostUsual) return all;
  std::vector<HelpFlag> usual;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(' '));
    const auto found = std::find_if(all.begin(), all.end(), [name](const HelpFlag& flag) {
      return std::find(flag.names.begin(), flag.names.end(), name) != flag.names.end();
    });
    if (found != all.end()) usual.push_back(*found);
    names.remove_prefix(std::min(name.size() + 1, names.size()));
  }
  return usual;
}

std::vector<HelpCommands> read_commands(const CLI::App& parent) {
  const auto commands = parent.get_subcommands([](const CLI::App*) { return true; });
  if (parent.get_parent() == nullptr) {
    std::vector<HelpCommands> sorted;
    for (const CommandWords& words : command_words()) {
      sorted.push_back({std::string(words.title), {}});
      for (const CLI::App* command : commands)
        if (lists_word(words.names, command->get_name()))
          sorted.back().commands.push_back({command->get_name(), command->get_description()});
    }
    return sorted;
  }
  if (commands.empty()) return {};
  HelpCommands all{"Commands", {}};
  for (const CLI::App* command : commands) all.commands.push_back({command->get_name(), command->get_description()});
  return {all};
}

// Empty lines are between notes; a note's first line is its title if it ends with a colon.
std::vector<HelpNote> read_notes(const std::string& text) {
  std::vector<HelpNote> notes(1);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    HelpNote& note = notes.back();
    if (line.empty())
      notes.emplace_back();
    else if (note.title.empty() && note.lines.empty() && line.ends_with(':'))
      note.title = line.substr(0, line.size() - 1);
    else
      note.lines.push_back(line);
  }
  std::erase_if(notes, [](const HelpNote& note) { return note.lines.empty(); });
  return notes;
}

std::string full_name(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return (parent == nullptr ? "" : full_name(*parent) + " ") + command.get_name();
}

void append_pages(const CLI::App& command, std::vector<HelpPage>* pages) {
  pages->push_back(read_page(command));
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; })) append_pages(*one, pages);
}

}  // namespace

std::string HelpFlag::first_sentence() const { return meaning.substr(0, meaning.find(". ")); }

bool HelpFlag::takes_file() const {
  return form.find("FILE") != std::string::npos || lists_word("IMAGE QUESTIONS SOURCE", form);
}

bool HelpFlag::takes_folder() const { return form == "DIR"; }

std::string HelpPage::command() const { return name.substr(std::min(name.find(' '), name.size() - 1) + 1); }

const HelpGroup* HelpPage::find_group(std::string_view key) const {
  const auto found = std::find_if(groups.begin(), groups.end(), [key](const HelpGroup& one) { return one.key == key; });
  return found == groups.end() ? nullptr : &*found;
}

std::vector<HelpFlag> HelpPage::all_flags() const {
  std::vector<HelpFlag> all;
  for (const HelpGroup& group : groups) all.insert(all.end(), group.flags.begin(), group.flags.end());
  return all;
}

HelpPage read_page(const CLI::App& command) {
  HelpPage page;
  page.name = full_name(command);
  page.about = command.get_description();
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional()) page.arguments.push_back(read_argument(*option));
  page.groups.push_back(read_group(command, kUngrouped, ""));
  for (const GroupWords& words : group_words())
    page.groups.push_back(read_group(command, std::string(words.title), words.about));
  std::erase_if(page.groups, [](const HelpGroup& group) { return group.flags.empty(); });
  page.usual = choose_usual(page, usual_flags(page.command()));
  page.commands = read_commands(command);
  page.notes = read_notes(command.get_footer());
  return page;
}

std::vector<HelpPage> read_pages(const CLI::App& program) {
  std::vector<HelpPage> pages;
  append_pages(program, &pages);
  return pages;
}

}  // namespace ocellus::app
