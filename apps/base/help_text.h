// Help pages for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace ocellus::app {

inline constexpr size_t kHelpColumns = 80;

// Breaks lines of more than kHelpColumns characters at spaces. Continuation lines are indented like a flag's
// explanation, or like the line itself. Words and flags without an explanation stay whole.
std::string wrap_help(std::string_view text);

}  // namespace ocellus::app
