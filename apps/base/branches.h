// Parts of the library that its build may have left out.
#pragma once

#include <string>
#include <string_view>

namespace ocellus::app {

bool has_branch(std::string_view name);

// "branches: constrain, draft; left out: measure"
std::string describe_branches();

}  // namespace ocellus::app
