// ocellus ask --prompt TEXT IMAGE...
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "apps/base/failure.h"
#include "apps/base/number_validator.h"
#include "apps/base/plain_text.h"
#include "apps/base/retrieval_mark.h"
#include "apps/base/sizes.h"
#include "apps/base/terminal.h"
#include "apps/base/value_flags.h"
#include "apps/commands/ask_day.h"
#include "apps/commands/commands.h"
#include "apps/commands/retrieve.h"
#include "apps/setup/answer.h"
#include "apps/setup/board_likeness.h"
#include "apps/setup/clip_file.h"
#include "apps/setup/image_file.h"
#include "apps/setup/options.h"
#include "apps/setup/picture_places.h"
#include "apps/setup/policy_report.h"
#include "apps/setup/prompt.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

struct AskOptions {
  CommonOptions common;
  std::vector<std::string> image_paths;
  std::string prompt;
  ClipOptions clip;
  bool boxes = false;
  std::string drawing_path;  // empty: none
  DayTimes day;
  std::vector<std::string> choices;  // empty: the answer is generated
};

// --boxes is about one picture: an answer does not say in which of several its boxes are.
void check_boxes(const AskOptions& options, bool retrieves) {
  if (options.image_paths.size() != 1 || retrieves || !options.clip.path.empty()) {
    throw Failure(kExitUsage,
                  "--boxes needs exactly one picture, without a clip and retrieved ones: an answer does not say which "
                  "picture its boxes are in.");
  }
  if (options.drawing_path.empty()) return;
  check_drawing(options.drawing_path,
                {options.image_paths[0], options.common.model.path, options.common.model.mmproj_path});
}

void remark_on_cut_boxes(const Answer& answer, const AskOptions& options) {
  if (!options.boxes || options.common.quiet || answer.stats.stop != OCELLUS_STOP_MAX_TOKENS) return;
  print_note("The answer was cut after " + format_count(options.common.params.max_tokens, "token") +
             ", and with it the boxes that follow; see -n.");
}

// Choices share what is left when all else is ruled out, however improbable they are.
void remark_on_choices(const Answer& answer, const CommonOptions& common) {
  double sum = 0;
  for (const Choice& choice : answer.choices) sum += std::exp(choice.log_probability);
  if (common.quiet || answer.choices.empty() || sum >= 0.01) return;
  print_note(
      "The model is unlikely to answer with any of these: it spells its answers otherwise, perhaps with a capital "
      "letter or a full stop. Ask without --choices to see one.");
}

nlohmann::ordered_json clip_json(const Clip& clip) {
  return {{"path", clip.path}, {"duration", clip.duration}, {"seconds", clip.seconds}};
}

// A single text is a list with commas, several are a choice each.
void prepare_choices(AskOptions* options) {
  std::vector<std::string>& texts = options->choices;
  const CommonOptions& common = options->common;
  const bool has_choices = !texts.empty(), has_other = options->boxes || !options->day.since.empty();
  if ((has_other && (has_choices || common.top_logprobs)) ||
      (has_choices && (common.top_logprobs || common.constrain.given != nullptr)))
    throw Failure(kExitUsage,
                  "--choices and --logprobs go without --boxes, --since and each other, --choices without "
                  "--schema, --grammar, --regex and --json-answer.");
  if (!has_choices) return;
  if (texts.size() == 1) texts = CLI::detail::split(texts[0], ',');
  if (texts.size() == 1) throw Failure(kExitUsage, "--choices needs two or more, as in yes,no.");
  std::set<std::string> known;
  for (std::string& text : texts) {
    text = trim(text);
    if (text.empty() || text.size() > OCELLUS_MOST_CHOICE_BYTES || !known.insert(text).second)
      throw Failure(kExitUsage, "--choices: one is empty, there twice or longer than 4000 bytes.");
  }
  options->common.params.max_tokens = 0;
}

int run_ask_since(const AskOptions& options) {
  if (!options.image_paths.empty() || !options.clip.path.empty() || options.boxes ||
      options.common.constrain.given != nullptr)
    throw Failure(kExitUsage,
                  "--since asks about frames in a library, and answers in words: leave out pictures, --clip, --boxes, "
                  "--schema, --grammar, --regex and --json-answer.");
  return run_ask_day(options.common, options.prompt, options.day);
}

// A library without an owner and without anything to show of it is the one that a watch keeps.
bool is_about_watch(const AskOptions& options) {
  if (!options.day.since.empty()) return true;
  const LibraryOptions& library = options.common.library;
  const bool shows_something = !options.image_paths.empty() || !options.clip.path.empty() || options.boxes ||
                               options.prompt.find(kRetrievalBegin) != std::string::npos;
  return !library.path.empty() && library.owner.empty() && !shows_something;
}

