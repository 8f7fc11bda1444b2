// ocellus library add|list|show|search|remove|pin|unpin|share|quota|verify|gc DIR
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/base/table.h"
#include "apps/base/terminal.h"
#include "apps/commands/commands.h"
#include "apps/commands/library_items.h"
#include "apps/setup/answer.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

struct LibraryArguments {
  std::string path;
  std::string owner;
  std::string key;
  std::string tag;
  std::string size;
  bool shared = false;
  bool json = false;
};

void show_table(const std::vector<ocellus_library_item>& items) {
  Table table("llrrrlll");
  table.add_row({"key", "part", "bits", "tokens", "bytes", "created", "last used", "caption"});
  for (const ocellus_library_item& item : items)
    table.add_row({item.key, item.shared != 0 ? "shared" : "own", std::to_string(item.bits),
                   std::to_string(item.tokens), std::to_string(item.bytes), time_text(item.created),
                   time_text(item.last_used), item.caption});
  print(table.plain_text());
}

int list_library(const LibraryArguments& options) {
  std::vector<ocellus_library_item> items = list_items(open_existing_library(options.path), options.owner);
  std::erase_if(items, [&](const ocellus_library_item& item) {
    return (options.shared && item.shared == 0) || (!options.tag.empty() && !has_tag(item, options.tag));
  });
  const bool is_part = options.shared || !options.tag.empty();
  if (options.json) {
    for (const ocellus_library_item& item : items) print(json_line(item_json(item)));
  } else if (items.empty()) {
    print_note("ocellus: " + options.owner + " sees no " + (is_part ? "such " : "") + "entries here.");
  } else {
    show_table(items);
  }
  return kExitOk;
}

int show_entry(const LibraryArguments& options) {
  const ocellus_library_item item = describe_item(open_existing_library(options.path), options.owner, options.key);
  if (options.json) {
    print(json_line(item_json(item)));
    return kExitOk;
  }
  Table table("ll");
  table.add_row({"key", item.key});
  table.add_row({"part", item.shared != 0 ? "shared" : "own"});
  table.add_row({"caption", item.caption[0] == '\0' ? "-" : item.caption});
  table.add_row({"tags", item.tag_count == 0 ? "-" : joined_tags(item)});
  table.add_row({"bits", std::to_string(item.bits)});
  table.add_row({"layers", std::to_string(item.layers)});
  table.add_row({"tokens", std::to_string(item.tokens)});
  table.add_row({"  read in place", std::to_string(item.input_rows)});
  table.add_row({"views", std::to_string(item.views)});
  table.add_row({"bytes", std::to_string(item.bytes)});
  table.add_row({"embedding", item.has_embedding != 0 ? std::to_string(item.embedding_width) + " numbers" : "no"});
  table.add_row({"pinned", item.pinned != 0 ? "yes" : "no"});
  table.add_row({"created", time_text(item.created)});
  table.add_row({"last used", time_text(item.last_used)});
  table.add_row({"expires", item.expires == 0 ? "never" : time_text(item.expires)});
  print(table.plain_text());
  return kExitOk;
}

void remove_entry(const Library& library, const LibraryArguments& options, const std::string& key) {
  if (!take(library.remove(options.owner.c_str(), key.c_str(), options.shared)))
    throw no_entry(options.owner, key, options.shared);
}

int remove_from_library(const LibraryArguments& options) {
  if (options.key.empty() == options.tag.empty())
    throw Failure(kExitUsage, "give either the KEY of an entry or a --tag.");
  const Library library = open_existing_library(options.path);
  if (!options.key.empty()) {
    remove_entry(library, options, options.key);
    return kExitOk;
  }
  int64_t removed = 0;
  for (const ocellus_library_item& item : list_items(library, options.owner)) {
    if ((item.shared != 0) != options.shared || !has_tag(item, options.tag)) continue;
    remove_entry(library, options, item.key);
    ++removed;
  }
  if (removed == 0)
    throw Failure(kExitBadInput, (options.shared ? "the shared part" : options.owner) + " has no entry with the tag " +
                                     options.tag + ".");
  return kExitOk;
}

int pin_entry(const LibraryArguments& options, bool pinned) {
  const Library library = open_existing_library(options.path);
  if (!take(library.set_pinned(options.owner.c_str(), options.key.c_str(), pinned, options.shared)))
    throw no_entry(options.owner, options.key, options.shared);
  return kExitOk;
}

int share_library(const LibraryArguments& options) {
  check(open_library(options.path).create_shared(options.owner.c_str()));
  return kExitOk;
}

