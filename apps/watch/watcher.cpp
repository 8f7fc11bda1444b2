#include "apps/watch/watcher.h"

#include <algorithm>

#include "apps/base/failure.h"
#include "apps/base/plain_text.h"
#include "apps/base/sizes.h"
#include "apps/base/stop_request.h"
#include "apps/base/terminal.h"
#include "apps/camera/jpeg.h"
#include "apps/day/day_answerer.h"
#include "apps/setup/board_likeness.h"
#include "apps/setup/picture_places.h"
#include "apps/watch/watch_settings.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kStateNs = 1'000'000'000;
constexpr int32_t kThumbnailSide = 240;
constexpr int32_t kMaxFailures = 3;  // consecutive device failures

double ms_between(int64_t from_ns, int64_t to_ns) { return static_cast<double>(to_ns - from_ns) / 1e6; }

// Names the source in sentences.
std::string spoken_name(const std::string& name) { return name == "-" ? "standard input" : name; }

std::vector<ClipFrame> list_frames(const ClipFrames& clip) {
  std::vector<ClipFrame> frames;
  for (size_t i = 0; i < clip.frames.size(); ++i) {
    const Frame& frame = *clip.frames[i];
    frames.push_back({.sequence = frame.sequence, .captured_ns = frame.captured_ns, .seconds = clip.seconds[i]});
  }
  return frames;
}

}  // namespace

Watcher::Watcher(const Model& model, WatchOptions options)
    : model_(model),
      options_(std::move(options)),
      events_(options_.narrator.common.quiet, options_.narrator.common.json),
      control_(options_.settings),
      history_(options_.history_path, options_.history_bytes, &events_),
      answers_(options_.answers, &events_),
      engine_(model_, options_.narrator, options_.settings),  // reports what does not fit before a camera is opened
      started_ns_(monotonic_ns()) {
  open();
  publish_state(/*at_once=*/true);
  engine_.check_text(options_.settings.prompt);
}

void Watcher::open() {
  // The source is opened before the engine, which takes time, and read once the engine is there: the first frames are
  // not lost.
  std::unique_ptr<FrameSource> source = open_source(options_.capture.source);
  engine_.start();
  if (!options_.day.folder.empty()) day_ = std::make_unique<DayMemory>(options_.day, &events_);
  live_ = std::make_unique<LivePicture>([this](const EncodedPicture& picture) {
    events_.tell("frame", {{"sequence", picture.sequence},
                           {"width", picture.width},
                           {"height", picture.height},
                           {"at_ms", wall_ms(picture.captured_ns)}});
  });
  if (options_.narrator.clips.frames > 0) recent_ = std::make_unique<RecentFrames>(options_.narrator.clips);
  CaptureOptions capture = options_.capture;
  capture.on_frame = [this](const Frame& frame) {
    live_->offer(frame);
    if (recent_) recent_->add(frame);
  };
  capture.on_event = [this](const std::string& text) { events_.note("warning", text); };
  capture.open = [&source](const SourceOptions&) { return std::move(source); };  // is called once, in Capture()
  capture_ = std::make_unique<Capture>(capture);
  intake_ = std::make_unique<FrameIntake>(IntakeSources{.capture = capture_.get(),
                                                        .control = &control_,
                                                        .counts = &counts_,
                                                        .recent = recent_.get(),
                                                        .clip_group = options_.narrator.clips.group});
}

int Watcher::run() {
  while (!stop_requested()) {
    apply_settings();
    answer_questions();
    publish_state(/*at_once=*/false);
    if (options_.frame_limit > 0 && counts_.records() >= options_.frame_limit) break;
    if (intake_->take(engine_.settings())) {
      answer_frame();
    } else if (capture_->status().state == SourceState::kEnded) {
      if (!options_.stays) break;
      control_.wait_for_change(kIdleWait);
    }
  }
  answers_.finish();
  publish_state(/*at_once=*/true);
  events_.show_end(state());
  flush_output();
  const CaptureStatus source = capture_->status();
  if (source.state == SourceState::kEnded && source.captured == 0) {
    throw Failure(kExitBadInput, spoken_name(options_.capture.source.name) + ": it has ended without a frame.");
  }
  return kExitOk;
}

void Watcher::apply_settings() {
  WatchSettings wanted = control_.settings();
  if (!engine_.serves(wanted)) {
    publish_state(/*at_once=*/true);  // shows activity
    try {
      engine_.remake(wanted);
    } catch (const Failure& failure) {
      events_.note("error", std::string(failure.what()) + " The previous settings stay in force.");
      const WatchSettings& before = engine_.settings();
      wanted.frames = before.frames;
      wanted.kv_bits = before.kv_bits;
      wanted.keep = before.keep;
      control_.set(wanted);
      engine_.remake(wanted);
    }
  }
  engine_.use(wanted);
}

void Watcher::answer_questions() {
  while (const std::optional<WatchQuestion> question = control_.next_question()) {
    if (stop_requested()) return;
    const QuestionAnswer answered = answer(*question);
    counts_.add_question();
    log_.add(answered);
    events_.show(answered);
  }
}

