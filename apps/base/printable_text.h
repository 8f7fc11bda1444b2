// Text that may come from a file, made safe to print on a terminal.
#pragma once

#include <string>
#include <string_view>

#include "platform/printable_text.h"

namespace ocellus::app {

// Returns the whole text as write_printable writes it.
std::string make_printable(std::string_view text, Lines lines);

}  // namespace ocellus::app
