// The library's cache methods, for help pages, flags and reports.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/ocellus.h"

namespace ocellus::app {

// Returns "david" for "david:rho=1".
std::string method_name(const std::string& text);

// Names as flags show them, "snapkv|david": all, or the recommended ones.
enum class MethodNames { kAll, kRecommended };
std::string join_method_names(ocellus_method_kind kind, MethodNames which);

// Refuses a text that ocellus_method_check refuses, with its sentence.
CLI::Validator method_of(ocellus_method_kind kind);

// Returns the options of the method in a text, each with its value (numbers and words). Empty for none.
nlohmann::ordered_json method_options_json(ocellus_method_kind kind, const std::string& text);

// Returns the page of all methods, and the same as JSON.
std::string methods_text();
nlohmann::ordered_json methods_json();

}  // namespace ocellus::app
