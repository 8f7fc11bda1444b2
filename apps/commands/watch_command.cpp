// ocellus watch SOURCE
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "apps/base/failure.h"
#include "apps/base/number_validator.h"
#include "apps/base/sizes.h"
#include "apps/base/stop_request.h"
#include "apps/base/terminal.h"
#include "apps/base/value_flags.h"
#include "apps/camera/posted_source.h"
#include "apps/commands/commands.h"
#include "apps/setup/prompt.h"
#include "apps/watch/clip_pace.h"
#include "apps/watch/typed_questions.h"
#include "apps/watch/watcher.h"
#ifdef OCELLUS_HAS_HTTP
#include "apps/watch/watch_page.h"
#endif

namespace ocellus::app {
namespace {

constexpr int64_t kLeastHistoryBytes = 1 << 20;
#ifdef OCELLUS_HAS_HTTP
constexpr int64_t kEventBytes = int64_t{256} << 10;  // maximum that waits for one page
#endif
constexpr char kVideoPrompt[] = "Describe this video.";
constexpr char kFooter[] =
    "Sources:\n"
    "  /dev/videoN  a camera\n"
    "  a folder     pictures, in the order of their names; none is skipped\n"
    "  a file or -  MJPEG, Y4M or raw frames (--format, --size); - is stdin\n"
    "  browser      the camera of the browser that opens the page of --http\n"
    "  synthetic    a moving scene, see --scene\n"
    "\nLines typed while it runs are questions about the frames in memory (\"What changed?\", \"When did the red "
    "circle "
    "appear?\"); /prompt TEXT, /every S, /pause, /resume, /stats, /forget TIME and /quit act. Ctrl-C ends.\n";

struct CommandOptions {
  WatchOptions watch;
  std::string memory = "replay";
  std::optional<int32_t> frames;
  ClipWish clips;
  std::optional<std::string> prompt;
  std::string size;
  double stall_s = 2;
  std::string http;
  std::string token, token_file;
  std::string on, run, post;
  bool post_anywhere = false;
};

void add_source_options(CLI::App* command, CommandOptions* options) {
  SourceOptions* source = &options->watch.capture.source;
  command->add_option("SOURCE", source->name, "Camera, folder, file, -, browser or synthetic")->required();
  add_value(command, "Source", "--format", "NAME", &source->format,
            "Format of raw frames, or to request of a camera. One of " + raw_format_names());
  add_value(command, "Source", "--color", "auto|bt601|bt709|bt601-full|bt709-full", &source->color,
            "Color space (default: auto). auto: as stated by the camera or the Y4M header; where GStreamer wrote the "
            "frames, bt709 above 576 lines; else bt601")
      ->check(CLI::IsMember({"auto", "bt601", "bt709", "bt601-full", "bt709-full"}));
  add_value(command, "Source", "--size", "WIDTHxHEIGHT", &options->size,
            "Size of raw frames, or to request of a camera");
  add_value(command, "Source", "--stride", "gstreamer|N[,N]", &source->stride,
            "Bytes from one row of raw frames to the next (default: no padding). One number, one for each plane, or "
            "gstreamer: as GStreamer pads them");
  add_value(command, "Source", "--fps", "X", &source->frames_per_second, "Frames a second to request, or to play at")
      ->check(number_between(0, 1000));
  command->add_flag("--loop", source->loop, "Folders and files start again at their end")->group("Source");
  add_value(command, "Source", "--stall-after", "S", &options->stall_s,
            "Seconds without a frame that are a stall (default: 2)")
      ->check(number_between(0.05, 3600));
  add_value(command, "Source", "--scene", "shapes|day", &source->scene,
            "Synthetic scene, shapes or a scripted day (default: shapes)")
      ->check(CLI::IsMember({"shapes", "day"}));
  add_value(command, "Source", "--speed", "X", &source->speed,
            "Seconds of the day per second. 0: as fast as answers come")
      ->check(number_between(0, 1e6));
  add_value(command, "Source", "--date", "YYYY-MM-DD", &source->date, "Date of the day (default: today)");
  add_value(command, "Source", "--truth", "FILE", &source->truth_path, "Write the events of the day as lines of JSON");
  add_value(command, "Source", "--faults", "LIST", &source->faults, "Faults of the synthetic scene, for tests");
}

void add_watch_options(CLI::App* command, CommandOptions* options) {
  WatchSettings* settings = &options->watch.settings;
  settings->change = 0.02;
  add_value(command, "Watching", "--prompt", "TEXT", &options->prompt,
            "Prompt (default: Caption this image.). With --clip-frames: Describe this video.");
  add_value(command, "Watching", "--frames", "N", &options->watch.frame_limit, "End after N answered frames")
      ->check(number_between(0, 1e12));
  add_value(command, "Watching", "--every", "S", &settings->every_s,
            "Minimum seconds between answered frames (default: 0)")
      ->check(number_between(0, 3600));
  add_value(command, "Watching", "--change", "X", &settings->change,
            "Skip frames in which no place changed by more than X (default: 0.02). X is a share of full brightness; 0 "
            "skips none")
      ->check(number_between(0, 1));
  add_value(command, "Watching", "--deadline", "MS", &settings->deadline_ms,
            "Deadline, from capture to the end of the answer")
      ->check(number_between(0, 600000));
  add_value(command, "Watching", "--memory-frames", "N", &options->frames,
            "Frames in memory for questions (default: 8). With --memory library those in a prompt (default: 4)")
      ->check(number_between(1, 64));
  add_value(command, "Watching", "--memory", "replay|rolling|library", &options->memory,
            "Kind of memory for questions (default: replay). Frames are read when a question comes (replay), as they "
            "come (rolling), or kept in --library for days (library)")
      ->check(CLI::IsMember({"replay", "rolling", "library"}));
}

void add_day_options(CLI::App* command, DayOptions* day) {
  const std::string group = "Days";
  day->quota.bytes = int64_t{256} << 20;
  add_value(command, group, "--remember-change", "X", &day->change,
            "Keep frames in which some place differs by X from the last kept one (default: 0.05). X is a share of full "
            "brightness; frames with another caption are always kept")
      ->check(number_between(0, 1));
  add_parsed(
      command, group, "--library-size", "SIZE",
      [day](const std::string& text) {
        const auto bytes = parse_bytes(text);
        if (!bytes || *bytes <= 0) throw Failure(kExitUsage, "--library-size " + text + ": write a size, as in 256M.");
        day->quota.bytes = *bytes;
      },
      "Maximum bytes of the kept frames and the catalogue (default: 256M)");
  add_parsed(
      command, group, "--library-age", "TIME",
      [day](const std::string& text) {
        const auto seconds = parse_seconds(text);
        if (!seconds || *seconds <= 0) {
          throw Failure(kExitUsage, "--library-age " + text + ": write a time, as in 90s, 30m, 12h or 7d.");
        }
        day->quota.age_ms = *seconds * 1000;
      },
      "Maximum age of the kept frames (default: none)");
  add_parsed(
      command, group, "--library-drops", "redundant|oldest",
      [day](const std::string& text) { day->quota.rule = text == "oldest" ? DayRule::kOldest : DayRule::kRedundant; },
      "Frames removed first when it is full (default: redundant)")
      ->check(CLI::IsMember({"redundant", "oldest"}));
}

// --memory library needs a folder, and pictures that can be linked into other prompts.
void set_day(CommandOptions* options) {
  CommonOptions& common = options->watch.narrator.common;
  if (common.library.path.empty()) throw Failure(kExitUsage, "--memory library needs a folder: add --library DIR.");
  if (options->clips.frames > 0) {
    throw Failure(kExitUsage, "--memory library keeps pictures, and not clips: leave out --clip-frames.");
  }
  if (common.reuse.method == "prefix") {
    throw Failure(kExitUsage, "--memory library links frames at any place, which --reuse prefix does not.");
  }
  if (common.library.owner.empty()) common.library.owner = kCameraOwner;
  // Several linked frames in one prompt, packed, need more rows in place than one: see tools/bench/results/day.json.
  if (common.reuse.method.empty()) common.reuse.method = "spread:40";
  options->watch.narrator.memory = MemoryKind::kLibrary;
  options->watch.day.folder = common.library.path;
  options->watch.day.owner = common.library.owner;
}

void add_clip_options(CLI::App* command, ClipWish* clips) {
  const auto frames = add_value(command, "Watching", "--clip-frames", "N", &clips->frames,
                                "Answer about clips of N frames (default: 1 picture). These are the newest frame and "
                                "those captured before it, with their times")
                          ->check(number_between(2, kMaxClipFrames));
  add_value(command, "Watching", "--clip-fps", "X", &clips->frames_per_second,
            "Maximum frames of a clip per second (default: the model's)")
      ->check(number_between(0.001, 1000))
      ->needs(frames);
}

void add_output_options(CLI::App* command, CommandOptions* options) {
  add_value(command, "Page", "--http", "ADDRESS:PORT", &options->http,
            "Serve the page, as on 127.0.0.1:8080. Other addresses than loopback need --token");
  add_value(command, "Page", "--token", "TEXT", &options->token, "Token required to open the page");
  add_value(command, "Page", "--token-file", "FILE", &options->token_file,
            "File with the token. Other users can read arguments")
      ->excludes("--token");
  add_value(command, "Page", "--history", "DIR", &options->watch.history_path,
            "Keep captions and small pictures in a folder. It must be new or empty");
  options->watch.history_bytes = int64_t{256} << 20;
  add_parsed(
      command, "Page", "--history-size", "SIZE",
      [options](const std::string& text) {
        const auto bytes = parse_bytes(text);
        if (!bytes || *bytes < kLeastHistoryBytes) {
          throw Failure(kExitUsage, "--history-size " + text + ": write at least 1M.");
        }
        options->watch.history_bytes = *bytes;
      },
      "Maximum bytes of --history (default: 256M)");
}

void add_event_options(CLI::App* command, CommandOptions* options) {
  const auto add = [command](const char* flag, auto* target, const char* form, const char* meaning) {
    return add_value(command, "Events", flag, form, target, meaning);
  };
  const auto on = add("--on", &options->on, "CONDITION",
                      "Trigger when a JSON answer starts to match CONDITION. For example 'count > 3 and what contains "
                      "\"ring\"'");
  add("--run", &options->run, "COMMAND",
      "Run a command in a shell on a trigger. It gets the answer on its stdin, and 10 s; one runs at a time")
      ->needs(on);
  const auto post = add("--post", &options->post, "http://ADDRESS:PORT/PATH",
                        "Post the answer on a trigger. The address must be of this machine");
  post->needs(on);
  command->add_flag("--post-anywhere", options->post_anywhere, "Let --post send to other machines")
      ->needs(post)
      ->group("Events");
  add("--metric", &options->watch.answers.metrics, "FIELD",
      "Show a number of JSON answers in /metrics. Write a field, as count or objects.length; may be repeated")
      ->expected(1)
      ->take_all();
}

void check_events(CommandOptions* options) {
  AnswerEventOptions* answers = &options->watch.answers;
  if ((!options->on.empty() || !answers->metrics.empty()) &&
      !options->watch.narrator.common.constrain.answers_in_json()) {
    throw Failure(kExitUsage, "--on and --metric look at answers in JSON: add --schema or --json-answer.");
  }
  for (const std::string& field : answers->metrics) {
    if (field.find_first_of("\"\\ ") != std::string::npos)
      throw Failure(kExitUsage, "--metric " + field + ": write a field, as in objects.0.count.");
  }
  if (!options->on.empty()) answers->condition.emplace(options->on);
  if (!options->run.empty()) answers->errands["run"] = make_command(options->run);
  if (!options->post.empty()) answers->errands["post"] = make_post(options->post, options->post_anywhere);
}

void apply_size(const std::string& text, SourceOptions* source) {
  if (text.empty()) return;
  const size_t cross = text.find('x');
  const auto width = parse_pixels(text.substr(0, cross));
  const auto height = cross == std::string::npos ? std::nullopt : parse_pixels(text.substr(cross + 1));
  if (!width || !height || *width > 8192 || *height > 8192) {
    throw Failure(kExitUsage, "--size " + text + ": write WIDTHxHEIGHT, as in 640x480, at most 8192x8192.");
  }
  source->width = static_cast<int32_t>(*width);
  source->height = static_cast<int32_t>(*height);
}

void check_options(const CommandOptions& options) {
  const bool has_token = !options.token.empty() || !options.token_file.empty();
  if (has_token && options.http.empty()) throw Failure(kExitUsage, "--token needs --http.");
#ifndef OCELLUS_HAS_HTTP
  if (!options.http.empty()) {
    throw Failure(kExitUsage, "--http: this build has no HTTP server; build with libmicrohttpd.");
  }
#endif
}

int run_watch(CommandOptions options) {
  check_options(options);
  check_events(&options);
  WatchOptions& watch = options.watch;
  CommonOptions& common = watch.narrator.common;
  apply_size(options.size, &watch.capture.source);
  watch.capture.source.seed = common.params.seed;
  watch.capture.source.depth = common.pictures.depth;
  common.draft.is_tried = common.reuse.keeps_views = true;
  watch.capture.stall_after = std::chrono::milliseconds(static_cast<int64_t>(options.stall_s * 1000));
  std::error_code ignored;  // errors are reported where it is opened
  watch.capture.lossless = std::filesystem::is_directory(watch.capture.source.name, ignored);
  if (watch.capture.source.scene == "day" && watch.capture.source.speed == 0) watch.capture.lossless = true;
  if (watch.capture.source.name == "browser" && !options.http.empty()) {
    watch.capture.source.inbox = std::make_shared<FrameInbox>();
  }
  watch.narrator.memory = options.memory == "rolling" ? MemoryKind::kRolling : MemoryKind::kReplay;
  if (options.memory == "library") set_day(&options);
  watch.settings.frames = options.frames.value_or(options.memory == "library" ? kLinkedFrames : 8);
  options.clips.with_rolling_memory = options.memory == "rolling";
  if (options.clips.frames > 0) watch.narrator.memory = MemoryKind::kClip;
  watch.settings.prompt = options.prompt.value_or(options.clips.frames > 0 ? kVideoPrompt : kCaptionPrompt);
  watch.narrator.image_pixels = common.pictures.pixels.value_or(0);
  common.pictures.pixels.reset();  // larger frames are planned for when they come
  watch.settings.kv_bits = common.pack.bits;
  watch.settings.keep = common.evict.keep;
  watch.stays = !options.http.empty() && watch.frame_limit == 0;
  const Model model = open_model(common);
  watch.narrator.clips = choose_clip_pace(model, options.clips);
  watch_for_stop();
#ifdef OCELLUS_HAS_HTTP
  std::optional<HttpOptions> http;
  if (!options.http.empty()) {
    http = parse_http_address(options.http);
    http->token = options.token_file.empty() ? options.token : read_token_file(options.token_file);
    http->body_bytes = FrameInbox::kMaxBytes;
    http->stream_bytes = kEventBytes;
  }
#endif
  const bool reads_stdin = watch.capture.source.name == "-";
  [[maybe_unused]] const bool quiet = common.quiet;
  Watcher watcher(model, std::move(watch));
#ifdef OCELLUS_HAS_HTTP
  std::optional<WatchPage> page;
  if (http) {
    page.emplace(&watcher, *http);
    if (!quiet) print_note(describe_http_bytes(most_http_bytes(*http) + kMaxPageReadingBytes));
    const bool is_asked = watcher.inbox() != nullptr;
    print_urls(page->urls(), http->token, is_asked ? " (open it and press \"Use my camera\")" : "");
  }
#endif
  std::optional<TypedQuestions> typed;
  if (!reads_stdin) typed.emplace(&watcher);
  return watcher.run();
}

}  // namespace

void add_watch_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<CommandOptions>();
  CLI::App* command = program->add_subcommand("watch", "Describe what a camera sees, with a web page and questions");
  add_source_options(command, options.get());
  add_watch_options(command, options.get());
  add_day_options(command, &options->watch.day);
  add_clip_options(command, &options->clips);
  add_output_options(command, options.get());
  add_event_options(command, options.get());
  add_shared_flags(command, &options->watch.narrator.common);
  command->footer(kFooter);
  command->callback([=] {
    for (const char* flag : {"--remember-change", "--library-size", "--library-age", "--library-drops"}) {
      if (command->count(flag) > 0 && options->memory != "library") {
        throw Failure(kExitUsage, std::string(flag) + " goes with --memory library.");
      }
    }
    *action = [=] { return run_watch(*options); };
  });
}

}  // namespace ocellus::app