QuestionAnswer Watcher::answer(const WatchQuestion& question) {
  events_.tell("question_begin", {{"id", question.id}, {"question", question.text}});
  const auto tell = [&](const std::string& piece) {
    events_.tell("question_text", {{"id", question.id}, {"text", piece}});
  };
  QuestionAnswer answer;
  answer.id = question.id;
  answer.question = question.text;
  Narrator& narrator = engine_.narrator();
  try {
    if (day_) {
      answer_from_day(question.text, tell, &answer);
    } else {
      // Captions of a form are no descriptions.
      const bool describes = options_.narrator.common.constrain.given == nullptr;
      narrator.memory().ask(question.text, narrator.question_options(), tell,
                            log_.records(0, describes ? WatchLog::kMaxRecords : 0), &answer);
    }
  } catch (const Failure& failure) {
    answer.error = failure.what();
    answer.answered_ns = monotonic_ns();
  }
  return answer;
}

void Watcher::answer_from_day(const std::string& question, const TextSink& sink, QuestionAnswer* answer) {
  const int64_t start_ns = monotonic_ns();
  Narrator& narrator = engine_.narrator();
  DayAnswerer answerer(narrator.questions(), day_->frames(), narrator.question_options(), engine_.settings().frames);
  DayAnswer found;
  answerer.ask(question, now_ms(), sink, &found);
  answer->text = found.text;
  for (const SeenFrame& seen : found.frames) {
    AskedFrame& asked = answer->frames.emplace_back();
    asked.at_ms = seen.frame.at_ms;
    asked.key = seen.frame.key;
    asked.label = seen.label;
    asked.named = seen.named;
  }
  answer->tokens = found.tokens;
  answer->first_token_ms = found.first_token_ms;
  answer->answered_ns = monotonic_ns();
  answer->total_ms = ms_between(start_ns, answer->answered_ns);
  if (!found.remark.empty()) events_.note("warning", found.remark + "; captions were used instead.");
}

int64_t Watcher::now_ms() const {
  const int64_t scripted_ms = scripted_ms_;
  return scripted_ms > 0 ? scripted_ms : wall_ms(monotonic_ns());
}

std::string Watcher::forget(const std::string& words) {
  if (!day_) throw Failure(kExitUsage, "nothing is kept in a library: --memory library does that.");
  const TimedText timed = take_time_words(words, now_ms());
  const bool is_all = trim(to_lower(words)) == "everything";
  if (!is_all && (!timed.span || !trim(timed.text).empty())) {
    throw Failure(kExitUsage, "name the time to forget, as in \"between 9 and 10\" or \"today\", or \"everything\".");
  }
  const int32_t count = day_->frames().forget(is_all ? std::nullopt : timed.span);
  const std::string sentence = format_count(count, "frame") + " forgotten";
  if (is_all) return sentence + ".";
  return sentence + ", from " + clock_text(timed.span->begin_ms, 0) + " to " + clock_text(timed.span->end_ms, 0) + ".";
}

void Watcher::answer_frame() {
  const int64_t start_ns = monotonic_ns();
  Record record;
  record.id = counts_.records() + 1;
  record.sequence = intake_->frame().sequence;
  record.captured_ns = intake_->frame().captured_ns;
  record.at_ms = intake_->frame().wall_ms > 0 ? intake_->frame().wall_ms : wall_ms(record.captured_ns);
  scripted_ms_ = intake_->frame().wall_ms;
  record.prompt = engine_.settings().prompt;
  record.changed = intake_->change();
  events_.tell("caption_begin",
               {{"id", record.id}, {"sequence", record.sequence}, {"at_ms", record.at_ms}, {"prompt", record.prompt}});
  try {
    if (!caption(&record)) return;
    failures_in_a_row_ = 0;
  } catch (const Failure& failure) {
    if (!engine_.is_running()) throw;  // none could be created for a larger picture
    record.error = failure.what();
    if (failure.exit_code() == kExitRuntime) {
      if (++failures_in_a_row_ >= kMaxFailures) throw;
      events_.note("error", record.error + " The engine is created again.");
      counts_.add_restart();
      engine_.remake(engine_.settings());
    }
  }
  const int64_t end_ns = monotonic_ns();
  record.queue_ms = ms_between(record.captured_ns, start_ns);
  record.total_ms = ms_between(start_ns, end_ns);
  record.age_ms = ms_between(record.captured_ns, end_ns);
  keep(std::move(record));
}

// Answers for the record `id`.
TurnAnswer Watcher::describe(const TurnPart& shown, int64_t id) {
  const WatchSettings& settings = engine_.settings();
  const int64_t deadline_ns = settings.deadline_ms > 0 ? shown.frame->captured_ns + settings.deadline_ms * 1000000 : 0;
  const auto tell = [this, id](const std::string& piece) {
    events_.tell("caption_text", {{"id", id}, {"text", piece}});
  };
  try {
    return engine_.narrator().caption(shown, settings.prompt, deadline_ns, tell);
  } catch (const Failure& failure) {
    if (failure.exit_code() == kExitBadInput) intake_->drop_clip();
    throw;
  }
}

