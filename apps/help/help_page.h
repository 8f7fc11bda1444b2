// The help of a command, read from the parser: help pages, manual pages and completions are all written from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace ocellus::app {

// A flag, or an argument, which has one name without dashes.
struct HelpFlag {
  std::vector<std::string> names;   // "-m", "--model"
  std::string form;                 // the value's, "FILE", "f16|bf16"; empty: it takes none
  std::string meaning;              // its first sentence is for those who know the field
  std::vector<std::string> values;  // words that it takes; empty: others
  bool is_required = false;
  bool repeats = false;

  bool is_argument() const { return names[0] == form; }
  std::string first_sentence() const;
  // True if the value is a path of a file, or of a folder alone.
  bool takes_file() const;
  bool takes_folder() const;
};

struct HelpGroup {
  std::string key;    // as --help takes it, "real-time"
  std::string title;  // "Real time"
  std::string about;  // a few words
  std::vector<HelpFlag> flags;
};

struct HelpCommand {
  std::string name, about;
};
struct HelpCommands {
  std::string title;
  std::vector<HelpCommand> commands;
};

// A paragraph or, with a title, a section after the flags. Lines that begin with two spaces are a list of its own: of
// "word  meaning", or of examples.
struct HelpNote {
  std::string title;  // empty: none
  std::vector<std::string> lines;
};

struct HelpPage {
  std::string name;  // "ocellus library add"
  std::string about;
  std::vector<HelpFlag> arguments;
  std::vector<HelpGroup> groups;
  std::vector<HelpFlag> usual;  // the flags that most users need, all where they are few
  std::vector<HelpCommands> commands;
  std::vector<HelpNote> notes;

  // "library add"; empty for the program.
  std::string command() const;
  // nullptr if there is none.
  const HelpGroup* find_group(std::string_view key) const;
  std::vector<HelpFlag> all_flags() const;
};

HelpPage read_page(const CLI::App& command);

// The pages of the program and, after it, of all its commands.
std::vector<HelpPage> read_pages(const CLI::App& program);

}  // namespace ocellus::app
