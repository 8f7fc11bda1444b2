// -h and --help, which may stand anywhere in a command line, and the pages that answer them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ocellus::app {

// Returns the help that the arguments ask for; nullopt if they ask for none. The parser does not know these flags, so
// whatever else is wrong with the arguments is no hindrance. Throws a Failure for a group that there is not.
std::optional<std::string> find_help(const CLI::App& program, const std::vector<std::string>& arguments);

}  // namespace ocellus::app
