// Help pages for a terminal of 80 columns.
#pragma once

#include <string>
#include <vector>

#include "apps/help/help_page.h"

namespace ocellus::app {

inline constexpr size_t kHelpColumns = 80, kHelpLines = 40;

// The command, its arguments and usual flags, the groups, and as many of the notes as fit one screen.
std::string short_help(const HelpPage& page);

// The flags of one group.
std::string group_help(const HelpGroup& group);

// Everything.
std::string full_help(const HelpPage& page);

// "ocellus caption [FLAGS] IMAGE..."
std::string usage_line(const HelpPage& page);

}  // namespace ocellus::app
