// ocellus chat [IMAGE...]
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/base/table.h"
#include "apps/base/terminal.h"
#include "apps/base/token_count.h"
#include "apps/commands/commands.h"
#include "apps/commands/retrieve.h"
#include "apps/setup/answer.h"
#include "apps/setup/board_likeness.h"
#include "apps/setup/image_file.h"
#include "apps/setup/options.h"
#include "apps/setup/policy_report.h"
#include "apps/setup/prompt.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

constexpr int32_t kChatImages = 8;
constexpr int32_t kChatTextTokens = 2048;
constexpr int32_t kChatThoughts = 2;  // planned in addition: those of earlier answers stay
constexpr char kChatHelp[] =
    "Lines of the conversation:\n"
    "  /image PATH  add a picture to your next message\n"
    "  /reset       start again with an empty conversation\n"
    "  /stats       time and memory of the last answer\n"
    "  /help        this list\n"
    "  /quit        leave (or end the input)\n"
    "  other lines  messages, in which <image> marks a picture's place and\n"
    "  <retrieve: WORDS or PATH, n>  inserts the n best pictures of --library\n";

struct ChatOptions {
  CommonOptions common;
  std::vector<std::string> image_paths;
};

class Chat {
 public:
  Chat(const ChatOptions& options, const Model& model, Running& running, std::vector<ImageFile> images)
      : options_(options.common),
        model_(model),
        running_(running),
        decorated_(stdin_is_terminal() && stdout_is_terminal()),
        waiting_(std::move(images)) {}

  // Returns the exit code of the first failure, unless a person types: the conversation goes on after it.
  int run() {
    if (decorated_ && !options_.quiet) print("Type a message, /image PATH or /help.\n");
    while (!quit_) {
      if (decorated_) print("> ");
      std::string line;
      if (!std::getline(std::cin, line)) break;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      try {
        obey(line);
      } catch (const Failure& failure) {
        print_failure(failure.what());
        if (!decorated_ && exit_code_ == kExitOk) exit_code_ = failure.exit_code();
      }
      flush_output();
    }
    if (decorated_ && !quit_) print("\n");
    return exit_code_;
  }

 private:
  void obey(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string command = line.substr(0, space);
    const std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
    if (line.find_first_not_of(" \t") == std::string::npos) return;
    if (line[0] != '/') return say(line);
    if (command == "/image") return take_image(argument);
    if (command == "/reset") return reset();
    if (command == "/stats") return show_stats();
    if (command == "/help") return static_cast<void>(print(kChatHelp));
    if (command == "/quit" || command == "/exit") return static_cast<void>(quit_ = true);
    throw Failure(kExitUsage, "unknown command " + command + "; see /help.");
  }

  void take_image(const std::string& path) {
    if (path.empty()) throw Failure(kExitUsage, "/image needs the path of a picture.");
    if (open_descriptor(path) == STDIN_FILENO)
      throw Failure(kExitUsage, path + ": what you write comes from there; /image needs the path of a picture.");
    waiting_.push_back(probe_image(path));
    const ImageFile& image = waiting_.back();
    remark(image.path + ": " + std::to_string(image.width) + " x " + std::to_string(image.height) +
           ", goes with your next message.");
    remark_on_far_pictures(model_, options_, {image});
  }

  void reset() {
    check(running_.session.forget_all());
    waiting_.clear();
    images_seen_ = 0;
    remark("The conversation starts again.");
  }

  // Returns the parts with library entries in the places that ask for them.
  std::vector<PromptPart> retrieve(const std::vector<PromptPart>& parts) {
    std::vector<PromptPart> placed = place_retrievals(parts, options_.library);
    taken_.clear();
    if (!has_retrievals(placed)) return placed;
    retrieve_by_words(running_.library, options_.library.owner, &placed, &taken_);
    retrieve_by_pictures(&running_.session, &placed, &taken_);
    if (!options_.quiet) remark_on_retrieved(taken_);
    return placed;
  }

  void say(const std::string& text) {
    const std::vector<PromptPart> parts = retrieve(place_images(
        text, waiting_, {.form = model_.facts.image_numbers, .all = options_.numbers_images, .earlier = images_seen_}));
    waiting_.clear();  // a picture that fails is not tried again with the next message
    const int64_t images = count_images(parts);
    Answer answer;
    try {
      answer = answer_turn(&running_.session, parts, options_, options_.json ? Streaming::kOff : Streaming::kToStdout);
    } catch (const Failure&) {
      forget_turn();
      throw;
    }
    if (answer.interrupted && written_tokens(answer.stats) == 0) {
      forget_turn();
    } else {
      images_seen_ += images;
      last_ = answer.stats;
    }
    show_end(answer);
  }

