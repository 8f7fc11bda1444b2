#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>

#include "apps/base/failure.h"
#include "apps/base/printable_text.h"
#include "apps/base/sizes.h"
#include "apps/base/value_flags.h"
#include "apps/setup/branches.h"

namespace ocellus::app {
namespace {

void set_library_cache(LibraryOptions* options, const std::string& size) {
  const std::optional<int64_t> bytes = parse_bytes(size);
  if (!bytes) throw Failure(kExitUsage, "--library-cache " + size + ": write a size, as in 64M or 1G.");
  options->cache_bytes = *bytes;
}

}  // namespace

void add_library_flags(CLI::App* command, LibraryOptions* options) {
  options->notes_new = command->get_option_no_throw("DIR") == nullptr;
  if (options->notes_new)
    add_value(command, "Reuse", "--library", "DIR", &options->path,
              "Image library, a folder of pictures' caches. Later runs find them; implies --reuse carry:16, or "
              "spread:16 for packed caches");
  add_value(command, "Reuse", "--owner", "NAME", &options->owner, "Owner of the pictures in the library")
      ->required(!options->notes_new);
  add_parsed(
      command, "Reuse", "--library-cache", "SIZE",
      [options](const std::string& size) { set_library_cache(options, size); },
      "Memory for the latest library entries (default: 0)");
}

void set_library(const LibraryOptions& options, ocellus_limits* limits) {
  limits->library = options.path.empty() ? 0 : 1;
  limits->library_cache_bytes = options.cache_bytes;
  if (limits->library != 0 && options.owner.empty())
    throw Failure(kExitUsage, "--library needs an --owner, whose pictures these are.");
  if (limits->library == 0 && !options.owner.empty()) throw Failure(kExitUsage, "--owner goes with a --library.");
  if (limits->library == 0 && options.cache_bytes > 0)
    throw Failure(kExitUsage, "--library-cache goes with a --library.");
}

// A new file system has a folder of its own.
bool holds_library(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path folder = path;
  if (fs::exists(folder, ignored) && !fs::is_directory(folder, ignored))
    throw Failure(kExitBadInput, path + ": a library is a folder, and this is a file.");
  if (fs::is_directory(folder / "entries", ignored)) return true;
  if (fs::exists(folder / "catalogue.sqlite", ignored)) return false;  // its lost parts are made again
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name != "lost+found" && name[0] != '.')
      throw Failure(kExitBadInput, path +
                                       ": there is no library here, but other files: name a library's folder, or a "
                                       "new or empty one to make one.");
  }
  return false;
}

Library open_library(const std::string& path) {
  (void)holds_library(path);
  return take(Library::open(path.c_str()));
}

Library open_existing_library(const std::string& path) {
  if (!holds_library(path)) {
    throw Failure(kExitBadInput, path + ": there is no library here; 'ocellus library add' makes one.");
  }
  return open_library(path);
}

std::vector<ocellus_library_item> list_items(const Library& library, const std::string& owner) {
  std::vector<ocellus_library_item> items;
  const auto add = [&](const ocellus_library_item& item) { return items.push_back(item), true; };
  check(library.list(owner.c_str(), add));
  return items;
}

std::string make_caption(const std::string& text) {
  constexpr size_t kMaxCaptionBytes = sizeof(ocellus_library_item::caption) - 1;
  std::string caption = make_printable(text, Lines::kMany);
  for (char& c : caption)
    if (c == '\n' || c == '\t') c = ' ';
  if (caption.size() <= kMaxCaptionBytes) return caption;
  size_t end = kMaxCaptionBytes;
  while (end > 0 && (static_cast<unsigned char>(caption[end]) & 0xC0) == 0x80) --end;
  return caption.substr(0, end);
}

}  // namespace ocellus::app
