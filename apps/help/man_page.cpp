#include "apps/help/man_page.h"

#include <algorithm>
#include <utility>

#include "apps/base/plain_text.h"

namespace ocellus::app {
namespace {

std::string to_upper(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

// Text as it is printed: dashes that can be copied, no escapes and no macros.
std::string escape(const std::string& text) {
  std::string safe;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool begins_line = i == 0 || text[i - 1] == '\n';
    if (begins_line && (c == '.' || c == '\'')) safe += "\\&";
    if (c == '\\')
      safe += "\\e";
    else if (c == '-')
      safe += "\\-";
    else if (c == '\'')
      safe += "\\(aq";
    else if (c == '`')
      safe += "\\(ga";
    else if (c == '~')
      safe += "\\(ti";
    else if (c == '^')
      safe += "\\(ha";
    else if (c == '|')
      safe += "|\\:";  // long forms may be broken there
    else
      safe += c;
  }
  return safe;
}

std::string bold(const std::string& text) { return "\\fB" + escape(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + escape(text) + "\\fR"; }

std::string section(const std::string& title) { return ".SH \"" + escape(to_upper(title)) + "\"\n"; }

// Texts of one sentence are kept without its full stop, but not printed so here.
std::string as_sentence(const std::string& text) { return escape(text) + (text.ends_with('.') ? "" : ".") + "\n"; }

std::string entry(const std::string& word, const std::string& meaning) {
  return ".TP\n" + word + "\n" + as_sentence(meaning);
}

std::string flag_entry(const HelpFlag& flag) {
  std::string word;
  if (flag.is_argument()) return entry(italic(flag.form) + (flag.repeats ? "..." : ""), flag.meaning);
  for (const std::string& name : flag.names) word += (word.empty() ? "" : ", ") + bold(name);
  return entry(word + (flag.form.empty() ? "" : " " + italic(flag.form)), flag.meaning);
}

std::string synopsis(const HelpPage& page) {
  std::string text = section("Synopsis") + bold(page.name);
  if (!page.commands.empty())
    return text + " " + italic("command") + " [" + italic("flags") + "] [" + italic("arguments") + "]\n";
  for (const HelpFlag& flag : page.all_flags())
    if (flag.is_required) text += " " + bold(flag.names.back()) + " " + italic(flag.form);
  text += " [" + italic("flags") + "]";
  for (const HelpFlag& argument : page.arguments) {
    const std::string name = italic(argument.form) + (argument.repeats ? "..." : "");
    text += argument.is_required ? " " + name : " [" + name + "]";
  }
  return text + "\n";
}

std::string options(const HelpPage& page) {
  std::string text = section("Options");
  for (const HelpGroup& group : page.groups) {
    if (page.groups.size() > 1) text += ".SS \"" + escape(group.title) + "\"\n";
    for (const HelpFlag& flag : group.flags) text += flag_entry(flag);
  }
  if (page.groups.size() > 1) text += ".SS \"Help\"\n";
  return text + entry(bold("-h") + ", " + bold("--help") + " [" + italic("group") + "]",
                      "Show the usual flags, those of a group, or all");
}

// A list of the form "  word  meaning" becomes entries; other lines of a list, examples, are printed as they are.
std::string man_note(const HelpNote& note) {
  std::string text;
  bool is_example = false;
  for (const std::string& line : note.lines) {
    const bool is_listed = line.starts_with("  ");
    const size_t gap = is_listed ? line.find("  ", 2) : std::string::npos;
    const bool was_example = std::exchange(is_example, is_listed && gap == std::string::npos);
    if (is_example != was_example) text += is_example ? ".nf\n" : ".fi\n";
    if (is_example)
      text += escape(line.substr(2)) + "\n";
    else if (is_listed)
      text += ".TP\n" + bold(line.substr(2, gap - 2)) + "\n" + escape(trim(line.substr(gap))) + "\n";
    else
      text += (text.empty() ? "" : ".PP\n") + escape(line) + "\n";
  }
  return text + (is_example ? ".fi\n" : "");
}

// Notes without a title are a part of the description, others are sections.
std::string description(const HelpPage& page) {
  std::string text = section("Description") + as_sentence(page.about);
  for (const HelpNote& note : page.notes)
    if (note.title.empty()) text += ".PP\n" + man_note(note);
  for (const HelpFlag& argument : page.arguments) text += flag_entry(argument);
  for (const HelpCommands& some : page.commands) {
    text += section(some.title);
    for (const HelpCommand& command : some.commands) text += entry(bold(command.name), command.about);
  }
  return text;
}

std::string sections(const HelpPage& page) {
  std::string text;
  for (const HelpNote& note : page.notes)
    if (!note.title.empty()) text += section(note.title) + man_note(note);
  return text;
}

// "describe each picture", for lists of pages.
std::string summary(const HelpPage& page) { return escape(to_lower(page.about.substr(0, 1)) + page.about.substr(1)); }

bool is_part_of(const HelpPage& page, const HelpPage& whole) {
  return page.name.starts_with(whole.name + " ") && page.name.find(' ', whole.name.size() + 1) == std::string::npos;
}

// The pages of what the command is a part of, and of its parts.
std::string references(const HelpPage& page, const std::vector<HelpPage>& pages) {
  std::string text;
  for (const HelpPage& other : pages) {
    if (!is_part_of(other, page) && !is_part_of(page, other) && (other.name != "ocellus" || page.name == other.name))
      continue;
    text += (text.empty() ? "" : ",\n") + std::string(".BR ") + escape(man_name(other)) + " (1)";
  }
  return section("See also") + text + "\n";
}

}  // namespace

std::string man_name(const HelpPage& page) {
  std::string name = page.name;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string man_page(const HelpPage& page, const std::vector<HelpPage>& pages, const std::string& version,
                     const std::string& date) {
  std::string text = ".\\\" Generated from the texts of --help.\n.TH \"" + escape(to_upper(man_name(page))) +
                     "\" \"1\" \"" + date + "\" \"ocellus " + version + "\" \"User Commands\"\n.ad l\n.nh\n";
  text += section("Name") + escape(man_name(page)) + " \\- " + summary(page) + "\n" + synopsis(page) +
          description(page) + options(page) + sections(page);
  if (page.name != "ocellus") text += section("Exit status") + "See\n.BR ocellus (1).\n";
  return text + references(page, pages);
}

}  // namespace ocellus::app
