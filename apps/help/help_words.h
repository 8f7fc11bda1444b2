// The words of help pages that no flag has: what groups are about, which flags most users need, how commands are
// sorted.
#pragma once

#include <span>
#include <string_view>

namespace ocellus::app {

struct GroupWords {
  std::string_view title, about;
};
// In the order in which help shows them.
std::span<const GroupWords> group_words();

// Returns the names of the flags that -h shows of a command, "library add", with spaces between them.
std::string_view usual_flags(std::string_view command);

struct CommandWords {
  std::string_view title, names;
};
// The program's commands, by what they are for.
std::span<const CommandWords> command_words();

}  // namespace ocellus::app
