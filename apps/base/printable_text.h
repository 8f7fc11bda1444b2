// Text that may come from a file, as a terminal shows it without obeying it.
#pragma once

#include <string>
#include <string_view>

#include "platform/printable_text.h"

namespace ocellus::app {

// What write_printable makes of it, all of it.
std::string make_printable(std::string_view text, Lines lines);

}  // namespace ocellus::app
