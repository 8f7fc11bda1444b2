// ocellus library add DIR --owner NAME IMAGE...
#include <CLI/CLI.hpp>
#include <ctime>
#include <memory>
#include <optional>

#include "apps/base/interrupt.h"
#include "apps/base/progress.h"
#include "apps/base/sizes.h"
#include "apps/base/terminal.h"
#include "apps/base/value_flags.h"
#include "apps/commands/library_items.h"
#include "apps/setup/answer.h"
#include "apps/setup/image_file.h"
#include "apps/setup/options.h"
#include "apps/setup/prompt.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

struct AddOptions {
  CommonOptions common;
  std::vector<std::string> image_paths;
  std::vector<std::string> tags;
  std::optional<int64_t> lifetime_s;  // 0: no expiry
  std::optional<std::string> caption;
  bool shared = false;
  bool pinned = false;
  bool describes = false;
};

// Labels from the flags; flags that are not given keep the values of `item`, if there is one.
struct Labels {
  Labels(const AddOptions& options, const ocellus_library_item* item) {
    for (const std::string& tag : options.tags) tags.push_back(tag.c_str());
    for (int32_t i = 0; item != nullptr && options.tags.empty() && i < item->tag_count; ++i)
      tags.push_back(item->tags[i]);
    keep.shared = options.shared ? 1 : 0;
    keep.only_there = 1;
    keep.pinned = options.pinned || (item != nullptr && item->pinned != 0) ? 1 : 0;
    keep.expires = item != nullptr ? item->expires : 0;
    if (options.lifetime_s && item != nullptr)  // a new entry lives from when it is written, to the end of that second
      keep.expires = *options.lifetime_s > 0 ? std::time(nullptr) + *options.lifetime_s + 1 : 0;
    keep.caption = options.caption ? options.caption->c_str() : item != nullptr ? item->caption : nullptr;
    keep.tags = tags.data();
    keep.tag_count = static_cast<int32_t>(tags.size());
  }
  Labels(const Labels&) = delete;
  Labels& operator=(const Labels&) = delete;

  ocellus_library_keep keep = library_keep();
  std::vector<const char*> tags;
};

// Adds the picture alone. Returns false if it was interrupted.
bool add_picture(Running& running, const ImageFile& image, const AddOptions& options) {
  const InterruptScope interruptible(&running.session);
  const std::shared_ptr<Frame> file = read_image(image);
  const ocellus_status status = running.session.add_encoded_image(file->bytes).code();
  if (status != OCELLUS_OK && status != OCELLUS_CANCELLED) {
    throw picture_failure(status, image.path, largest_size({image}), options.common);
  }
  return status == OCELLUS_OK && !interruptible.is_requested();
}

void show_item(const AddOptions& options, const ImageFile& image, const ocellus_library_item& item, bool stored) {
  if (options.common.json) {
    nlohmann::ordered_json object = {{"command", "library add"}, {"image", image.path}, {"stored", stored}};
    object.update(item_json(item));
    print(json_line(object));
    return;
  }
  print(image.path + ": " + item.key + ", " + format_count(item.bytes, "byte") + ", " +
        format_count(item.tokens, "token") + ", " + (stored ? "stored" : "already there") +
        (options.describes ? std::string(": ") + item.caption : "") + "\n");
}

// Returns false if it was interrupted.
bool add_to_library(Running& running, const ImageFile& image, AddOptions options) {
  Session* const session = &running.session;
  const Library& library = running.library;
  check(session->forget_all());
  if (options.describes) {
    const Answer answer = answer_turn(session, place_images(kCaptionPrompt, {image}), options.common, Streaming::kOff);
    if (answer.interrupted) return false;
    options.caption = make_caption(answer.text);
  } else if (!add_picture(running, image, options)) {
    return false;
  }
  const ocellus_library_image added = take(session->get_library_image(), image.path);
  const std::string& owner = options.common.library.owner;
  ocellus_library_item item = describe_item(library, owner, added.key);
  const bool says_more = options.describes || options.lifetime_s ||
                         (added.stored == 0 && (!options.tags.empty() || options.caption || options.pinned));
  if (says_more) {
    const Labels labels(options, &item);
    if (!take(library.relabel(owner.c_str(), added.key, labels.keep), image.path))
      throw no_entry(owner, added.key, options.shared);
    item = describe_item(library, owner, added.key);
  }
  show_item(options, image, item, added.stored != 0);
  return true;
}

int run_add(AddOptions options) {
  const std::vector<ImageFile> images = probe_images(options.image_paths);
  const Model model = open_model(options.common);
  // Greedy: the caption is the model's most probable one.
  options.common.params.temperature = 0;
  Needs needs = {.images = 1, .largest = largest_size(images)};
  if (options.describes) {
    needs.prompt_tokens = count_text_tokens(model, place_images(kCaptionPrompt, {images[0]}));
    needs.answer_tokens = options.common.params.max_tokens;
  }
  Running running = start(model, options.common, needs);
  const Labels labels(options, nullptr);
  check(running.session.set_library_keep(labels.keep));
  Progress progress(options.common.quiet, "adding to the library", "picture");
  options.common.quiet = true;  // one progress for all pictures
  int64_t added = 0;
  for (const ImageFile& image : images) {
    progress.set(added++, std::ssize(images), image.path);
    if (!add_to_library(running, image, options)) return kExitInterrupted;
  }
  progress.set(added, added);
  return kExitOk;
}

void set_lifetime(AddOptions* options, const std::string& text) {
  options->lifetime_s = text == "never" ? std::optional<int64_t>(0) : parse_seconds(text);
  if (!options->lifetime_s)
    throw Failure(kExitUsage, "--expires " + text + ": write a time from now, as in 90s, 30m, 12h or 7d, or never.");
}

}  // namespace

void add_library_add(CLI::App* library, Action* action) {
  const auto options = std::make_shared<AddOptions>();
  CLI::App* command = library->add_subcommand("add", "Compute the entries of pictures and store them");
  command->add_option("DIR", options->common.library.path, "The library's folder")->required();
  command->add_option("IMAGE", options->image_paths, "Picture files, or - for standard input")->required();
  const std::string group = "Entries";
  command->add_flag("--shared", options->shared, "In the shared part, which all owners read. NAME must administer it")
      ->group(group);
  add_value(command, group, "--tag", "T", &options->tags, "A tag. May be repeated, 8 times at most")
      ->take_all()
      ->allow_extra_args(false);
  add_parsed(
      command, group, "--expires", "TIME", [options](const std::string& text) { set_lifetime(options.get(), text); },
      "Expiry: 90s, 30m, 12h or 7d from now, or never");
  command->add_flag("--pin", options->pinned, "Exempt from removal by quotas")->group(group);
  const auto caption = add_value(command, group, "--caption", "TEXT", &options->caption, "Caption of the pictures");
  command->add_flag("--describe", options->describes, "Let the model write the caption")
      ->excludes(caption)
      ->group(group);
  add_shared_flags(command, &options->common);
  command->footer("For a picture that is stored already, flags that are not given keep their values.");
  command->callback([=] { *action = [=] { return run_add(*options); }; });
}

}  // namespace ocellus::app
