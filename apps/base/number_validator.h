// Bounds of numeric flags.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

namespace ocellus::app {

// Unlike CLI::Range this refuses "nan", and it says the bounds as a person would.
CLI::Validator number_between(double low, double high);

// Says what is allowed also of a text that is no number.
CLI::Validator one_of_numbers(const std::vector<int>& allowed);

}  // namespace ocellus::app
