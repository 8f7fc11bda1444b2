// The library's cache methods, for help pages, flags and reports.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/ocellus.h"

namespace CLI {
class App;
}

namespace ocellus::app {

// Returns "david" for "david:rho=1".
std::string method_name(const std::string& text);

// Names as flags show them, "snapkv|david": all, or the recommended ones.
enum class MethodNames { kAll, kRecommended };
std::string join_method_names(ocellus_method_kind kind, MethodNames which);

// Adds a flag that takes a method with options, and refuses what ocellus_method_check refuses. Its help names the
// recommended methods; those of eval, and of a kind without any, name all.
void add_method_flag(CLI::App* command, const char* flag, ocellus_method_kind kind, std::string* method,
                     const char* help);
// Adds a flag for the share that a method keeps.
void add_share_flag(CLI::App* command, const char* flag, float* share, const char* help);

// Copies the text of a method to its field. Throws a Failure for one that is too long.
void set_method(const std::string& flag, const std::string& text, char (&field)[OCELLUS_METHOD_TEXT]);

// "2", "0.25"
std::string plain_number(double value);

// Returns the options of the method in a text, each with its value (numbers and words). Empty for none.
nlohmann::ordered_json method_options_json(ocellus_method_kind kind, const std::string& text);

// Returns the page of all methods and of the pairs that cannot be, and the same as JSON.
std::string methods_text();
nlohmann::ordered_json methods_json();

}  // namespace ocellus::app
