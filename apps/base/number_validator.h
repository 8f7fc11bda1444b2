// Bounds of numeric flags.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

namespace ocellus::app {

// Unlike CLI::Range this refuses "nan" and formats the bounds without trailing digits.
CLI::Validator number_between(double low, double high);

// Accepts 0 to the greatest uint64_t. The parser alone wraps -1 around and clamps what is greater.
CLI::Validator whole_number();

// Lists the allowed numbers, also when the text is not a number.
CLI::Validator one_of_numbers(const std::vector<int>& allowed);

}  // namespace ocellus::app
