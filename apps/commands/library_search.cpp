// ocellus library search DIR --owner NAME --text WORDS | --image FILE
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/base/number_validator.h"
#include "apps/base/sizes.h"
#include "apps/base/table.h"
#include "apps/base/terminal.h"
#include "apps/base/value_flags.h"
#include "apps/commands/library_items.h"
#include "apps/commands/retrieve.h"
#include "apps/setup/answer.h"
#include "apps/setup/options.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

constexpr int32_t kMaxHits = 1000;

struct SearchOptions {
  CommonOptions common;
  std::string words;
  std::string image_path;
  int32_t count = 5;
};

std::vector<ocellus_library_hit> search(const SearchOptions& options) {
  const LibraryOptions& library = options.common.library;
  if (options.image_path.empty())
    return search_by_words(open_existing_library(library.path), library.owner, options.words, options.count);
  const ImageFile image = probe_image(options.image_path);
  (void)open_existing_library(library.path);
  const Model model = open_model(options.common);
  Running running = start(model, options.common, {.images = 1, .largest = largest_size({image})});
  return search_by_picture(&running.session, image, options.count);
}

int run_search(const SearchOptions& options) {
  const std::vector<ocellus_library_hit> hits = search(options);
  Table table("rlll");
  table.add_row({"score", "key", "part", "caption"});
  for (const ocellus_library_hit& hit : hits) {
    if (options.common.json) {
      nlohmann::ordered_json object = {{"score", hit.score}};
      object.update(item_json(hit.item));
      print(json_line(object));
    }
    table.add_row(
        {format_number(hit.score, 2), hit.item.key, hit.item.shared != 0 ? "shared" : "own", hit.item.caption});
  }
  if (options.common.json) return kExitOk;
  if (hits.empty()) {
    print_note("ocellus: " + options.common.library.owner + " sees no entries here that fit.");
  } else {
    print(table.plain_text());
  }
  return kExitOk;
}

}  // namespace

void add_library_search(CLI::App* library, Action* action) {
  const auto options = std::make_shared<SearchOptions>();
  CLI::App* command = library->add_subcommand("search", "Find the entries nearest to words or a picture");
  command->add_option("DIR", options->common.library.path, "The library's folder")->required();
  const auto words =
      add_value(command, "Search", "--text,WORDS", "WORDS", &options->words, "Words of captions and tags");
  const auto image =
      add_value(command, "Search", "--image", "FILE", &options->image_path, "Find entries similar to this picture")
          ->excludes(words);
  add_value(command, "Search", "-n", "N", &options->count, "Maximum number of entries (default: 5)")
      ->check(number_between(1, kMaxHits));
  add_shared_flags(command, &options->common);
  command->footer(
      "Scores: for words, the fraction of them in an entry's caption and tags, 0 to 1; for a picture, the cosine of "
      "both embeddings, -1 to 1.");
  command->callback([=] {
    if (words->count() == 0 && image->count() == 0)
      throw Failure(kExitUsage, "a search needs --text WORDS or --image FILE.");
    *action = [=] { return run_search(*options); };
  });
}

}  // namespace ocellus::app