// Returns false if a stop was requested before the answer was complete.
bool Watcher::caption(Record* record) {
  const Frame& frame = intake_->frame();
  if (record->id == 1) {
    Picture seen;
    const std::string remark = describe_far_frame(model_, spoken_name(options_.capture.source.name), frame, &seen);
    if (!remark.empty()) events_.note("information", remark);
  }
  engine_.fit(frame);
  const TurnPart shown = {.frame = &frame, .clip = make_clip(intake_->clip())};
  record->clip = list_frames(shown.clip);
  const TurnAnswer answer = describe(shown, record->id);
  if (answer.status == OCELLUS_CANCELLED && stop_requested()) return false;
  record->text = answer.text;
  if (options_.narrator.common.constrain.answers_in_json()) {
    record->answer = parse_answer(answer.text, answer.stats.stop == OCELLUS_STOP_END_TOKEN);
  }
  record->thought = answer.thought;
  record->stats = answer.stats;
  record->deadline_missed = answer.status == OCELLUS_DEADLINE;
  if (record->deadline_missed) record->stats.stop = OCELLUS_STOP_DEADLINE;
  record->width = frame.width;
  record->height = frame.height;
  const Engine& engine = engine_.narrator().running().engine;
  // An answer about a clip does not say which frame its places are in.
  if (shown.clip.empty()) record->places = read_places(answer.text, model_, engine, frame.width, frame.height);
  engine_.narrator().memory().remember(record->id, record->captured_ns, frame);
  return true;
}

void Watcher::keep(Record record) {
  counts_.add(capture_->status().dropped, &record);
  if (!make_jpeg(intake_->frame(), kThumbnailSide, &thumbnail_)) thumbnail_.clear();
  record.has_thumbnail = !thumbnail_.empty();
  if (day_ && record.error.empty()) {
    day_->keep(engine_.narrator().questions().front(), intake_->frame(), record, thumbnail_);
  }
  events_.show(record);
  answers_.take(record);
  history_.add(record, thumbnail_);
  log_.add(std::move(record), thumbnail_);
}

void Watcher::publish_state(bool at_once) {
  const int64_t now = monotonic_ns();
  if (!at_once && now - last_state_ns_ < kStateNs) return;
  last_state_ns_ = now;
  const Json made = make_state();
  {
    const std::lock_guard lock(mutex_);
    state_ = made;
  }
  events_.tell("state", made);
}

Json Watcher::make_state() const {
  const CaptureStatus source = capture_->status();
  Json state = {{"version", ocellus_version()},
                {"uptime_s", static_cast<double>(monotonic_ns() - started_ns_) / 1e9},
                {"started_ms", wall_ms(started_ns_)},
                {"model", engine_.model_state()},
                {"source",
                 {{"name", options_.capture.source.name},
                  {"posted", inbox() != nullptr},
                  {"state", source_state_name(source.state)},
                  {"format", source.format},
                  {"trouble", source.trouble},
                  {"width", source.width},
                  {"height", source.height},
                  {"fps", source.frames_per_second}}},
                {"frames", counts_.frames_state(source)},
                {"latency_ms", counts_.latency_state()},
                {"settings", settings_json(engine_.settings())},
                {"limits", engine_.limits_state()},
                {"memory", engine_.memory_state(counts_.last_stats(), intake_->frame_bytes())},
                {"settings_pending", !engine_.serves(control_.settings())}};
  const ClipPace& clips = options_.narrator.clips;
  if (clips.frames > 0) state["clips"] = {{"frames", clips.frames}, {"fps", clips.frames_per_second}};
  const Json history = history_.state();
  if (!history.is_null()) state["history"] = history;
  if (day_) state["day"] = day_->state();
  if (options_.answers.condition) state["events"] = answers_.state();
  return state;
}

Json Watcher::state() const {
  std::unique_lock lock(mutex_);
  Json state = state_;
  lock.unlock();
  const WatchSettings wanted = control_.settings();
  state["settings"] = settings_json(wanted);
  state["settings_pending"] = !engine_.serves(wanted);
  return state;
}

std::string Watcher::metrics() const {
  PrometheusText text;
  counts_.add_metrics(capture_->status(), &text);
  answers_.add_metrics(&text);
  add_memory_metrics(state()["memory"], &text);
  if (day_) {
    const DayUse use = day_->frames().use();
    text.add_gauge("ocellus_library_frames", "Frames kept in the library.", static_cast<double>(use.frames));
    text.add_gauge("ocellus_library_bytes", "Bytes of these frames.", static_cast<double>(use.bytes));
  }
  text.add_process();
  return text.text();
}

std::string Watcher::trouble() const {
  const CaptureStatus source = capture_->status();
  if (source.state == SourceState::kRunning) return "";
  return source.trouble.empty() ? std::string("the source is ") + source_state_name(source.state) : source.trouble;
}

void Watcher::change_settings(const Json& changes) { control_.set(engine_.merge(changes, control_.settings())); }

std::optional<int64_t> Watcher::ask(const std::string& question) {
  engine_.check_text(question);
  return control_.ask(question);
}

}  // namespace ocellus::app
