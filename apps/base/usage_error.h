// Usage errors as one sentence.
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

// Returns the name that differs least from `name`, by a letter in four at most, or that begins like it; empty: none.
std::string find_alike(const std::string& name, const Arguments& names);

// Returns one sentence for the parser's error.
std::string describe_usage_error(const CLI::App& program, const CLI::ParseError& error);

// Returns the sentence about an option or argument with an empty value, as an unset shell variable gives it: read as
// "not given", --token "" would leave a server open. A prompt and a caption may be empty.
std::optional<std::string> find_empty_value(const CLI::App& program);

// Returns the sentence about two options that name one file or folder to write.
std::optional<std::string> find_shared_output(const CLI::App& program);

}  // namespace ocellus::app
