// ocellus caption IMAGE...
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/base/failure.h"
#include "apps/base/printable_text.h"
#include "apps/base/terminal.h"
#include "apps/base/value_flags.h"
#include "apps/commands/commands.h"
#include "apps/setup/answer.h"
#include "apps/setup/board_likeness.h"
#include "apps/setup/image_file.h"
#include "apps/setup/options.h"
#include "apps/setup/policy_report.h"
#include "apps/setup/prompt.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

struct CaptionOptions {
  CommonOptions common;
  std::vector<std::string> image_paths;
  std::string prompt = kCaptionPrompt;
};

int run_caption(const CaptionOptions& options) {
  const std::vector<ImageFile> images = probe_images(options.image_paths);
  const Model model = open_model(options.common);
  const ImageNumbers numbers{.form = model.facts.image_numbers, .all = options.common.numbers_images};
  const Needs needs = {.images = 1,
                       .prompt_tokens = count_text_tokens(model, place_images(options.prompt, {images[0]}, numbers)),
                       .answer_tokens = options.common.params.max_tokens,
                       .largest = largest_size(images)};
  remark_on_far_pictures(model, options.common, images);
  Running running = start(model, options.common, needs);
  const bool named = images.size() > 1;
  for (const ImageFile& image : images) {
    check(running.session.forget_all());
    const Answer answer = answer_turn(&running.session, place_images(options.prompt, {image}, numbers), options.common,
                                      options.common.json ? Streaming::kOff : Streaming::kToStdout,
                                      named ? make_printable(image.path, Lines::kOne) + ": " : "");
    if (options.common.json) {
      nlohmann::ordered_json object = {
          {"command", "caption"}, {"image", image.path}, {"prompt", options.prompt}, {"answer", answer.text}};
      if (!answer.thought.empty()) object["thought"] = answer.thought;
      object.update(stats_json(answer.stats));
      object["arena_bytes"] = running.plan.total_bytes;
      object["policy"] = policy_json(running.limits);
      print(json_line(object));
    } else {
      print("\n");
    }
    remark_on_end(answer, model, options.common);
    if (answer.interrupted) return kExitInterrupted;
  }
  return kExitOk;
}

}  // namespace

void add_caption_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<CaptionOptions>();
  CLI::App* command = program->add_subcommand("caption", "Describe each picture; 'ocellus PICTURE' does the same");
  command->add_option("IMAGE", options->image_paths, "Picture files, or - for standard input")->required();
  add_value(command, "Prompt", "--prompt", "TEXT", &options->prompt, "Prompt (default: Caption this image.)");
  add_shared_flags(command, &options->common);
  command->callback([=] { *action = [=] { return run_caption(*options); }; });
}

}  // namespace ocellus::app
