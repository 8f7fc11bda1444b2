#include "apps/commands/ask_day.h"

#include <algorithm>
#include <optional>

#include "apps/base/clock.h"
#include "apps/base/failure.h"
#include "apps/base/stop_request.h"
#include "apps/base/terminal.h"
#include "apps/day/day_answerer.h"
#include "apps/setup/answer.h"
#include "apps/setup/prompt.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

int64_t parse_time(const char* flag, const std::string& text, int64_t now_ms) {
  const auto at_ms = parse_since(text, now_ms);
  if (at_ms) return *at_ms;
  throw Failure(kExitUsage, std::string(flag) + " " + text +
                                ": write a time before now, as in 90m, 2h or 1d, or as in 09:30, 2026-11-27 or "
                                "\"2026-11-27 09:30\".");
}

nlohmann::ordered_json frames_json(const DayAnswer& answer) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const SeenFrame& seen : answer.frames) {
    list.push_back({{"at_ms", seen.frame.at_ms},
                    {"key", seen.frame.key},
                    {"caption", seen.frame.caption},
                    {"label", seen.label},
                    {"named", seen.named}});
  }
  return list;
}

nlohmann::ordered_json answer_json(const std::string& prompt, const DayAnswer& answer) {
  nlohmann::ordered_json object = {{"command", "ask"},
                                   {"prompt", prompt},
                                   {"answer", answer.text},
                                   {"frames", frames_json(answer)},
                                   {"moments_ms", answer.moments_ms}};
  if (answer.count) object["count"] = *answer.count;
  object["checks"] = answer.checks;
  object["generated_tokens"] = answer.tokens;
  object["ttft_ms"] = answer.first_token_ms;
  return object;
}

}  // namespace

int run_ask_day(CommonOptions common, const std::string& prompt, const DayTimes& times) {
  LibraryOptions& library = common.library;
  if (library.path.empty()) throw Failure(kExitUsage, "--since is about a library of frames: add --library DIR.");
  if (library.owner.empty()) library.owner = kCameraOwner;
  const int64_t real_ms = wall_ms(monotonic_ns());
  const int64_t end_ms = times.until.empty() ? INT64_MAX : parse_time("--until", times.until, real_ms);
  std::optional<int64_t> since_ms;
  if (!times.since.empty()) since_ms = parse_time("--since", times.since, real_ms);
  const DayFrames frames(open_existing_library(library.path), library.path, library.owner, {});
  const std::vector<DayFrame> all = frames.list();
  if (all.empty()) {
    throw Failure(kExitUsage, library.path + ": " + library.owner + " has no frames there; `ocellus watch --memory " +
                                  "library` keeps them.");
  }
  // The entries say how they are packed and linked.
  if (!common.pack.packs() && all.back().bits < 16) common.pack.set_bits(all.back().bits);
  if (common.reuse.method.empty()) common.reuse.method = "spread:" + std::to_string(all.back().input_rows);
  const Model model = open_model(common);
  const int32_t most = static_cast<int32_t>(common.images.value_or(kLinkedFrames));
  const Needs needs = {.images = most,
                       .prompt_tokens = kMaxPromptTokens + kTokensPerFrame * most,
                       .answer_tokens = common.params.max_tokens,
                       .largest = {.pixels = kScreenPixels, .whole_pixels = {}}};
  Running running = start(model, common, needs);
  watch_for_stop();
  Sessions others = open_more_sessions(running, common, common.sessions.value_or(1) - 1);
  std::vector<Session*> sessions = {&running.session};
  for (Session& other : others) sessions.push_back(&other);
  DayAnswerer answerer(sessions, frames, common, most);
  answerer.set_bounds({since_ms.value_or(all.front().at_ms), end_ms});
  // A clock may have been ahead while frames were kept.
  const int64_t now_ms = times.until.empty() ? std::max(real_ms, all.back().at_ms) : end_ms;
  const int64_t start_ns = monotonic_ns();
  const TextSink show = [](const std::string& piece) { print(piece); };
  DayAnswer answer;
  answerer.ask(prompt, now_ms, common.json ? TextSink() : show, &answer);
  if (!answer.remark.empty() && !common.quiet) print_note(answer.remark + "; captions were used instead.");
  if (!common.json) {
    print("\n");
    return kExitOk;
  }
  nlohmann::ordered_json object = answer_json(prompt, answer);
  object["total_ms"] = static_cast<double>(monotonic_ns() - start_ns) / 1e6;
  object["arena_bytes"] = running.plan.total_bytes;
  print(json_line(object));
  return kExitOk;
}

}  // namespace ocellus::app