  void show_end(const Answer& answer) {
    if (options_.json) {
      nlohmann::ordered_json object = {{"command", "chat"}, {"answer", answer.text}};
      if (!taken_.empty()) object["retrieved"] = retrieved_json(taken_);
      if (!answer.thought.empty()) object["thought"] = answer.thought;
      object.update(stats_json(answer.stats));
      print(json_line(object));
    } else {
      print("\n");
    }
    if (answer.interrupted) remark("(interrupted)");
    if (answer.stats.stop == OCELLUS_STOP_FULL) {
      remark("The conversation is full; /reset starts again, --text-tokens plans a longer one.");
    }
  }

  // Removes what a failed turn added. A cancelled generate drops its turn and keeps the earlier conversation; if that
  // fails, too, the whole conversation is dropped.
  void forget_turn() {
    Session* session = &running_.session;
    session->cancel();
    ocellus_generate_params params = generate_params(options_);
    params.max_tokens = 1;
    if (session->generate(params, nullptr).code() != OCELLUS_CANCELLED) {
      check(session->forget_all());
      images_seen_ = 0;
      print_note("The conversation had to start again.");
    }
  }

  void show_stats() {
    const ocellus_engine_stats engine = running_.engine_stats();
    if (options_.json) {
      nlohmann::ordered_json object = {{"command", "stats"}, {"images", images_seen_}};
      object.update(stats_json(last_));
      object["arena_bytes"] = engine.arena_bytes;
      object["policy"] = policy_json(running_.limits);
      print(json_line(object));
      return;
    }
    const auto in_ms = [](double value) { return format_number(value, 1) + " ms"; };
    Table table("ll");
    table.add_row({"pictures in the conversation", std::to_string(images_seen_)});
    table.add_row({"prompt tokens of the last turn", std::to_string(last_.prompt_tokens)});
    table.add_row({"  of them from pictures", std::to_string(last_.image_tokens)});
    table.add_row({"reading and resizing pictures", in_ms(last_.preprocess_ms)});
    table.add_row({"encoding pictures", in_ms(last_.encode_ms)});
    table.add_row({"reading the prompt", in_ms(last_.prefill_ms)});
    table.add_row({"time to the first token", in_ms(last_.first_token_ms)});
    table.add_row({"generated tokens", std::to_string(last_.generated_tokens)});
    if (last_.thought_tokens > 0) table.add_row({"tokens of the thought", std::to_string(last_.thought_tokens)});
    table.add_row({"tokens per second", format_number(decode_tokens_per_second(last_), 1)});
    table.add_row({"cache in use", format_bytes(last_.kv_bytes)});
    if (last_.kv_scale_bytes > 0) table.add_row({"  of it scales", format_bytes(last_.kv_scale_bytes)});
    table.add_row({"  as f16 with nothing dropped", format_bytes(last_.kv_bytes_full)});
    table.add_row({"cache of pictures", describe_policy(running_.limits)});
    table.add_row({"memory of the engine", format_bytes(engine.arena_bytes)});
    print(table.plain_text());
  }

  void remark(const std::string& text) const {
    if (!options_.quiet) print_note(text);
  }

  const CommonOptions& options_;
  const Model& model_;
  Running& running_;
  bool decorated_;  // a person types and reads
  bool quit_ = false;
  ExitCode exit_code_ = kExitOk;  // the first failure's
  std::vector<ImageFile> waiting_;
  std::vector<Retrieved> taken_;  // library entries of the newest message
  int64_t images_seen_ = 0;
  ocellus_generate_stats last_ = {};
};

int run_chat(ChatOptions options) {
  const std::vector<ImageFile> images = probe_images(options.image_paths);
  const Model model = open_model(options.common);
  choose_text_tokens(model.facts, kChatTextTokens, kChatThoughts, &options.common);
  const int64_t planned_images =
      std::max<int64_t>(options.common.images.value_or(kChatImages), static_cast<int64_t>(images.size()));
  // Larger pictures may follow.
  PictureSize largest = largest_size(images);
  largest.pixels = std::max(largest.pixels, kPhotoPixels);
  largest.side = std::max(largest.side, kPhotoSide);
  largest.whole_pixels = std::max(largest.whole_pixels.value_or(0), kScreenPixels);
  const Needs needs = {.images = model.facts.has_vision || !images.empty() ? planned_images : 0, .largest = largest};
  remark_on_far_pictures(model, options.common, images);
  Running running = start(model, options.common, needs);
  return Chat(options, model, running, images).run();
}

}  // namespace

void add_chat_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<ChatOptions>();
  CLI::App* command = program->add_subcommand("chat", "Hold a conversation, typed or piped in");
  command->add_option("IMAGE", options->image_paths, "Pictures that go with the first message");
  add_shared_flags(command, &options->common);
  command->footer(kChatHelp);
  command->callback([=] { *action = [=] { return run_chat(*options); }; });
}

}  // namespace ocellus::app
