// ocellus ask --prompt TEXT IMAGE...
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/answer.h"
#include "apps/commands.h"
#include "apps/failure.h"
#include "apps/image_file.h"
#include "apps/options.h"
#include "apps/prompt.h"
#include "apps/setup.h"
#include "apps/terminal.h"

namespace ocellus {
namespace {

struct AskOptions {
  CommonOptions common;
  std::vector<std::string> image_paths;
  std::string prompt;
};

int run_ask(const AskOptions& options) {
  const std::vector<ImageFile> images = probe_images(options.image_paths);
  const std::vector<PromptPart> parts = place_images(options.prompt, images);
  const Model model = open_model(options.common);
  const Needs needs = {.images = static_cast<int64_t>(images.size()),
                       .prompt_tokens = count_text_tokens(model.get(), parts),
                       .answer_tokens = options.common.answer_tokens,
                       .image_pixels = largest_pixels(images)};
  const Running running = start(model, options.common, needs);
  const Answer answer = answer_turn(running.session.get(), parts, options.common,
                                    options.common.json ? Streaming::kOff : Streaming::kToStdout);
  if (options.common.json) {
    nlohmann::ordered_json object = {
        {"command", "ask"}, {"images", options.image_paths}, {"prompt", options.prompt}, {"answer", answer.text}};
    object.update(stats_json(answer.stats));
    object["arena_bytes"] = running.plan.total_bytes;
    object["policy"] = policy_json(running.limits);
    print(json_line(object));
  } else {
    print("\n");
  }
  remark_on_full(answer, options.common);
  return answer.interrupted ? kExitInterrupted : kExitOk;
}

}  // namespace

void add_ask_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<AskOptions>();
  CLI::App* command = program->add_subcommand("ask", "One answer over all pictures");
  command->add_option("IMAGE", options->image_paths, "JPEG or PNG files; none: a question about nothing but text")
      ->option_text("...");
  command
      ->add_option("--prompt", options->prompt,
                   "The question; <image> marks where the pictures go, otherwise they go first")
      ->required()
      ->option_text("TEXT");
  add_common_options(command, &options->common);
  command->callback([=] { *action = [=] { return run_ask(*options); }; });
}

}  // namespace ocellus