int run_ask(AskOptions options) {
  prepare_choices(&options);
  if (is_about_watch(options)) return run_ask_since(options);
  const std::vector<ImageFile> images = probe_images(options.image_paths);
  const CommonOptions& common = options.common;
  // Marks are refused before a model is opened.
  const bool retrieves = has_retrievals(place_retrievals(place_images(options.prompt, images), common.library));
  if (options.boxes) check_boxes(options, retrieves);
  std::vector<Retrieved> taken;
  const Model model = open_model(common);
  const ImageNumbers numbers{.form = model.facts.image_numbers, .all = common.numbers_images};
  std::vector<PromptPart> parts = place_retrievals(place_images(options.prompt, images, numbers), common.library);
  if (options.boxes) require_places(model, "--boxes");
  // Retrieved pictures count in the plan, so the search runs before there is an engine.
  if (retrieves) retrieve_by_words(open_existing_library(common.library.path), common.library.owner, &parts, &taken);
  PictureSize largest = largest_size(images);
  include_queries(parts, &largest);
  std::shared_ptr<const Clip> clip;
  if (!options.clip.path.empty()) {
    clip = std::make_shared<Clip>(read_clip(model, options.clip, common.quiet));
    parts.insert(parts.begin(), {.clip = clip});
    largest.include(clip->largest);
  }
  const Needs needs = {
      .images = count_images(parts),
      .clip_frames = clip == nullptr ? 0 : static_cast<int32_t>(clip->frames.size()),
      .prompt_tokens = count_text_tokens(model, parts),
      .answer_tokens = std::max<int64_t>(common.params.max_tokens, most_answer_tokens(model, options.choices)),
      .largest = largest};
  remark_on_far_pictures(model, common, images);
  Running running = start(model, common, needs);
  retrieve_by_pictures(&running.session, &parts, &taken);
  if (!common.quiet) remark_on_retrieved(taken);
  const Answer answer =
      answer_turn(&running.session, parts, common,
                  common.json || options.boxes ? Streaming::kOff : Streaming::kToStdout, "", options.choices);
  if (answer.interrupted && !options.choices.empty()) return kExitInterrupted;
  std::vector<Place> places;
  if (options.boxes) places = read_places(answer.text, model, running.engine, images[0].width, images[0].height);
  if (common.json) {
    nlohmann::ordered_json object = {{"command", "ask"}, {"images", options.image_paths}, {"prompt", options.prompt}};
    object.update(answer_json(answer));
    if (options.boxes) object["places"] = places_json(places);
    if (clip != nullptr) object["clip"] = clip_json(*clip);
    if (retrieves) object["retrieved"] = retrieved_json(taken);
    if (!answer.thought.empty()) object["thought"] = answer.thought;
    object.update(stats_json(answer.stats));
    if (!answer.choices.empty()) object.erase("stop");  // nothing was generated
    object["arena_bytes"] = running.plan.total_bytes;
    object["policy"] = policy_json(running.limits);
    print(json_line(object));
  } else {
    print(options.boxes ? json_line(places_json(places)) : end_of_answer(answer));
  }
  if (!options.drawing_path.empty()) write_drawing(options.drawing_path, images[0], common.pictures.depth, places);
  remark_on_cut_boxes(answer, options);
  remark_on_choices(answer, common);
  remark_on_end(answer, model, common);
  return answer.interrupted ? kExitInterrupted : kExitOk;
}

void add_clip_options(CLI::App* command, ClipOptions* options) {
  const auto clip = add_value(command, "Video", "--clip", "FILE", &options->path,
                              "Video before the pictures: MJPEG, Y4M or a folder. A folder has its frames as pictures; "
                              "with a video every picture is one view");
  add_value(command, "Video", "--fps", "X", &options->frames_per_second,
            "Rate of the video (default: Y4M's own, MJPEG 30, folder 1)")
      ->check(app::number_between(0.001, 100000))
      ->needs(clip);
  add_value(command, "Video", "--clip-frames", "N", &options->frames,
            "Maximum frames of the video (default: the model's)")
      ->check(app::number_between(1, 999))
      ->needs(clip);
  add_parsed(
      command, "Video", "--clip-sampling", "authors|transformers",
      [options](const std::string& name) {
        options->sampling = static_cast<ocellus_clip_sampling>(
            number_of("--clip-sampling", name, {"authors", "transformers"}, "authors or transformers"));
      },
      "Rule that chooses frames (default: authors). As in the authors' code (Qwen: qwen-vl-utils), or in transformers' "
      "class")
      ->needs(clip);
}

}  // namespace

void add_ask_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<AskOptions>();
  CLI::App* command = program->add_subcommand("ask", "Answer a question about pictures or a video");
  command->add_option("IMAGE", options->image_paths, "Picture files, - for standard input, or none");
  add_value(command, "Prompt", "--prompt", "TEXT", &options->prompt,
            "The question, with <image> at a picture's place. Without it pictures precede the text; <retrieve: WORDS "
            "or FILE, n> takes the n best from --library")
      ->required();
  add_clip_options(command, &options->clip);
  const auto boxes = command
                         ->add_flag("--boxes", options->boxes,
                                    "Print boxes and points as JSON, in pixels. For one picture and "
                                    "models that answer with coordinates")
                         ->group("Answers");
  add_value(command, "Answers", "--draw", "FILE", &options->drawing_path,
            "Also write the picture with them, as PNG or JPEG")
      ->needs(boxes);
  const auto since = add_value(command, "Prompt", "--since", "TIME", &options->day.since,
                               "Ask about frames that a watch keeps in --library. From TIME on: 90m, 2h or 1d ago, "
                               "09:30, or 2026-11-27 (default: all, where no picture is given)");
  add_value(command, "Prompt", "--until", "TIME", &options->day.until, "End of the time asked about (default: now)")
      ->needs(since);
  add_value(
      command, "Answers", "--choices", "A,B,...", &options->choices,
      "Print the probability of each of these answers. None is generated; repeat the flag for choices with commas")
      ->allow_extra_args(false);
  add_value(command, "Answers", "--logprobs", "N", &options->common.top_logprobs,
            "Print log-probabilities of tokens and N alternatives. Prints the answer's perplexity as well")
      ->check(number_between(0, OCELLUS_MOST_TOP_LOGPROBS));
  add_shared_flags(command, &options->common);
  command->callback([=] { *action = [=] { return run_ask(*options); }; });
}

}  // namespace ocellus::app
