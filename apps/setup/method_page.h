// The page of a single cache method.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ocellus::app {

// Returns the part of methods_text() that is about one method. Throws a Failure that lists the names if there is none.
std::string method_page(const std::string& name);

// Returns the same as JSON: the method's object in methods_json().
nlohmann::ordered_json method_page_json(const std::string& name);

}  // namespace ocellus::app
