// ocellus library list|verify|gc|remove DIR
#include <CLI/CLI.hpp>
#include <ctime>
#include <memory>
#include <vector>

#include "apps/answer.h"
#include "apps/commands.h"
#include "apps/failure.h"
#include "apps/setup.h"
#include "apps/sizes.h"
#include "apps/table.h"
#include "apps/terminal.h"

namespace ocellus {
namespace {

struct LibraryOptions {
  std::string path;
  std::string owner;
  std::string key;
  bool json = false;
};

// "2026-11-22 14:05", UTC; "-" for none
std::string time_text(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts = {};
  char text[32];
  if (seconds == 0 || gmtime_r(&time, &parts) == nullptr) return "-";
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

int add_item(void* user, const ocellus_library_item* item) {
  static_cast<std::vector<ocellus_library_item>*>(user)->push_back(*item);
  return 0;
}

int list_library(const LibraryOptions& options) {
  std::vector<ocellus_library_item> items;
  const Library library = open_library(options.path);
  check(ocellus_library_list(library.get(), options.owner.c_str(), add_item, &items));
  Table table("llrrrll");
  table.add_row({"key", "part", "bits", "tokens", "bytes", "created", "last used"});
  for (const ocellus_library_item& item : items) {
    if (options.json) {
      print(json_line({{"key", item.key},
                       {"shared", item.shared != 0},
                       {"bits", item.bits},
                       {"tokens", item.tokens},
                       {"views", item.views},
                       {"pinned", item.pinned != 0},
                       {"bytes", item.bytes},
                       {"created", item.created},
                       {"last_used", item.last_used},
                       {"expires", item.expires}}));
    }
    table.add_row({item.key, item.shared != 0 ? "shared" : "own", std::to_string(item.bits),
                   std::to_string(item.tokens), std::to_string(item.bytes), time_text(item.created),
                   time_text(item.last_used)});
  }
  if (!options.json) print(table.plain_text());
  return kExitOk;
}

int remove_from_library(const LibraryOptions& options) {
  const Library library = open_library(options.path);
  int32_t found = 0;
  check(ocellus_library_remove(library.get(), options.owner.c_str(), options.key.c_str(), &found));
  if (found == 0) throw Failure(kExitBadInput, options.owner + " has no entry " + options.key + ".");
  return kExitOk;
}

using Upkeep = ocellus_status (*)(ocellus_library*, ocellus_library_report*);

// Exit code 1 where something was wrong, so that a script hears of it.
int look_after_library(const LibraryOptions& options, Upkeep upkeep, const char* command) {
  const Library library = open_library(options.path);
  ocellus_library_report report;
  check(upkeep(library.get(), &report));
  if (options.json) {
    print(json_line({{"command", command},
                     {"checked", report.checked},
                     {"sound", report.sound},
                     {"set_aside", report.set_aside},
                     {"expired", report.expired},
                     {"unfinished", report.unfinished},
                     {"adopted", report.adopted},
                     {"dropped", report.dropped}}));
  } else {
    Table table("lr");
    const auto add = [&](const char* name, int64_t count) {
      if (count > 0) table.add_row({name, std::to_string(count)});
    };
    table.add_row({"entries read", std::to_string(report.checked)});
    add("sound", report.sound);
    add("damaged, set aside", report.set_aside);
    add("expired, removed", report.expired);
    add("unfinished, removed", report.unfinished);
    add("added to the catalogue", report.adopted);
    add("dropped from the catalogue", report.dropped);
    print(table.plain_text());
  }
  return report.set_aside > 0 ? kExitRuntime : kExitOk;
}

}  // namespace

void add_library_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<LibraryOptions>();
  CLI::App* library = program->add_subcommand("library", "What pictures became, kept for later runs");
  library->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, bool needs_owner, auto run) {
    CLI::App* command = library->add_subcommand(name, help);
    command->add_option("DIR", options->path, "The library's folder")->required();
    if (needs_owner) command->add_option("--owner", options->owner, "Whose entries")->option_text("NAME")->required();
    command->add_flag("--json", options->json, "JSON on stdout");
    command->callback([=] { *action = [=] { return run(*options); }; });
    return command;
  };
  add("list", "The entries that an owner sees", true, list_library);
  add("remove", "Removes an entry", true, remove_from_library)
      ->add_option("KEY", options->key, "As list shows it")
      ->required();
  add("verify", "Reads every entry and sets damaged ones aside", false,
      [](const LibraryOptions& given) { return look_after_library(given, ocellus_library_verify, "library verify"); });
  add("gc", "Removes what has expired and what dead writers left", false, [](const LibraryOptions& given) {
    return look_after_library(given, ocellus_library_collect_garbage, "library gc");
  });
}

}  // namespace ocellus
