#include "apps/watch/narrator.h"

#include <algorithm>

#include "apps/base/failure.h"
#include "apps/base/stop_request.h"

namespace ocellus::app {
namespace {

// Frames that are read while others are answered have sessions of their own, of a library as many as --sessions leaves.
int32_t count_sessions(const NarratorOptions& options) {
  if (options.memory == MemoryKind::kLibrary) return std::max(options.common.sessions.value_or(2), 2);
  return options.memory == MemoryKind::kRolling ? 2 : 1;
}

CommonOptions apply(const NarratorOptions& options, const WatchSettings& settings) {
  CommonOptions common = options.common;
  const bool is_rolling = options.memory == MemoryKind::kRolling;
  common.sessions = count_sessions(options);
  common.images = options.clips.frames > 0 ? 0 : settings.frames;
  if (common.pack.bits != settings.kv_bits) common.pack.set_bits(settings.kv_bits);
  common.evict.keep = settings.keep;
  if (settings.keep < 1 && common.evict.method == "none") common.evict.method = "value-window";
  if (is_rolling && !common.evict.compress_at) common.evict.compress_at = "image-end";
  return common;
}

// A clip is that of a caption, or all frames in memory for a question; its words are planned with it.
Needs needs_of(const NarratorOptions& options, const WatchSettings& settings) {
  Needs needs = {
      .images = settings.frames,
      .prompt_tokens = kMaxPromptTokens + kTokensPerFrame * settings.frames,
      .answer_tokens = options.common.params.max_tokens,
      .largest = {.pixels = options.image_pixels, .side = options.image_side, .whole_pixels = options.whole_pixels},
      .are_frames = true};
  if (options.clips.frames == 0) return needs;
  needs.images = 0;
  needs.clip_frames = std::max(options.clips.frames, settings.frames);
  needs.prompt_tokens = kMaxPromptTokens;
  return needs;
}

// A refusal with what --memory rolling has to do with it, if it chose the time of compression.
Failure explain_rolling(const Failure& refusal, const NarratorOptions& options) {
  const std::string sentence = refusal.what();
  const bool is_chosen = options.memory == MemoryKind::kRolling && !options.common.evict.compress_at;
  if (!is_chosen || sentence.find("--compress-at") == std::string::npos) return refusal;
  return Failure(refusal.exit_code(),
                 sentence + "; --memory rolling compresses frame by frame, --memory replay does not.");
}

}  // namespace

ocellus_plan Narrator::plan(const Model& model, const NarratorOptions& options, const WatchSettings& settings) {
  CommonOptions common = apply(options, settings);
  common.quiet = true;
  const Needs needs = needs_of(options, settings);
  check_context(model.facts, needs);
  const ocellus_limits limits = make_limits(model, common, needs);
  try {
    const ocellus_plan plan = plan_memory(model, limits, common);
    if (!plan.fits) throw Failure(kExitOverBudget, describe_shortfall(plan, common) + ".");
    return plan;
  } catch (const Failure& refusal) {
    throw explain_rolling(refusal, options);
  }
}

Narrator::Narrator(const Model& model, const NarratorOptions& options, const WatchSettings& settings)
    : common_(apply(options, settings)),
      question_options_(common_),
      running_(start(model, common_, needs_of(options, settings))) {
  question_options_.constrain.given = nullptr;
  others_ = open_more_sessions(running_, common_, *common_.sessions - 1);
  if (options.memory == MemoryKind::kLibrary) {
    // Captions are those of frames that are read where they stand; what is linked loses a little.
    check(running_.session.clear_library());
    check(running_.session.set_linking(false));
  }
  memory_ = std::make_unique<FrameMemory>(questions().front(), options.memory, settings.frames);
}

std::vector<Session*> Narrator::questions() {
  if (others_.empty()) return {&running_.session};
  std::vector<Session*> sessions;
  for (Session& other : others_) sessions.push_back(&other);
  return sessions;
}

// Begins a turn with the text before the picture, which is read once while it stays the same; takes it out of `parts`.
// Returns OCELLUS_OK or OCELLUS_CANCELLED.
ocellus_status Narrator::begin_turn(std::vector<TurnPart>* parts) {
  Session* session = &running_.session;
  const bool has_text = !parts->front().text.empty();
  const std::string beginning = has_text ? parts->front().text : "";
  const bool is_known = beginning == beginning_ && take(session->rewind());
  if (!is_known) {
    beginning_ = beginning;
    check(session->forget_all());
    check(session->begin_turn());
    if (has_text) check(session->add_text(beginning));
    const ocellus_status status = session->mark().code();
    if (status == OCELLUS_CANCELLED) return status;
    if (status != OCELLUS_UNSUPPORTED) check(status);
  }
  if (has_text) parts->erase(parts->begin());
  return OCELLUS_OK;
}

TurnAnswer Narrator::caption(const TurnPart& shown, const std::string& prompt, int64_t deadline_ns,
                             const TextSink& sink) {
  Session* session = &running_.session;
  const StoppableWork work(session->get());
  std::vector<TurnPart> parts = place_in_prompt(prompt, shown);
  TurnAnswer answer;
  try {
    answer.status = begin_turn(&parts);
    ocellus_session_set_deadline(session->get(), deadline_ns);
    if (answer.status == OCELLUS_OK) answer.status = add_turn_parts(session, parts);
    if (answer.status == OCELLUS_OK) answer = end_turn(session, common_, sink);
  } catch (const Failure&) {
    session->clear_deadline();
    throw;
  }
  session->clear_deadline();
  return answer;
}

}  // namespace ocellus::app
