// A file that an option names and a command writes as a whole, once its work is done.
#pragma once

#include <string>
#include <string_view>

#include "apps/base/failure.h"

namespace ocellus::app {

// "--draw FILE cannot be written: strerror; give another place."
Failure output_failure(const std::string& option, const std::string& path, int error);

// Throws a Failure unless the file can be made or replaced. Nothing is left of the trial.
void check_output(const std::string& option, const std::string& path);

// Writes the file, or leaves the one that was there. Throws a Failure.
void write_output(const std::string& option, const std::string& path, std::string_view bytes);

}  // namespace ocellus::app
