// ocellus pages DIR
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "apps/base/failure.h"
#include "apps/commands/commands.h"
#include "apps/help/completions.h"
#include "apps/help/help_page.h"
#include "apps/help/man_page.h"
#include "runtime/ocellus.h"

namespace ocellus::app {
namespace {

namespace fs = std::filesystem;

// Today, or the day that a build which must be repeatable sets, as reproducible-builds.org has it.
std::string page_date() {
  const char* const fixed = std::getenv("SOURCE_DATE_EPOCH");
  const std::time_t now = fixed != nullptr ? static_cast<std::time_t>(std::atoll(fixed)) : std::time(nullptr);
  std::tm day = {};
  char text[16] = {};
  if (gmtime_r(&now, &day) != nullptr) (void)std::strftime(text, sizeof text, "%Y-%m-%d", &day);
  return text;
}

void write_page(const fs::path& path, const std::string& text) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw file_failure(path.string(), "cannot be written");
}

int run_pages(const CLI::App& program, const std::string& folder) {
  const std::vector<HelpPage> pages = read_pages(program);
  const fs::path root = folder;
  for (const HelpPage& page : pages)
    write_page(root / "man" / "man1" / (man_name(page) + ".1"), man_page(page, pages, ocellus_version(), page_date()));
  write_page(root / "bash-completion" / "completions" / "ocellus", bash_completion(pages));
  write_page(root / "zsh" / "site-functions" / "_ocellus", zsh_completion(pages));
  write_page(root / "fish" / "vendor_completions.d" / "ocellus.fish", fish_completion(pages));
  return kExitOk;
}

}  // namespace

void add_pages_command(CLI::App* program, Action* action) {
  const auto folder = std::make_shared<std::string>();
  CLI::App* command = program->add_subcommand("pages", "Write manual pages and completions for shells");
  command->add_option("DIR", *folder, "Folder for them, as ~/.local/share")->required();
  command->footer(
      "Files:\n"
      "  man/man1/ocellus*.1                     a manual page for each command\n"
      "  bash-completion/completions/ocellus     for bash\n"
      "  zsh/site-functions/_ocellus             for zsh\n"
      "  fish/vendor_completions.d/ocellus.fish  for fish\n"
      "\nAn installation has them already. They are written from the texts of --help.\n");
  command->callback([=] { *action = [=] { return run_pages(*program, *folder); }; });
}

}  // namespace ocellus::app
