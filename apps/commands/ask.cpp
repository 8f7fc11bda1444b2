// ocellus ask --prompt TEXT IMAGE...
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "apps/base/failure.h"
#include "apps/base/number_validator.h"
#include "apps/base/terminal.h"
#include "apps/commands/commands.h"
#include "apps/commands/retrieve.h"
#include "apps/setup/answer.h"
#include "apps/setup/board_likeness.h"
#include "apps/setup/clip_file.h"
#include "apps/setup/image_file.h"
#include "apps/setup/options.h"
#include "apps/setup/prompt.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

struct AskOptions {
  CommonOptions common;
  std::vector<std::string> image_paths;
  std::string prompt;
  ClipOptions clip;
};

nlohmann::ordered_json clip_json(const Clip& clip) {
  return {{"path", clip.path}, {"duration", clip.duration}, {"seconds", clip.seconds}};
}

int run_ask(const AskOptions& options) {
  const std::vector<ImageFile> images = probe_images(options.image_paths);
  const CacheOptions& cache = options.common.cache;
  std::vector<PromptPart> parts = place_retrievals(place_images(options.prompt, images), cache);
  const bool retrieves = has_retrievals(parts);
  std::vector<Retrieved> taken;
  const Model model = open_model(options.common);
  // Retrieved pictures count in the plan, so the search runs before there is an engine.
  if (retrieves) retrieve_by_words(open_library(cache.library_path).get(), cache.owner, &parts, &taken);
  PictureSize largest = largest_size(images);
  include_queries(parts, &largest);
  std::shared_ptr<const Clip> clip;
  if (!options.clip.path.empty()) {
    clip = std::make_shared<Clip>(read_clip(model, options.clip, options.common.quiet));
    parts.insert(parts.begin(), {.clip = clip});
    largest.include(clip->largest);
  }
  const Needs needs = {.images = count_images(parts),
                       .clip_frames = clip == nullptr ? 0 : static_cast<int32_t>(clip->frames.size()),
                       .prompt_tokens = count_text_tokens(model.get(), parts),
                       .answer_tokens = options.common.answer_tokens,
                       .largest = largest};
  remark_on_far_pictures(model, options.common, images);
  const Running running = start(model, options.common, needs);
  retrieve_by_pictures(running.session.get(), &parts, &taken);
  if (!options.common.quiet) remark_on_retrieved(taken);
  const Answer answer = answer_turn(running.session.get(), parts, options.common,
                                    options.common.json ? Streaming::kOff : Streaming::kToStdout);
  if (options.common.json) {
    nlohmann::ordered_json object = {
        {"command", "ask"}, {"images", options.image_paths}, {"prompt", options.prompt}, {"answer", answer.text}};
    if (clip != nullptr) object["clip"] = clip_json(*clip);
    if (retrieves) object["retrieved"] = retrieved_json(taken);
    if (!answer.thought.empty()) object["thought"] = answer.thought;
    object.update(stats_json(answer.stats));
    object["arena_bytes"] = running.plan.total_bytes;
    object["policy"] = policy_json(running.limits);
    print(json_line(object));
  } else {
    print("\n");
  }
  remark_on_end(answer, options.common);
  return answer.interrupted ? kExitInterrupted : kExitOk;
}

}  // namespace

void add_ask_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<AskOptions>();
  CLI::App* command = program->add_subcommand("ask", "One answer over all pictures");
  command->add_option("IMAGE", options->image_paths, "JPEG, PNG or WebP files; none: a question without pictures")
      ->option_text("...");
  command
      ->add_option("--prompt", options->prompt,
                   "The question; <image> marks where the pictures go, otherwise they go first; <retrieve: WORDS or "
                   "FILE, n> takes the n best from --library")
      ->required()
      ->option_text("TEXT");
  const auto clip = command
                        ->add_option("--clip", options->clip.path,
                                     "Video that goes before the pictures: an MJPEG or Y4M file, or a directory of "
                                     "pictures; makes every picture one view")
                        ->option_text("FILE");
  command
      ->add_option("--fps", options->clip.frames_per_second,
                   "Rate of the video (default: the Y4M header's; MJPEG 30, directory 1)")
      ->option_text("X")
      ->check(number_between(0.001, 100000))
      ->needs(clip);
  command->add_option("--clip-frames", options->clip.frames, "Maximum frames of the video (default: the model's)")
      ->option_text("N")
      ->check(number_between(1, 999))
      ->needs(clip);
  add_common_options(command, &options->common);
  add_thought_options(command, &options->common);
  add_show_thoughts_option(command, &options->common);
  command->callback([=] { *action = [=] { return run_ask(*options); }; });
}

}  // namespace ocellus::app
