// Bounds of numeric flags.
#ifndef OCELLUS_APPS_NUMBER_VALIDATOR_H_
#define OCELLUS_APPS_NUMBER_VALIDATOR_H_

#include <CLI/CLI.hpp>

namespace ocellus {

// Unlike CLI::Range this refuses "nan", and it says the bounds as a person would.
CLI::Validator number_between(double low, double high);

}  // namespace ocellus

#endif  // OCELLUS_APPS_NUMBER_VALIDATOR_H_
