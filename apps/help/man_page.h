// Manual pages, from the texts of the help.
#pragma once

#include <string>
#include <vector>

#include "apps/help/help_page.h"

namespace ocellus::app {

// "ocellus-library-add" for "ocellus library add": the page's name, and its file's with .1.
std::string man_name(const HelpPage& page);

// Returns the page in the man macros of groff and mandoc. `pages`: all, for references; `date`: "2026-11-29".
std::string man_page(const HelpPage& page, const std::vector<HelpPage>& pages, const std::string& version,
                     const std::string& date);

}  // namespace ocellus::app