int show_quota(const LibraryArguments& options) {
  const std::optional<int64_t> bytes = parse_bytes(options.size);
  if (!options.size.empty() && !bytes)
    throw Failure(kExitUsage, "quota " + options.size + ": write bytes or a size as 512M, or 0 for no limit.");
  const Library library = bytes ? open_library(options.path) : open_existing_library(options.path);
  if (bytes) check(library.set_owner_quota(options.owner.c_str(), *bytes));
  const ocellus_library_use use = take(library.describe_use(options.owner.c_str()));
  if (use.quota_bytes > 0 && use.bytes > use.quota_bytes)
    print_note("Note: the entries exceed this quota; it is enforced when the next entry is added.");
  if (options.json) {
    print(json_line({{"command", "library quota"},
                     {"owner", options.owner},
                     {"entries", use.entries},
                     {"bytes", use.bytes},
                     {"pinned_bytes", use.pinned_bytes},
                     {"quota_bytes", use.quota_bytes}}));
    return kExitOk;
  }
  Table table("lr");
  table.add_row({"entries", std::to_string(use.entries)});
  table.add_row({"bytes", std::to_string(use.bytes)});
  table.add_row({"  of them pinned", std::to_string(use.pinned_bytes)});
  table.add_row({"quota", use.quota_bytes == 0 ? "none" : std::to_string(use.quota_bytes)});
  print(table.plain_text());
  return kExitOk;
}

using Upkeep = Result<ocellus_library_report> (Library::*)() const;

// Exit code 1 if anything was wrong, for scripts.
int look_after_library(const LibraryArguments& options, Upkeep upkeep, const char* command) {
  const Library library = open_existing_library(options.path);
  const ocellus_library_report report = take((library.*upkeep)());
  if (options.json) {
    print(json_line({{"command", command},
                     {"checked", report.checked},
                     {"sound", report.sound},
                     {"set_aside", report.set_aside},
                     {"expired", report.expired},
                     {"unfinished", report.unfinished},
                     {"adopted", report.adopted},
                     {"dropped", report.dropped},
                     {"outdated", report.outdated}}));
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
    add("of an earlier version, removed", report.outdated);
    print(table.plain_text());
  }
  return report.set_aside > 0 ? kExitRuntime : kExitOk;
}

}  // namespace

void add_library_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<LibraryArguments>();
  CLI::App* const library =
      program->add_subcommand("library", "Manage an image library: caches of pictures for later runs");
  library->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, bool needs_owner, auto run) {
    CLI::App* command = library->add_subcommand(name, help);
    command->add_option("DIR", options->path, "The library's folder")->required();
    if (needs_owner) command->add_option("--owner", options->owner, "Whose entries")->option_text("NAME")->required();
    command->add_flag("--json", options->json, "JSON on stdout");
    command->callback([=] { *action = [=] { return run(*options); }; });
    return command;
  };
  const auto add_key = [&](CLI::App* command, bool required) {
    command->add_option("KEY", options->key, "Key as shown by list")->required(required);
  };
  const auto add_shared = [&](CLI::App* command, const char* help) {
    command->add_flag("--shared", options->shared, help);
  };
  const auto add_tag = [&](CLI::App* command, const char* help) {
    command->add_option("--tag", options->tag, help)->option_text("T");
  };
  add_library_add(library, action);
  CLI::App* command = add("list", "List the entries that an owner sees", true, list_library);
  add_shared(command, "Only those of the shared part");
  add_tag(command, "Only those with this tag");
  add_key(add("show", "Show all facts of an entry", true, show_entry), true);
  add_library_search(library, action);
  command = add("remove", "Remove an entry, or all with a tag", true, remove_from_library);
  add_key(command, false);
  add_shared(command, "In the shared part");
  add_tag(command, "All with this tag");
  for (const bool pinned : {true, false}) {
    command = add(pinned ? "pin" : "unpin", pinned ? "Exempt an entry from removal by quotas" : "Undo pin", true,
                  [pinned](const LibraryArguments& given) { return pin_entry(given, pinned); });
    add_key(command, true);
    add_shared(command, "In the shared part");
  }
  add("share", "Create the shared part, which all owners read and NAME writes", true, share_library);
  add("quota", "Show or set the bytes that an owner's entries may take", true, show_quota)
      ->add_option("SIZE", options->size, "New limit, as 512M; 0: no limit");
  add("verify", "Check every entry and set damaged ones aside", false,
      [](const LibraryArguments& given) { return look_after_library(given, &Library::verify, "library verify"); });
  add("gc", "Remove expired entries and files of crashed writers", false,
      [](const LibraryArguments& given) { return look_after_library(given, &Library::collect_garbage, "library gc"); });
}

}  // namespace ocellus::app
