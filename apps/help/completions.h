// Completions for shells, from the same pages as the help: commands, flags, the words that flags take, files.
#pragma once

#include <string>
#include <vector>

#include "apps/help/help_page.h"

namespace ocellus::app {

// `pages`: the program's and those of all its commands, as read_pages returns them.
std::string bash_completion(const std::vector<HelpPage>& pages);
std::string zsh_completion(const std::vector<HelpPage>& pages);
std::string fish_completion(const std::vector<HelpPage>& pages);

}  // namespace ocellus::app
