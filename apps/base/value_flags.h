// Flags that take a value: `form` stands for it in the help, where the flag is in `group`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace ocellus::app {

// `value` must outlive the parser.
template <class T>
CLI::Option* add_value(CLI::App* command, const std::string& group, const std::string& flag, const std::string& form,
                       T* value, const std::string& help) {
  return command->add_option(flag, *value, help)->option_text(form)->group(group);
}

// `parse` takes the text.
inline CLI::Option* add_parsed(CLI::App* command, const std::string& group, const std::string& flag,
                               const std::string& form, const std::function<void(const std::string&)>& parse,
                               const std::string& help) {
  return command->add_option_function<std::string>(flag, parse, help)->option_text(form)->group(group);
}

}  // namespace ocellus::app
