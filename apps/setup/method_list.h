// The cache methods that the library has, for help pages, flags and reports.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/ocellus.h"

namespace ocellus::app {

// "david" of "david:rho=1".
std::string method_name(const std::string& text);

// Names as flags show them, "snapkv|david": all, or the few to begin with.
enum class MethodNames { kAll, kRecommended };
std::string join_method_names(ocellus_method_kind kind, MethodNames which);

// Refuses what ocellus_method_check refuses, with its sentence.
CLI::Validator method_of(ocellus_method_kind kind);

// The options of the method that a text names, each with the value that it has: numbers and words. Empty for none.
nlohmann::ordered_json method_options_json(ocellus_method_kind kind, const std::string& text);

// The page of all methods, and the same as JSON.
std::string methods_text();
nlohmann::ordered_json methods_json();

}  // namespace ocellus::app
