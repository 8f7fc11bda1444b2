// What is wrong with the arguments, as one sentence.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace ocellus::app {

using Arguments = std::vector<std::string>;

// The parser's complaint about the arguments.
std::string describe_usage_error(const CLI::App& program, const CLI::ParseError& error, const Arguments& arguments);

// The parser takes -hf and everything else that begins with -h for -h and something more, and shows the help. The
// sentence about such a flag; nothing if help was asked for by its name.
std::optional<std::string> find_unasked_help(const CLI::App& program, const Arguments& arguments);

// The sentence about an option or argument that was given without a letter, as an unset variable of a shell gives it:
// taken for "not given", --token "" would leave a server open. A prompt and a caption may be empty.
std::optional<std::string> find_empty_value(const CLI::App& program);

}  // namespace ocellus::app
