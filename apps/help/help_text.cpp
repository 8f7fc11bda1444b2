#include "apps/help/help_text.h"

#include <algorithm>

#include "apps/base/plain_text.h"

namespace ocellus::app {
namespace {

constexpr size_t kMeaningColumn = 28;
constexpr size_t kSecondGroup = 40;  // groups stand in two columns

// Appends a text that begins on a started line, broken at spaces; further lines begin in the column `indent`.
void append_wrapped(const std::string& text, size_t indent, std::string* out) {
  const size_t line_begin = out->rfind('\n') + 1;  // 0 if there is none
  size_t column = out->size() - line_begin;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const bool is_first = at == 0;
    if (!is_first && column + 1 + end - at > kHelpColumns) {
      *out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!is_first) {
      *out += ' ';
      ++column;
    }
    out->append(text, at, end - at);
    column += end - at;
    at = std::min(end + 1, text.size());
  }
  *out += '\n';
}

// "  word   meaning", the meaning below the word where that is too long.
void append_entry(const std::string& word, const std::string& meaning, size_t column, std::string* out) {
  *out += "  " + word;
  const size_t used = word.size() + 2;
  *out += used + 2 > column ? "\n" + std::string(column, ' ') : std::string(column - used, ' ');
  append_wrapped(meaning, column, out);
}

// A form of many words, "none|snapkv|david", is cut to NAME on the screen of -h.
enum class Detail { kShort, kWhole };

std::string flag_word(const HelpFlag& flag, Detail detail) {
  std::string word = join_words(flag.names, ", ");
  if (flag.is_argument()) return word + (flag.repeats ? "..." : "");
  const bool fits = word.size() + flag.form.size() + 5 <= kMeaningColumn;
  if (detail == Detail::kShort && !fits && flag.form.find('|') != std::string::npos) return word + " NAME";
  return flag.form.empty() ? word : word + " " + flag.form;
}

// Breaks a form that is longer than a line after one of its words.
std::string break_word(std::string word) {
  for (size_t begin = 0; word.size() - begin > kHelpColumns - 2;) {
    const size_t bar = word.rfind('|', begin + kHelpColumns - 3);
    if (bar == std::string::npos || bar <= begin + 6) break;
    word.insert(bar + 1, "\n      ");
    begin = bar + 2;
  }
  return word;
}

void append_flags(const std::vector<HelpFlag>& flags, Detail detail, std::string* out) {
  for (const HelpFlag& flag : flags)
    append_entry(break_word(flag_word(flag, detail)), detail == Detail::kWhole ? flag.meaning : flag.first_sentence(),
                 kMeaningColumn, out);
}

void append_commands(const HelpPage& page, std::string* out) {
  size_t column = 0;
  for (const HelpCommands& some : page.commands)
    for (const HelpCommand& command : some.commands) column = std::max(column, command.name.size() + 4);
  if (!page.commands.empty()) *out += "\n";
  for (const HelpCommands& some : page.commands) {
    *out += some.title + ":\n";
    for (const HelpCommand& command : some.commands) append_entry(command.name, command.about, column, out);
  }
}

void append_list_line(const std::string& line, std::string* out) {
  const size_t gap = line.find("  ", 2);
  const size_t meaning = gap == std::string::npos ? gap : line.find_first_not_of(' ', gap);
  *out += meaning == std::string::npos ? "  " : line.substr(0, meaning);
  append_wrapped(line.substr(meaning == std::string::npos ? 2 : meaning),
                 meaning == std::string::npos ? 4 : std::min(meaning, kMeaningColumn), out);
}

std::string note_text(const HelpNote& note) {
  std::string text = "\n" + (note.title.empty() ? "" : note.title + ":\n");
  for (const std::string& line : note.lines) {
    if (line.starts_with("  "))
      append_list_line(line, &text);
    else
      append_wrapped(line, 0, &text);
  }
  return text;
}

void append_groups(const HelpPage& page, std::string* out) {
  size_t column = 0;
  for (const HelpGroup& group : page.groups) column = std::max(column, group.key.size() + 4);
  *out += "\nMore flags, by '" + page.name + " --help GROUP' (all: every flag and note):\n";
  const size_t rows = (page.groups.size() + 1) / 2;
  for (size_t i = 0; i < rows; ++i) {
    std::string line;
    for (const size_t k : {i, i + rows}) {
      if (k >= page.groups.size()) continue;
      const HelpGroup& group = page.groups[k];
      if (k != i) line.resize(std::max(line.size() + 1, kSecondGroup), ' ');
      const size_t begin = line.size();
      line += "  " + group.key;
      line.resize(begin + column, ' ');
      line += group.about;
    }
    *out += line + "\n";
  }
}

std::string heading(const HelpPage& page) {
  std::string text;
  append_wrapped(page.about + (page.about.ends_with('.') ? "" : "."), 0, &text);
  text += "\n";
  append_wrapped("Usage: " + usage_line(page), 9, &text);
  if (!page.arguments.empty()) text += "\n";
  append_flags(page.arguments, Detail::kWhole, &text);
  append_commands(page, &text);
  return text;
}

size_t count_lines(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

}  // namespace

std::string usage_line(const HelpPage& page) {
  std::string usage = page.name;
  if (!page.commands.empty()) return usage + " COMMAND [FLAGS] [ARGUMENTS]";
  usage += " [FLAGS]";
  for (const HelpFlag& argument : page.arguments) {
    const std::string name = argument.form + (argument.repeats ? "..." : "");
    usage += argument.is_required ? " " + name : " [" + name + "]";
  }
  for (const HelpFlag& flag : page.all_flags())
    if (flag.is_required) usage.insert(page.name.size(), " " + flag.names.back() + " " + flag.form);
  return usage;
}

std::string short_help(const HelpPage& page) {
  std::string text = heading(page);
  text += "\nFlags:\n";
  append_flags(page.usual, Detail::kShort, &text);
  const bool has_more = page.usual.size() < page.all_flags().size();
  if (!page.commands.empty())
    append_entry("-h, --help [COMMAND]", "This help, that of a command, or all notes (all)", kMeaningColumn, &text);
  else
    append_entry(has_more ? "-h, --help [GROUP]" : "-h, --help",
                 has_more ? "This help, or the flags of a group" : "This help", kMeaningColumn, &text);
  if (has_more) append_groups(page, &text);
  for (const HelpNote& note : page.notes) {
    const std::string more = note_text(note);
    if (count_lines(text) + count_lines(more) > kHelpLines) break;
    text += more;
  }
  return text;
}

std::string group_help(const HelpGroup& group) {
  std::string text = group.title + (group.about.empty() ? "" : " (" + group.about + ")") + ":\n";
  append_flags(group.flags, Detail::kWhole, &text);
  return text;
}

std::string full_help(const HelpPage& page) {
  std::string text = heading(page);
  for (const HelpGroup& group : page.groups) text += "\n" + group_help(group);
  for (const HelpNote& note : page.notes) text += note_text(note);
  return text;
}

}  // namespace ocellus::app
