// Entries of the image library as the program prints them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/base/failure.h"
#include "apps/commands/commands.h"
#include "runtime/ocellus.hpp"

namespace ocellus::app {

// "2026-11-22 14:05", UTC; "-" for none
std::string time_text(int64_t seconds);

// Throws a Failure if the owner sees no such entry.
ocellus_library_item describe_item(const Library& library, const std::string& owner, const std::string& key);
Failure no_entry(const std::string& owner, const std::string& key, bool shared);

bool has_tag(const ocellus_library_item& item, const std::string& tag);
// "kitchen, robot"
std::string joined_tags(const ocellus_library_item& item);

nlohmann::ordered_json item_json(const ocellus_library_item& item);

// Subcommands of `library` that need a model.
void add_library_add(CLI::App* library, Action* action);
void add_library_search(CLI::App* library, Action* action);

}  // namespace ocellus::app
